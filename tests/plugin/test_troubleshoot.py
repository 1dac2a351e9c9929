"""pytest --profile troubleshoot: one answer for the operator, from the nodes now and from the job's logs."""

import json
from pathlib import Path

import pytest
from fleet import faults
from fleet.machine import Machine
from support.recorded import PytestOutcome, run_pytest, write_fleet

PROGRAM = "Traceback (most recent call last):\n  File \"train.py\", line 7, in <module>\nKeyError: 'lr'\n"


@pytest.fixture
def healthy(tmp_path: Path) -> Path:
    write_fleet(tmp_path, [Machine.hgx_h100("gpu01", 1), Machine.hgx_h100("gpu02", 2), Machine.hgx_h100("gpu03", 3)])
    return tmp_path


def troubleshoot(where: Path, *arguments: str) -> PytestOutcome:
    return run_pytest(where, ["--inventory", "hosts.yaml", "--profile", "troubleshoot", "-q", "--tb=no", *arguments])


def answer(outcome: PytestOutcome) -> str:
    said = json.loads((outcome.folder / "report.json").read_text("utf-8"))["run"]["answer"]
    assert f"answer: {said}" in outcome.stdout
    return str(said)


def test_healthy_nodes_and_the_programs_own_error_point_to_the_code(healthy: Path) -> None:
    (healthy / "worker.log").write_text(PROGRAM)
    outcome = troubleshoot(healthy, "--job-log", "worker.log")
    assert outcome.exit_code == 0
    assert answer(outcome).startswith("nodes fine: look at the code: ")


def test_a_lost_gpu_moves_the_job_off_its_node(tmp_path: Path) -> None:
    bad = Machine.hgx_h100("gpu02", 2)
    faults.lost_gpu(bad)
    write_fleet(tmp_path, [Machine.hgx_h100("gpu01", 1), bad])
    outcome = troubleshoot(tmp_path)
    assert outcome.exit_code == 1
    assert answer(outcome).startswith("hardware: move the job off gpu02 because GPU 3 S/N ")


def test_the_answer_stands_first_in_the_report(healthy: Path) -> None:
    outcome = troubleshoot(healthy)
    assert "Nodes fine: nothing is wrong with the 3 nodes now" in (outcome.folder / "report.html").read_text("utf-8")
