"""A run folder with the results in report.json and all healthy devices in full: each command goes on reading it."""

from __future__ import annotations

import json
import shutil
import sys
import tarfile
from pathlib import Path

import pytest
from support import warm

from nodegate.records.verdict import Verdict
from nodegate.report.reader import load
from nodegate.report.results_file import read

RECORDED = Path(__file__).parents[1] / "recorded" / "run-report-2.tar.xz"


@pytest.fixture
def earlier(tmp_path: Path) -> Path:
    """Four nodes, of which gpu0002 has a GPU on x2: report.json of schema 2, results.jsonl and results.csv as then."""
    with tarfile.open(RECORDED) as archive:
        archive.extractall(tmp_path, filter="data")
    assert json.loads((tmp_path / "older" / "report.json").read_text())["schema"] == "nodegate.report/2"
    return tmp_path / "older"


def nodegate(where: Path, *arguments: str) -> str:
    command = [sys.executable, "-m", "nodegate.cli", *arguments]
    done = warm.run(command, cwd=where, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def healthy_sorted(folder: Path) -> list[str]:
    return sorted(
        repr((each.node, each.check, each.verdict, each.message, sorted(map(repr, each.findings)), each.evidence))
        for each in read(folder / "results.jsonl")
    )


def test_its_reports_are_written_in_the_form_of_today(earlier: Path) -> None:
    before, results = load(earlier / "report.json"), healthy_sorted(earlier)
    was = (earlier / "results.jsonl").stat().st_size
    nodegate(earlier.parent, "report", "older")
    document = json.loads((earlier / "report.json").read_text())
    assert document["schema"] == "nodegate.report/3"
    assert healthy_sorted(earlier) == results
    assert (earlier / "results.jsonl").stat().st_size < was / 5
    after = load(earlier / "report.json")
    assert [(node.node, node.verdict, node.claims, node.identity) for node in after.nodes] == [
        (node.node, node.verdict, node.claims, node.identity) for node in before.nodes
    ]
    assert (after.run, after.drift, after.checks, after.policy) == (
        before.run,
        before.drift,
        before.checks,
        before.policy,
    )
    assert [cause.id for cause in after.causes] == [cause.id for cause in before.causes]
    assert (earlier / "results.csv").exists()  # it had every result, and keeps them
    nodegate(earlier.parent, "report", "older")
    again = {path.name: path.read_bytes() for path in earlier.iterdir() if path.is_file()}
    nodegate(earlier.parent, "report", "older")
    assert {path.name: path.read_bytes() for path in earlier.iterdir() if path.is_file()} == again


def test_what_stands_behind_a_cause_is_shown_from_both(earlier: Path) -> None:
    before = nodegate(earlier.parent, "show", "gpu0002", "--run", "older")
    assert "x2" in before
    nodegate(earlier.parent, "report", "older")
    assert nodegate(earlier.parent, "show", "gpu0002", "--run", "older") == before


def test_what_is_learned_is_the_same_from_both(earlier: Path) -> None:
    def learned() -> tuple[str, str]:
        baseline = nodegate(earlier.parent, "baseline", "learn", "older", "--out", "learned.yaml")
        assert baseline
        return (earlier.parent / "learned.yaml").read_text(), nodegate(earlier.parent, "expect", "learn", "older")

    before = learned()
    assert "gpus" in before[1]
    (earlier.parent / "learned.yaml").unlink()
    nodegate(earlier.parent, "report", "older")
    assert learned() == before


def test_its_evidence_is_judged_again_to_the_same_results_but_for_full_counters(earlier: Path) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "--replay", "older", "--run-dir", "again", "--history", "h.sqlite"]
    done = warm.run(command, cwd=earlier.parent, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 1, done.stdout + done.stderr
    found = {(each.node, each.check): each.verdict for each in read(earlier.parent / "again" / "results.jsonl")}
    before = {(each.node, each.check): each.verdict for each in read(earlier / "results.jsonl")}
    odd = {place: (before.get(place), verdict) for place, verdict in found.items() if before.get(place) is not verdict}
    assert found.keys() == before.keys()
    assert odd == {place: (Verdict.PASS, Verdict.NOT_JUDGED) for place in found if place[1] == "counters.nic"}


def test_a_redacted_copy_without_results_is_rendered_again(earlier: Path) -> None:
    copy = earlier.parent / "copy"
    copy.mkdir()
    shutil.copy(earlier / "report.json", copy)
    nodegate(earlier.parent, "report", "copy")
    assert healthy_sorted(copy) == healthy_sorted(earlier)
