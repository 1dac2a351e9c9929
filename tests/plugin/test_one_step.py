"""An item that answers in one step leaves what pytest's own runner leaves: reports, exit codes, --lf, junit, marks."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest
from fleet.machine import Machine
from support.recorded import run_pytest, write_fleet

if TYPE_CHECKING:
    from pathlib import Path

    from support.recorded import PytestOutcome

# A plugin that writes down all that pytest tells of its items, as pytest-reportlog does.
REPORT_LOG = """import json

CONFIG = []

def pytest_configure(config):
    CONFIG.append(config)

def pytest_runtest_logstart(nodeid, location):
    note(["start", nodeid, location])

def pytest_runtest_logfinish(nodeid, location):
    note(["finish", nodeid, location])

def pytest_runtest_logreport(report):
    said = CONFIG[0].hook.pytest_report_to_serializable(config=CONFIG[0], report=report)
    odd = ("duration", "start", "stop", "node", "nodegate", "worker_id", "testrun_uid")  # unlike in any two runs
    note({key: value for key, value in said.items() if key not in odd})

def note(line):
    with open("reportlog.jsonl", "a") as file:
        file.write(json.dumps(line) + "\\n")
"""
# Where a plugin has something to say about the phases of an item, pytest runs each item itself.
BY_PYTEST = "def pytest_runtest_setup(item):\n    pass\n"
COUNT = """from nodegate.plugin.one_step import OneStep

ANSWERED = []
ITS_OWN = OneStep.pytest_runtest_protocol

def pytest_configure(config):
    OneStep.pytest_runtest_protocol = counting

def counting(self, item, nextitem):
    answered = ITS_OWN(self, item, nextitem)
    ANSWERED.append(answered)
    return answered

for name, value in vars(ITS_OWN).items():
    setattr(counting, name, value)

def pytest_unconfigure():
    with open("answered", "w") as file:
        file.write(str(ANSWERED.count(True)))
"""


def fleet_in(folder: Path) -> Path:
    """A healthy node, one with a narrow link and a link error, one that nothing is known of."""
    folder.mkdir()
    machines = [Machine.hgx_h100(f"gpu{number:04}", number) for number in range(1, 4)]
    machines[1].set_link(machines[1].gpu_address(5), width=2)
    for name, text in {"reportlog": REPORT_LOG, "by_pytest": BY_PYTEST, "count": COUNT}.items():
        (folder / f"{name}.py").write_text(text)
    inventory = write_fleet(folder, machines)
    (folder / "recordings/gpu0003/facts.json").unlink()
    return inventory


def run(inventory: Path, *arguments: str) -> PytestOutcome:
    shared = ("--inventory", str(inventory), "--passive", "-p", "count", "-p", "reportlog")
    return run_pytest(inventory.parent, [*shared, *arguments])


def left(inventory: Path, outcome: PytestOutcome) -> dict[str, object]:
    """What a run left behind, without what time made of it."""

    def read(name: str) -> str:
        file = inventory.parent / name
        text = file.read_text() if file.exists() else ""
        return re.sub(r'(time|timestamp|hostname)="[^"]*"', "", text.replace(str(inventory.parent), ""))

    lines = (outcome.folder / "results.jsonl").read_text().replace(str(inventory.parent), "").splitlines()
    return {
        "exit code": outcome.exit_code,
        "reports": read("reportlog.jsonl"),
        "failed": read(".pytest_cache/v/cache/lastfailed"),
        "junit": read("theirs.xml"),
        "records": [{key: value for key, value in json.loads(line).items() if key != "duration_s"} for line in lines],
        "answer": re.sub(r"reports/\S+|\d+\.\d+s|manifest: \w+", "", outcome.stdout.replace(str(inventory.parent), "")),
    }


@pytest.mark.parametrize(
    "arguments",
    [
        ["--junitxml=theirs.xml"],
        ["-x", "-k", "link_width or platform"],
        ["-v", "-k", "pcie and not gpu0003"],
    ],
)
def test_a_run_leaves_what_pytest_itself_would_leave(tmp_path: Path, arguments: list[str]) -> None:
    ours, by_pytest = fleet_in(tmp_path / "ours"), fleet_in(tmp_path / "theirs")
    first = left(ours, run(ours, *arguments))
    second = left(by_pytest, run(by_pytest, "-p", "by_pytest", *arguments))
    assert (tmp_path / "theirs/answered").read_text() == "0"
    assert int((tmp_path / "ours/answered").read_text()) > 0
    assert first["reports"]
    for what, written in second.items():
        if what != "answer" or "--durations=0" not in arguments:
            assert first[what] == written, what


def test_the_last_failed_are_the_same(tmp_path: Path) -> None:
    inventory = fleet_in(tmp_path / "ours")
    run(inventory, "-k", "pcie")
    again = run(inventory, "--lf", "-k", "pcie")
    assert {(record.node, record.check) for record in again.records} == {
        ("gpu0002", "pcie.link_width"),
        *((record.node, record.check) for record in again.records if record.node == "gpu0003"),
    }


def test_a_worker_of_pytest_xdist_sends_the_same_reports(tmp_path: Path) -> None:
    ours, by_pytest = fleet_in(tmp_path / "ours"), fleet_in(tmp_path / "theirs")
    first = left(ours, run(ours, "-n", "1", "-k", "pcie"))
    second = left(by_pytest, run(by_pytest, "-n", "1", "-p", "by_pytest", "-k", "pcie"))
    assert first["records"] == second["records"]
    assert sorted(str(first["reports"]).splitlines()) == sorted(str(second["reports"]).splitlines())


def test_marks_and_what_looks_into_the_phases_are_left_to_pytest(tmp_path: Path) -> None:
    inventory = fleet_in(tmp_path / "ours")
    (inventory.parent / "marking.py").write_text(
        "import pytest\n\n"
        "def pytest_collection_modifyitems(items):\n"
        "    for item in items:\n"
        "        if item.name == 'test_link_width[gpu0001]':\n"
        "            item.add_marker(pytest.mark.skip(reason='asked for'))\n"
    )
    outcome = run(inventory, "-p", "marking", "-k", "link_width and gpu0001")
    assert outcome.verdicts("pcie.link_width") == {"gpu0001": "skip"}
    shown = run(inventory, "--setup-show", "-k", "link_width and gpu0001")
    assert "test_link_width[gpu0001]" in shown.stdout
    assert (inventory.parent / "answered").read_text() == "0"
