"""pytest --profile troubleshoot --metrics URL: what a real Prometheus says of the nodes, beside their own checks."""

import json
import shutil
import time

import numpy as np
import pytest
from fleet import faults
from fleet.machine import Machine
from job.kinds import hang, throttled
from job.server import fill, prometheus
from job.stories import Story, idle, others, waiting, working
from support.recorded import PytestOutcome, run_pytest, write_fleet
from support.sample_report import run

from nodegate.job.command import judged
from nodegate.job.prometheus import Access, Source
from nodegate.job.queries import Job
from nodegate.records.part import NO_PARTS
from nodegate.records.run import NodeReport
from nodegate.records.verdict import NodeVerdict
from nodegate.report.model import Report
from nodegate.run.metrics import beside

NODES = ["gpu01", "gpu02", "gpu03"]
pytestmark = pytest.mark.skipif(shutil.which("promtool") is None, reason="Debian's package prometheus is not installed")


def _story(happens, nodes=2, gpus=8):
    """A job on some of the nodes that runs now."""
    rng = np.random.default_rng(1)
    end = int(time.time())
    story = Story(0, "now", "", "bare", "full", NODES[:nodes], "NVIDIA H100 80GB HBM3", rng, 15, end, gpus)
    working(story)
    happens(story)
    return story


@pytest.fixture(scope="module", params=[throttled, hang])
def job(request, tmp_path_factory):
    folder, story = tmp_path_factory.mktemp("server"), _story(request.param)
    fill(story, folder)
    with prometheus(folder) as url:
        yield story, url


def _run(where, *arguments):
    return run_pytest(where, ["--profile", "troubleshoot", "-q", "--tb=no", *arguments])


def _nodes(outcome):
    return {node["node"]: node for node in json.loads((outcome.folder / "report.json").read_text("utf-8"))["nodes"]}


def _metrics(outcome):
    return outcome.verdicts("metrics.node")


@pytest.mark.long
def test_metrics_stand_beside_the_checks_of_each_node(tmp_path, job):
    """They warn of their node in a claim of their own, and change no verdict; a disagreement is one line."""
    story, url = job
    machines = [Machine.hgx_h100(name, number) for number, name in enumerate(NODES, 1)]
    other = next(name for name in NODES[:2] if not story.where or name != story.where[0][0])
    faults.lost_gpu(machines[NODES.index(other)])
    write_fleet(tmp_path, machines)
    alone = _nodes(_run(tmp_path, "--inventory", "hosts.yaml"))
    beside = _run(tmp_path, "--inventory", "hosts.yaml", "--metrics", url)
    nodes = _nodes(beside)
    assert {name: node["verdict"] for name, node in nodes.items()} == {n: each["verdict"] for n, each in alone.items()}
    notes = [line for line in beside.stdout.splitlines() if "metrics and checks disagree" in line]
    if not story.where:
        assert set(_metrics(beside).values()) == {"not-judged"}
        assert "the whole job is named, no node of it: hang" in beside.stdout
        assert not notes
    else:
        guilty, gpu = story.where[0]
        assert _metrics(beside) == {guilty: "warn", other: "pass", NODES[2]: "not-judged"}
        record = next(each for each in beside.records if each.check == "metrics.node" and each.node == guilty)
        assert [each.part.index for each in record.findings] == [gpu]
        assert record.findings[0].part.serial
        assert f"throttled by the metrics of {guilty}, where no check fails" in notes[0]
        assert f"nothing in the metrics of {other}, which the checks reject" in notes[0]
    claims = {name: [each for each in node["claims"] if each["claim"] == "metrics"] for name, node in nodes.items()}  # type: ignore[attr-defined]
    states = {name: {"pass": "proven"}.get(said, "not-proven") for name, said in _metrics(beside).items()}
    assert {name: each["state"] for name, (each,) in claims.items()} == states
    again = _run(tmp_path, "--replay", str(beside.folder.resolve()), "--run-dir", "again")
    assert again.exit_code == beside.exit_code
    assert _told(tmp_path / "again") == _told(beside.folder)


def _silent(story, rows=slice(16, 24)):
    story.alive[rows, story.times > -900] = 0


def _frozen(story):
    for values in story.values.values():
        values[16:] = values[16:, :1]


def _rank_gone(story):
    story.mix([0], story.after(-900), idle(story))
    story.mix(others(story, [0]), story.after(-885), waiting(story))


@pytest.mark.parametrize(("gpus", "happens", "said"), [
    (8, lambda story: None, "warn pass pass"),
    (8, _silent, "warn pass not-judged"),
    (8, lambda story: _silent(story, slice(20, 21)), "warn pass not-judged"),
    (8, _frozen, "warn pass not-judged"),
    (8, lambda story: story.mix(slice(16, 24), np.ones(story.shape[1]), idle(story)), "warn pass not-judged"),
    (8, lambda story: story.mix([16, 17], story.after(-900), idle(story)), "warn pass not-judged"),
    (8, lambda story: story.values["clock"].__setitem__(slice(16, 24), np.nan), "warn pass not-judged"),
    (8, _rank_gone, "warn not-judged not-judged"),
    (8, lambda story: story.mix(slice(None), story.after(-600), idle(story, empty=True)), "warn not-judged not-judged"),
    (8, lambda story: story.mix(slice(None), story.after(-1200), idle(story, empty=True)), "not-judged " * 3),
    (1, lambda story: None, "warn pass pass"),
    (1, lambda story: None, "warn not-judged"),
])  # fmt: skip
def test_only_nodes_that_were_compared_pass(tmp_path, gpus, happens, said):
    """GPU 0 of gpu01 has a low clock, then something happens to others; the checks reject the last node."""
    expected = said.split()
    story = _story(happens, len(expected), gpus)
    story.values["clock"][0] *= 0.5
    fill(story, tmp_path)
    with prometheus(tmp_path) as url:
        answer = judged(Job(story.end, 1800, tuple(story.nodes)), Source(Access(url)))
    verdicts = [NodeVerdict.ACCEPTED] * (len(expected) - 1) + [NodeVerdict.REJECTED]
    nodes = tuple(map(NodeReport, story.nodes, verdicts))
    report = beside(Report(run(), nodes), answer, lambda _: NO_PARTS)
    assert [node.records[-1].verdict.value for node in report.nodes] == expected
    proven = [node.claims[-1].state.value == "proven" for node in report.nodes]
    assert proven == [each == "pass" for each in expected]
    assert any("nothing in the metrics of" in note for note in report.run.notes) == (expected[-1] == "pass")


def _told(folder):
    found = PytestOutcome(0, "", "", folder).records
    return sorted((each.node, each.message) for each in found if each.check == "metrics.node")


@pytest.mark.long
def test_a_server_that_does_not_answer_is_not_judged_with_the_reason(tmp_path):
    write_fleet(tmp_path, [Machine.hgx_h100("gpu01", 1), Machine.hgx_h100("gpu02", 2)])
    outcome = _run(tmp_path, "--inventory", "hosts.yaml", "--metrics", "http://127.0.0.1:9")
    assert outcome.exit_code == 0
    assert set(_metrics(outcome).values()) == {"not-judged"}
    said = _told(outcome.folder)
    assert "does not answer: [Errno 111] Connection refused" in str(said)
    again = _run(tmp_path, "--replay", str(outcome.folder.resolve()), "--run-dir", "again")
    assert (again.exit_code, _told(tmp_path / "again")) == (0, said)
    answer = next((outcome.folder / "evidence" / ".metrics").iterdir())
    answer.write_text("{}")
    changed = _run(tmp_path, "--replay", str(outcome.folder.resolve()), "--run-dir", "changed")
    assert "has changed since it was written" in str(_told(tmp_path / "changed")), changed.stdout


@pytest.mark.parametrize("given", [["--profile", "delivery"], ["--profile", "troubleshoot", "--replay", "."]])
def test_metrics_are_for_troubleshoot_and_asked_of_a_server(tmp_path, given):
    outcome = run_pytest(tmp_path, ["--inventory", "a,", "--metrics", "http://127.0.0.1:9", *given])
    assert outcome.exit_code == 4
    assert "--metrics is for --profile troubleshoot" in outcome.stderr
