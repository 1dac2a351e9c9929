"""pytest --profile troubleshoot --metrics URL: what a real Prometheus says of the nodes, beside their own checks."""

from __future__ import annotations

import json
import shutil
import time
from typing import TYPE_CHECKING

import numpy as np
import pytest
from fleet import faults
from fleet.machine import Machine
from job.kinds import hang, throttled
from job.server import fill, prometheus
from job.stories import Story, working
from support.recorded import PytestOutcome, run_pytest, write_fleet

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

NODES = ["gpu01", "gpu02", "gpu03"]
pytestmark = pytest.mark.skipif(shutil.which("promtool") is None, reason="Debian's package prometheus is not installed")


def _story(happens: Callable[[Story], None]) -> Story:
    """A job on two of the nodes that runs now."""
    rng = np.random.default_rng(1)
    end = int(time.time())
    story = Story(0, "now", "", "bare", "full", NODES[:2], "NVIDIA H100 80GB HBM3", rng, 15, end)
    working(story)
    happens(story)
    return story


@pytest.fixture(scope="module", params=[throttled, hang])
def job(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Story, str]]:
    folder, story = tmp_path_factory.mktemp("server"), _story(request.param)
    fill(story, folder)
    with prometheus(folder) as url:
        yield story, url


def _run(where: Path, *arguments: str) -> PytestOutcome:
    return run_pytest(where, ["--profile", "troubleshoot", "-q", "--tb=no", *arguments])


def _nodes(outcome: PytestOutcome) -> dict[str, dict[str, object]]:
    return {node["node"]: node for node in json.loads((outcome.folder / "report.json").read_text("utf-8"))["nodes"]}


def _metrics(outcome: PytestOutcome) -> dict[str, str]:
    return outcome.verdicts("metrics.node")


def test_metrics_stand_beside_the_checks_of_each_node(tmp_path: Path, job: tuple[Story, str]) -> None:
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


def _told(folder: Path) -> list[object]:
    found = PytestOutcome(0, "", "", folder).records
    return sorted((each.node, each.message) for each in found if each.check == "metrics.node")


def test_a_server_that_does_not_answer_is_not_judged_with_the_reason(tmp_path: Path) -> None:
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
def test_metrics_are_for_troubleshoot_and_asked_of_a_server(tmp_path: Path, given: list[str]) -> None:
    outcome = run_pytest(tmp_path, ["--inventory", "a,", "--metrics", "http://127.0.0.1:9", *given])
    assert outcome.exit_code == 4
    assert "--metrics is for --profile troubleshoot" in outcome.stderr
