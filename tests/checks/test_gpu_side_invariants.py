"""What holds for every check of the GPU side: unknown never passes, and no reading breaks a check."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from fleet.machine import Machine, facts_of
from support.judging import baseline_of

from nodegate import suite
from nodegate.errors import NotJudged
from nodegate.judge.judge import judge
from nodegate.judge.node_parts import node_parts
from nodegate.node import Node
from nodegate.profile import Profile
from nodegate.records.part import NODE
from nodegate.records.verdict import Verdict

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from nodegate.records.finding import Record

SUBJECTS = ("gpu", "idle", "power", "clocks", "ecc", "gsp", "nvlink", "fabric")
CHECKS = [check for check in suite.checks() if check.id.partition(".")[0] in SUBJECTS]
OF_GPUS = [check for check in CHECKS if "gpus" in check.asks_for]
MACHINES = [Machine.hgx_h100, Machine.pcie_l40s]
READINGS = sorted(set(Machine.hgx_h100().sections["nvml"]["gpus"][0]) - {"index"})


def judge_all(machine: Machine) -> Mapping[str, Record]:
    facts, node = facts_of(machine), Node("gpu01")
    context = {"node": node, "profile": Profile.DELIVERY, "baseline": baseline_of(facts, node)}

    def resolve(name: str) -> object:
        if name == "fleet":
            raise NotJudged("alone")
        return context[name] if name in context else facts.get(name)

    return {check.id: judge(check, resolve, node.name, node_parts(facts)) for check in CHECKS}


@pytest.mark.parametrize("make", MACHINES)
def test_a_healthy_machine_raises_nothing(make: Callable[[], Machine]) -> None:
    raised = {name: record.message for name, record in judge_all(make()).items() if record.verdict not in _FINE}
    assert raised == {}


@pytest.mark.parametrize("make", MACHINES)
def test_a_lost_gpu_passes_no_check_that_reads_gpus(make: Callable[[], Machine]) -> None:
    machine = make()
    healthy = judge_all(machine)
    machine.lose_gpu(3)
    records = judge_all(machine)
    passed = [
        check.id for check in OF_GPUS if records[check.id].verdict in _FINE and not _not_judged(healthy[check.id])
    ]
    assert passed == []


def test_without_nvml_nothing_that_reads_gpus_is_judged() -> None:
    machine = Machine.hgx_h100()
    machine.section_fails("nvml", "hung", "cannot be ended")
    records = judge_all(machine)
    assert {records[check.id].verdict for check in OF_GPUS} == {Verdict.ERROR}


@pytest.mark.parametrize("reading", READINGS)
@pytest.mark.parametrize(
    "value", [{"why": "failed", "detail": "NVML 999"}, {"why": "missing", "detail": ""}, None, "x"]
)
def test_no_reading_breaks_a_check(reading: str, value: object) -> None:
    machine = Machine.hgx_h100()
    machine.set_gpu(3, reading, value)
    broken = {name: record.message for name, record in judge_all(machine).items() if "itself failed" in record.message}
    assert broken == {}


@pytest.mark.parametrize(
    "reading",
    [
        "compute_mode", "ecc", "ecc_mode", "event_reasons", "fabric", "gsp_firmware", "inforom_valid",
        "memory_clock_app_mhz", "memory_clock_max_mhz", "memory_used_bytes", "mig_mode", "nvlinks", "persistence_mode",
        "power_limit_enforced_mw", "power_limit_mw", "processes", "recovery_action", "remap_histogram",
        "remapped_rows", "retired_pages", "sm_clock_app_mhz", "sm_clock_max_mhz", "sram_threshold_exceeded",
        "temperature_margin_c", "violation_ns",
    ],
)  # fmt: skip
def test_a_reading_that_failed_is_an_error_somewhere(reading: str) -> None:
    machine = Machine.hgx_h100()
    machine.set_gpu(3, reading, {"why": "failed", "detail": "NVML 999"})
    assert Verdict.ERROR in {record.verdict for record in judge_all(machine).values()}


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.id)
def test_each_check_says_its_condition_its_failure_modes_and_what_breaks(check: suite.Check) -> None:
    title, _, rest = check.docstring.partition("\n")
    assert check.failure_modes, "the first line ends with its failure modes"
    assert check.title.endswith(".")
    assert len(title) <= 120
    assert len(rest.strip()) > 20, "what breaks when it is false, and where the rule comes from"


def test_each_fault_says_what_to_do() -> None:
    machine = Machine.hgx_h100()
    machine.lose_gpu(3)
    machine.stop_service("nvidia-fabricmanager")
    machine.set_gpu(1, "remapped_rows", [0, 600, 1, 1])
    machine.set_gpu(2, "event_reasons", 0x88)
    machine.set_nvlink(4, 7, "state", 0)
    found = [finding for record in judge_all(machine).values() for finding in record.findings]
    assert [finding.message for finding in found if finding.verdict not in _FINE and not finding.action] == []


_FINE = (Verdict.PASS, Verdict.SKIP, Verdict.NOT_JUDGED)


def _not_judged(record: Record) -> bool:
    """The whole check does not apply or has no limit: the platform has no such thing."""
    whole = all(part == NODE for finding in record.findings for part in finding.parts)
    return whole and record.verdict in (Verdict.SKIP, Verdict.NOT_JUDGED)
