"""The answer of profile troubleshoot: what each mix of verdicts and logs comes to, word for word."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support import sample_report

from nodegate.finding import Record, node_verdict
from nodegate.knowledge.failure_modes import failure_modes
from nodegate.report.model import NodeReport, Report
from nodegate.run.conclusion import conclude
from nodegate.triage.answer import Answer
from nodegate.triage.command import triage
from nodegate.verdict import NodeVerdict, Verdict

PASSED = Record("", "pcie.link_width", Verdict.PASS, "16 lanes")
NARROW = Record("", "pcie.link_width", Verdict.FAIL, "GPU 3: link width 8 lanes, expected 16", failure_modes=("F05",))
SETTING = Record(
    "", "software.nccl_settings", Verdict.FAIL, "/etc/nccl.conf: NCCL_IB_DISABLE=1", failure_modes=("F26",)
)
SLOW_NIC = Record("", "rdma_bandwidth.write", Verdict.FAIL, "mlx5_2: 190 Gb/s, expected 380", failure_modes=("F07",))
UNREAD = Record("", "gpu.count", Verdict.ERROR, "NVML did not answer", failure_modes=("F02",))


def node(name: str, *records: Record, reachable: bool = True) -> NodeReport:
    mine = tuple(replace(record, node=name) for record in records)
    return NodeReport(name, node_verdict(mine, reachable=reachable), records=mine)


def report(*nodes: NodeReport) -> Report:
    return Report(sample_report.run(), nodes)


@pytest.fixture
def ecc_log(tmp_path_factory: pytest.TempPathFactory) -> Answer:
    file = tmp_path_factory.mktemp("job") / "gpu02.log"
    file.write_text(
        "2026-11-21T08:00:00Z [rank1]: RuntimeError: CUDA error: uncorrectable ECC error encountered\n",
        encoding="utf-8",
    )
    return triage([str(file)])


@pytest.fixture
def program_log(tmp_path_factory: pytest.TempPathFactory) -> Answer:
    file = tmp_path_factory.mktemp("job") / "worker.log"
    lines = ["Traceback (most recent call last):", '  File "train.py", line 7, in <module>', "KeyError: 'lr'"]
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return triage([str(file)])


def test_a_broken_part_moves_the_job_off_its_node() -> None:
    assert conclude(report(node("gpu01", PASSED), node("gpu02", PASSED, NARROW))) == (
        "hardware: move the job off gpu02 because gpu02: pcie.link_width: GPU 3: link width 8 lanes, expected 16"
    )


def test_a_broken_part_stands_above_a_wrong_setting_on_another_node() -> None:
    said = conclude(report(node("gpu01", SETTING), node("gpu02", NARROW)))
    assert said.startswith("hardware: move the job off gpu02 because ")


def test_of_several_bad_nodes_the_one_that_the_logs_name_comes_first(ecc_log: Answer) -> None:
    logs = replace(ecc_log, where=replace(ecc_log.where, node="gpu02"))
    said = conclude(report(node("gpu01", NARROW), node("gpu02", NARROW)), logs)
    assert said.startswith("hardware: move the job off gpu[01-02] because gpu02: ")
    assert "; the logs: " in said


def test_a_slow_nic_is_the_fabrics() -> None:
    said = conclude(report(node("gpu01", SLOW_NIC)))
    assert said.startswith("fabric: move the job off gpu01 because gpu01: rdma_bandwidth.write: ")


def test_a_wrong_setting_is_mended_before_the_job_runs_there_again() -> None:
    assert conclude(report(node("gpu01", SETTING))) == (
        "host: mend gpu01 before the job runs there again: "
        "gpu01: software.nccl_settings: /etc/nccl.conf: NCCL_IB_DISABLE=1"
    )


def test_a_node_that_cannot_be_reached_is_left() -> None:
    assert conclude(report(node("gpu01", PASSED), node("gpu02", reachable=False))) == (
        "hardware: move the job off gpu02 because gpu02 cannot be reached"
    )


def test_a_fault_that_only_the_logs_know_is_said_to_be_so(ecc_log: Answer) -> None:
    said = conclude(report(node("gpu01", PASSED)), ecc_log)
    assert said.startswith("hardware: ")
    assert said.endswith("(by the logs alone: every check passes now)")


def test_the_programs_own_fault_on_good_nodes_is_said_plainly(program_log: Answer) -> None:
    assert conclude(report(node("gpu01", PASSED)), program_log).startswith("nodes fine: look at the code: ")


def test_good_nodes_without_logs_ask_for_them() -> None:
    assert conclude(report(node("gpu01", PASSED), node("gpu02", PASSED))) == (
        "nodes fine: nothing is wrong with the 2 nodes now; give the job's logs too (--job-log)"
    )


def test_a_node_that_could_not_be_measured_is_never_fine(program_log: Answer) -> None:
    told = report(node("gpu01", PASSED), node("gpu02", PASSED, UNREAD))
    assert told.nodes[1].verdict is NodeVerdict.INCOMPLETE
    for logs in (None, program_log):
        assert conclude(told, logs).startswith("could not tell: not everything could be measured on gpu02")


def test_an_interrupted_run_is_never_fine() -> None:
    told = report(node("gpu01", PASSED))
    assert conclude(replace(told, run=replace(told.run, interrupted=True))).startswith("could not tell: ")


def test_every_failure_mode_has_a_cause() -> None:
    assert list(failure_modes()) == [f"F{number:02}" for number in range(1, 34)]
