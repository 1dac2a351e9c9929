"""In a usual run the items that pass are kept without pytest's hooks, and what is left behind is the same."""

import itertools
import json
import zlib

import pytest
from fleet.machine import Machine
from support.recorded import run_pytest, write_fleet

from nodegate.claims.prove import ENDED
from nodegate.records.results import RESULTS

# Where a plugin has something to say about the phases of an item, pytest runs each item itself.
BY_PYTEST = "def pytest_runtest_setup(item):\n    pass\n"
# Counts what pytest runs, and is none of the hooks that an item is sent through.
COUNT = """from _pytest import runner

RUN = []
ITS_OWN = runner.runtestprotocol

def counting(item, *arguments, **named):
    RUN.append(item.nodeid)
    return ITS_OWN(item, *arguments, **named)

runner.runtestprotocol = counting

def pytest_unconfigure():
    with open("run_by_pytest", "w") as file:
        file.write("\\n".join(RUN))
"""


def fleet_in(folder):
    folder.mkdir()
    machines = [Machine.hgx_h100(f"gpu{number:04}", number) for number in range(1, 4)]
    machines[1].set_link(machines[1].gpu_address(5), width=2)
    write_fleet(folder, machines)
    (folder / "recordings/gpu0003/facts.json").unlink()
    (folder / "count.py").write_text(COUNT)
    (folder / "by_pytest.py").write_text(BY_PYTEST)


def run(folder, *arguments):
    if not folder.exists():
        fleet_in(folder)
    outcome = run_pytest(folder, ["--inventory", "hosts.yaml", "--passive", "-p", "count", *arguments])
    return outcome, (folder / "run_by_pytest").read_text().split()


def said(outcome):
    return {(record.node, record.check): record.verdict.value for record in outcome.records}


def failed(folder):
    names = json.loads((folder / ".pytest_cache/v/cache/lastfailed").read_text())
    return {name.rpartition("::")[2] for name in names}


def test_pytest_runs_only_what_fails_and_all_is_as_if_it_ran_everything(tmp_path):
    ours, ran = run(tmp_path / "ours")
    bad = {item for item, verdict in said(ours).items() if verdict in {"fail", "error"}}
    assert bad
    assert {item.rpartition("[")[2].removesuffix("]") for item in ran} == {node for node, _ in bad}
    assert len(ran) == len(bad)
    by_pytest, ran = run(tmp_path / "theirs", "-p", "by_pytest")
    assert len(ran) == len(said(by_pytest))
    assert said(ours) == said(by_pytest)
    assert ours.exit_code == by_pytest.exit_code
    assert failed(tmp_path / "ours") == failed(tmp_path / "theirs")


def test_what_failed_before_and_passes_now_is_struck_out_of_the_last_failed(tmp_path):
    folder = tmp_path / "ours"
    run(folder, "-k", "pcie and gpu0002")
    assert "test_link_width[gpu0002]" in failed(folder)
    good = (folder / "recordings/gpu0001/facts.json").read_text()
    (folder / "recordings/gpu0002/facts.json").write_text(good)
    run(folder, "-k", "pcie and gpu0002")
    assert "test_link_width[gpu0002]" not in failed(folder)


def test_where_something_looks_at_items_it_gets_each_in_the_order_of_pytest(tmp_path):
    outcome, ran = run(tmp_path / "ours", "--junitxml=theirs.xml", "-k", "pcie")
    items = [item.partition("[") for item in ran]
    checks, nodes = (list(dict.fromkeys(item[place] for item in items)) for place in (0, 2))
    assert [(check, node) for check, _, node in items] == list(itertools.product(checks, nodes))
    assert (tmp_path / "ours/theirs.xml").read_text().count("<testcase") == len(outcome.records) == len(items)


# Ctrl-C when two nodes are judged.
INTERRUPT = """from nodegate.run.judging import Judging

ITS_OWN = Judging.judge_node

def judge_node(self, name):
    if len(self._judged) == 2 and name not in self._judged:
        raise KeyboardInterrupt
    ITS_OWN(self, name)

Judging.judge_node = judge_node
"""


def test_what_was_judged_before_ctrl_c_is_kept_failures_too(tmp_path):
    whole, _ = run(tmp_path / "ours")
    (tmp_path / "ours/interrupt.py").write_text(INTERRUPT)
    outcome, ran = run(tmp_path / "ours", "-p", "interrupt")
    assert outcome.exit_code == 2
    assert not ran
    judged = {node for node, _ in said(outcome)}
    assert len(judged) == 2
    assert said(outcome).items() <= said(whole).items()
    bad = {item for item, verdict in said(whole).items() if verdict in {"fail", "error"} and item[0] in judged}
    assert bad
    assert {item for item in bad if said(whole)[item] == "fail"} <= said(outcome).keys()
    nodes = json.loads((outcome.folder / "report.json").read_text())["nodes"]
    ended = [node for node in nodes if node["node"] not in judged]
    assert {node["verdict"] for node in ended} == {"incomplete"}
    assert {claim["why"] for node in ended for claim in node["claims"] if not claim["left_out"]} == {ENDED}


# However pytest is called, the results of a run have the same fingerprint


WAYS: dict[str, list[str]] = {
    "everything in full": ["-vv", "-rA", "--tb=long"],
    "no capture": ["-s"],
    "junit of pytest": ["--junitxml=theirs.xml"],
    "two workers": ["-n", "2"],
    "a hook on each item": ["-p", "by_pytest"],
    "all results": ["--all-results"],
}


@pytest.fixture(scope="module")
def fleet(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site") / "fleet"
    fleet_in(folder)
    return folder


def fingerprint(folder, run, *arguments):
    outcome = run_pytest(folder, ["--passive", "--run-dir", run, *arguments], PYTHONPATH=str(folder))
    assert outcome.exit_code == 1, outcome.stdout + outcome.stderr
    report = json.loads((folder / run / "report.json").read_text())
    return report["results_sha256"], report["details"]["lines"]


@pytest.fixture(scope="module")
def plain(fleet):
    return fingerprint(fleet, "plain", "--inventory", "hosts.yaml")


@pytest.mark.long
@pytest.mark.parametrize("way", WAYS)
def test_the_results_are_the_same_and_each_node_is_a_gzip_member(fleet, plain, way):
    run = way.replace(" ", "-")
    assert fingerprint(fleet, run, "--inventory", "hosts.yaml", *WAYS[way]) == plain
    rest, members = (fleet / run / RESULTS).read_bytes(), 0
    while rest:
        unpacker = zlib.decompressobj(zlib.MAX_WBITS | 16)
        unpacker.decompress(rest)
        rest, members = unpacker.unused_data, members + 1
    assert members == 3


def test_judged_again_it_is_the_same(fleet, plain):
    assert fingerprint(fleet, "again", "--replay", "plain") == plain


def test_a_run_that_stops_early_has_fewer_lines(fleet, plain):
    sha256, lines = fingerprint(fleet, "early", "--inventory", "hosts.yaml", "-x")
    assert sha256 != plain[0]
    assert 0 < lines < plain[1]
