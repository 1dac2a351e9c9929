"""Ways in which other node checkers call a node healthy for what they could not read or do not judge."""

import pytest
from fleet.machine import Machine
from support.judging import judge_one
from support.whole_node import bootchecked, whole

from nodegate import suite
from nodegate.facts import FACTS, Fact
from nodegate.records.finding import Finding, Record
from nodegate.records.part import NODE
from nodegate.records.verdict import Verdict
from nodegate.run.bootcheck import Exit, outcome_of
from nodegate.subjects.gpu import NORMAL_ABSENCE
from nodegate.unknown import Why

PASS, WARN, FAIL, ERROR, SKIP = Verdict.PASS, Verdict.WARN, Verdict.FAIL, Verdict.ERROR, Verdict.SKIP


def h100() -> Machine:
    return Machine.hgx_h100("gpu01")


# Files that are not there


@pytest.mark.parametrize("why", ["missing", "denied", "failed", "timeout"])
def test_a_kernel_log_that_cannot_be_read_is_no_clean_log(why: str) -> None:
    """A checker that looks for a file, does not find it and returns success has seen no Xid for years."""
    machine = h100()
    machine.section_fails("kernel_log", why, "journal, /dev/kmsg and /var/log: nothing could be read")
    records = whole(machine, only=lambda check: "kernel_log" in check.asks_for)
    assert len(records) > 5
    assert {record.verdict for record in records.values()} == {ERROR}
    assert bootchecked(machine).exit is Exit.UNKNOWN


# What is not known


@pytest.mark.parametrize("fact", sorted({name for check in suite.checks() for name in check.asks_for if name in FACTS}))
def test_a_fault_while_a_fact_is_read_is_an_error(fact: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A checker that catches everything and goes on calls the node healthy for what it never read."""

    def broken(document: object) -> object:
        raise ZeroDivisionError("in the parser")

    monkeypatch.setitem(FACTS, fact, Fact(broken, *FACTS[fact].sections, may_lack=FACTS[fact].may_lack))
    records = whole(h100(), only=lambda check: fact in check.asks_for)
    assert {record.verdict for record in records.values()} == {ERROR}
    assert all("nodegate itself failed" in record.message for record in records.values())


@pytest.mark.parametrize("reading", ["fabric", "ecc", "remapped_rows", "nvlinks", "event_reasons"])
@pytest.mark.parametrize("why", [why.value for why in Why if why not in NORMAL_ABSENCE])
def test_a_reading_that_raised_leaves_the_node_undecided(reading: str, why: str) -> None:
    machine = h100()
    machine.set_gpu(5, reading, {"why": why, "detail": "NVML 999: Unknown Error"})
    assert bootchecked(machine).exit is not Exit.FIT


def test_a_platform_without_limits_is_not_judged_and_its_limit_is_not_0() -> None:
    """A checker that takes 0 for a limit it does not have passes every count, or fails every one."""
    machine = h100()
    for check, key in (
        ("gpu.count", "gpu.count"),
        ("rdma.rails", "rdma.rails"),
        ("clocks.sm_max", "gpu.sm_clock_max_mhz"),
        ("ecc.remapped_rows", "gpu.remapped_rows_uncorrectable_max"),
        ("fabric.nvswitches", "fabric.nvswitch_count"),
    ):
        record = judge_one(check, machine, baseline={key: None})
        assert record.verdict is Verdict.NOT_JUDGED
        assert record.message == f"node: no limit {key} for platform hgx-h100-8"


def test_a_platform_that_nobody_knows_is_neither_fit_nor_unfit() -> None:
    machine = h100()
    for index in range(8):
        machine.set_gpu(index, "pci_device_id", 0xFFFF10DE)
        machine.set_pci(machine.gpu_address(index), "device", "0xffff")
    outcome = bootchecked(machine)
    assert outcome.exit is Exit.UNKNOWN
    assert outcome.line.startswith("could not tell: ")
    assert whole(machine)["platform.known"].verdict is ERROR


def silent(why: str) -> Machine:
    machine = h100()
    for index in range(8):
        for key in list(machine.sections["nvml"]["gpus"][index]):
            if key != "index":
                machine.set_gpu(index, key, {"why": why, "detail": "NVML says so"})
    return machine


@pytest.mark.parametrize("why", ["not supported", "missing", "failed", "denied", "timeout", "lost"])
def test_unsupported_or_error_is_no_exit_code_0(why: str) -> None:
    """A prolog that ends with 0 for "unsupported" or "ERROR" starts every job on the nodes it could not judge."""
    assert bootchecked(silent(why)).exit in (Exit.UNFIT, Exit.UNKNOWN)


@pytest.mark.parametrize("verdicts", [[], [SKIP], [SKIP, SKIP], [ERROR], [SKIP, ERROR], [PASS, ERROR], [WARN, ERROR]])
def test_only_what_was_judged_and_found_good_is_fit(verdicts: list[Verdict]) -> None:
    records = tuple(record(f"site.check{number}", verdict) for number, verdict in enumerate(verdicts))
    assert outcome_of(records).exit is Exit.UNKNOWN
    assert outcome_of((*records, record("site.bad", FAIL))).exit is Exit.UNFIT
    assert outcome_of((record("site.good", PASS),)).exit is Exit.FIT


def record(check: str, verdict: Verdict) -> Record:
    return Record("gpu01", check, verdict, (Finding(NODE, verdict, text="said"),))


@pytest.mark.parametrize("section", ["nvml", "pci", "driver", "system", "kernel_log", "infiniband", "mounts", "limits"])
def test_no_part_of_the_evidence_may_be_absent_from_a_fit_node(section: str) -> None:
    machine = h100()
    machine.section_fails(section, "failed", "ERROR")
    assert bootchecked(machine).exit in (Exit.UNFIT, Exit.UNKNOWN)
