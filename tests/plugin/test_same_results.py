"""However pytest is called, the results of a run have the same fingerprint."""

import json
import zlib
from pathlib import Path

import pytest
from fleet.machine import Machine
from support.recorded import run_pytest, write_fleet

from nodegate.records.results import RESULTS

WAYS: dict[str, list[str]] = {
    "by itself": [],
    "names of items": ["-v"],
    "everything in full": ["-vv", "-rA", "--tb=long"],
    "no capture": ["-s"],
    "no words": ["-q", "-q"],
    "junit of pytest": ["--junitxml=theirs.xml"],
    "two workers": ["-n", "2"],
    "no cache": ["-p", "no:cacheprovider"],
    "a hook on each item": ["-p", "by_pytest"],
    "all results": ["--all-results"],
}


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    machines = [Machine.hgx_h100(f"gpu{number:04}", number) for number in range(1, 4)]
    machines[1].set_link(machines[1].gpu_address(5), width=2)
    write_fleet(folder, machines)
    (folder / "recordings/gpu0003/facts.json").unlink()
    (folder / "by_pytest.py").write_text("def pytest_runtest_setup(item):\n    pass\n")
    return folder


def fingerprint(folder: Path, run: str, *arguments: str) -> tuple[str, int]:
    outcome = run_pytest(folder, ["--passive", "--run-dir", run, *arguments], PYTHONPATH=str(folder))
    assert outcome.exit_code == 1, outcome.stdout + outcome.stderr
    report = json.loads((folder / run / "report.json").read_text())
    return report["results_sha256"], report["details"]["lines"]


@pytest.fixture(scope="module")
def plain(fleet: Path) -> tuple[str, int]:
    return fingerprint(fleet, "plain", "--inventory", "hosts.yaml")


@pytest.mark.parametrize("way", WAYS)
def test_the_results_are_the_same_and_each_node_is_a_gzip_member(fleet: Path, plain: tuple[str, int], way: str) -> None:
    run = way.replace(" ", "-")
    assert fingerprint(fleet, run, "--inventory", "hosts.yaml", *WAYS[way]) == plain
    rest, members = (fleet / run / RESULTS).read_bytes(), 0
    while rest:
        unpacker = zlib.decompressobj(zlib.MAX_WBITS | 16)
        unpacker.decompress(rest)
        rest, members = unpacker.unused_data, members + 1
    assert members == 3


def test_judged_again_it_is_the_same(fleet: Path, plain: tuple[str, int]) -> None:
    assert fingerprint(fleet, "again", "--replay", "plain") == plain


def test_a_run_that_stops_early_has_fewer_lines(fleet: Path, plain: tuple[str, int]) -> None:
    sha256, lines = fingerprint(fleet, "early", "--inventory", "hosts.yaml", "-x")
    assert sha256 != plain[0]
    assert 0 < lines < plain[1]
