"""Defects that other node checkers have or had, each as the input that fools them and the verdict that is right.

A checker that passes a bad node costs a job on every run. These are the ways in which that has happened; those that
one reading of NVML shows stand as cases in tests/checks.
"""

import re

import pytest
from fleet.machine import Machine
from support.healthy_platforms import UNSUPPORTED, every
from support.judging import judge_one
from support.recordings import recording
from support.whole_node import bootchecked, whole

from nodegate import suite
from nodegate.claims.verdict import node_verdict
from nodegate.facts import FACTS, Fact
from nodegate.records.finding import Finding, Record
from nodegate.records.part import NODE
from nodegate.records.verdict import Verdict
from nodegate.run.bootcheck import Exit, outcome_of
from nodegate.subjects.gpu import NORMAL_ABSENCE
from nodegate.subjects.host import older
from nodegate.unknown import Why

PASS, WARN, FAIL, ERROR, SKIP = Verdict.PASS, Verdict.WARN, Verdict.FAIL, Verdict.ERROR, Verdict.SKIP


def by_nvidia_smi(change, layout="q-550.xml"):
    """A node whose NVML cannot be loaded and whose nvidia-smi writes this."""
    written = recording("nvidia_smi", layout)
    assert change[0] in written
    machine = Machine.hgx_h100("gpu01")
    machine.section_fails("nvml", "missing", "no libnvidia-ml.so.1")
    machine.sections["nvidia_smi"] = {"q": written.replace(*change), "exit_code": 0}
    return machine


@pytest.mark.parametrize(
    ("field", "words"),
    [("remapped_row_pending", "a row remap is pending"), ("remapped_row_failure", "a row remap has failed")],
)
@pytest.mark.parametrize("layout", ["q-525.xml", "q-550.xml", "q-570.xml", "q-580.xml"])
def test_yes_is_as_true_as_1(field, words, layout):
    """A driver writes Yes where a checker compares with 1: the pending or failed remap passes."""
    record = judge_one("ecc.remap_pending", by_nvidia_smi((f"<{field}>No<", f"<{field}>Yes<"), layout))
    assert record.verdict is FAIL
    assert words in record.message


@pytest.mark.parametrize("word", ["1", "yes", "Maybe", "", "N/A "])
def test_a_word_for_pending_that_nobody_taught_us_is_never_a_pass(word):
    machine = by_nvidia_smi(("<remapped_row_pending>No<", f"<remapped_row_pending>{word}<"))
    assert judge_one("ecc.remap_pending", machine).verdict in (ERROR, Verdict.NOT_JUDGED, Verdict.SKIP)
    assert bootchecked(machine).exit is not Exit.FIT


def test_nvidia_smi_counts_errors_of_memory_and_says_not_started_in_its_own_words():
    value = re.search(r"<dram_uncorrectable>\d+<", recording("nvidia_smi", "q-550.xml"))
    assert value
    assert judge_one("ecc.volatile", by_nvidia_smi((value[0], "<dram_uncorrectable>19999999<"))).verdict is FAIL
    not_started = by_nvidia_smi(("<state>Completed</state>", "<state>Not Started</state>"))
    assert judge_one("fabric.state", not_started).verdict is FAIL


@pytest.mark.parametrize("recovery", [0, UNSUPPORTED], ids=["none", "not told"])
def test_a_failed_row_remap_stands_whatever_the_recommended_action_says(recovery):
    """A checker that prints the recommended action prints "Healthy" for none, beside a remap that failed."""
    machine = Machine.hgx_h100("gpu01")
    machine.set_gpu(2, "remapped_rows", [0, 8, 0, 1])
    machine.set_gpu(2, "recovery_action", recovery)
    records = whole(machine)
    assert records["ecc.remap_pending"].verdict is FAIL
    assert any("replace the board" in finding.action for finding in records["ecc.remap_pending"].findings)
    assert node_verdict(records.values()).value == "rejected"
    outcome = bootchecked(machine)
    assert outcome.exit is Exit.UNFIT
    assert "row remap failed - replace the GPU" in outcome.line


@pytest.mark.parametrize("count", [1, 19_999_999])
def test_one_uncorrectable_error_is_one_too_many(count):
    """A limit of 20,000,000, made for corrected errors, passes 19,999,999 uncorrectable ones."""
    machine = Machine.hgx_h100("gpu01")
    machine.set_gpu(6, "ecc.volatile_uncorrected", count)
    assert bootchecked(machine).exit is Exit.UNFIT


@pytest.mark.parametrize(
    ("old", "new"),
    [("2.9", "2.21.5"), ("2.9.9", "2.10"), ("535.183.06", "550.54.14"), ("9.0", "10.0"), ("2.21", "2.21.5")],
)
def test_versions_are_numbers_and_not_text(old, new):
    """By the letters "2.9" is newer than "2.21.5"."""
    assert older(old, new)
    assert not older(new, old)
    assert not older(new, new)


# What a node does not say, or says wrongly: healthy nodes of which one thing was changed


HEALTH = {  # readings of an H100 and the check that judges each
    "sram_threshold_exceeded": "ecc.sram_threshold",
    "remapped_rows": "ecc.remap_pending",
    "remap_histogram": "ecc.spare_rows",
    "ecc.aggregate_sram_uncorrected": "ecc.sram",
    "inforom_valid": "gpu.inforom",
    "processes": "idle.processes",
    "power_limit_mw": "power.limit",
    "power_limit_enforced_mw": "power.enforced",
    "temperature_margin_c": "power.temperature",
    "event_reasons": "clocks.event_reasons",
    "fabric.health_mask": "fabric.health",
    "compute_mode": "gpu.compute_mode",
    "mig_mode": "gpu.mig",
    "pcie_replays": "pcie.replays",
}
IMPOSSIBLE = (
    ("ecc.volatile_uncorrected", -1),
    ("ecc.volatile_uncorrected", 0xFFFFFFFF),
    ("remapped_rows", [-1, -600, 0, 0]),
    ("remapped_rows", [0, 0, 7, 0]),
    ("remap_histogram", [2560, 0, 0, 0, -4]),
    ("sm_clock_max_mhz", 0xFFFFFFFF),
    ("temperature_margin_c", 1 << 31),
    ("power_limit_mw", 0xFFFFFFFF),
    ("memory_total_bytes", 1 << 60),
    ("ecc_mode", [7, 7]),
    ("pcie_replays", -1),
    ("bus_id", {"why": "failed", "detail": ""}),
    ("uuid", ""),
)


@pytest.fixture
def h100():
    return Machine.hgx_h100("gpu01")


def by_facts(machine):
    told = whole(machine, only=lambda check: set(check.asks_for) <= {*FACTS, "baseline", "profile", "node", "verdicts"})
    return dict(told)


def bad(machine):
    return {name for name, record in by_facts(machine).items() if record.verdict in (ERROR, FAIL)}


@pytest.mark.parametrize("reading", HEALTH)
def test_neither_one_of_eight_nor_all_lack_a_reading_without_a_word(h100, reading):
    h100.set_gpu(3, reading, UNSUPPORTED)
    record = by_facts(h100)[HEALTH[reading]]
    assert record.verdict is ERROR
    assert {finding.part.index for finding in record.findings if finding.verdict is ERROR} == {3}
    every(h100, reading, UNSUPPORTED)
    assert HEALTH[reading] in bad(h100)


@pytest.mark.parametrize(("reading", "value"), IMPOSSIBLE, ids=str)
def test_what_cannot_be_true_or_identifies_nothing_proves_nothing(h100, reading, value):
    h100.set_gpu(3, reading, value)
    assert bad(h100)


def test_nvlinks_that_cannot_be_true(h100):
    h100.set_nvlink(3, 7, "speed_mbps", 0xFFFFFFFF)
    assert bad(h100) == {"nvlink.speed"}
    h100.set_nvlink(3, 7, "link", 6)
    assert len(bad(h100)) > 1


@pytest.mark.parametrize("text", ["garbage", "", "DLP 7\nTLP 3", "DLP 7\nTOTAL_ERR_FATAL -3"])
def test_an_unreadable_file_of_pcie_errors(h100, text):
    h100.set_pci(h100.gpu_address(3), "aer_dev_fatal", text)
    assert bad(h100) == {"pcie.uncorrectable_errors"}


def test_ports_without_counters(h100):
    for name in [name for name in h100.sections["infiniband"] if name != "mlx5_bond_0"]:
        h100.set_port(name, 1, "counters", {"why": "missing", "detail": "counters: No such file or directory"})
    record = judge_one("counters.nic", h100)
    assert record.verdict is ERROR
    unread = [finding.quantity for finding in record.findings if finding.verdict is ERROR]
    assert sorted(unread) == ["link_downed"] * 8 + ["symbol_error"] * 8


@pytest.mark.parametrize("fact", sorted({name for check in suite.checks() for name in check.asks_for if name in FACTS}))
def test_a_fault_while_a_fact_is_read_is_an_error(h100, fact, monkeypatch):
    """A checker that catches everything and goes on calls the node healthy for what it never read."""

    def broken(document):
        raise ZeroDivisionError("in the parser")

    monkeypatch.setitem(FACTS, fact, Fact(broken, *FACTS[fact].sections, may_lack=FACTS[fact].may_lack))
    records = whole(h100, only=lambda check: fact in check.asks_for)
    assert {record.verdict for record in records.values()} == {ERROR}
    assert all("nodegate itself failed" in record.message for record in records.values())


# What a job is started on


@pytest.mark.parametrize("reading", ["fabric", "ecc", "remapped_rows", "nvlinks", "event_reasons"])
@pytest.mark.parametrize("why", [why.value for why in Why if why not in NORMAL_ABSENCE])
def test_a_reading_that_raised_leaves_the_node_undecided(h100, reading, why):
    h100.set_gpu(5, reading, {"why": why, "detail": "NVML 999: Unknown Error"})
    assert bootchecked(h100).exit is not Exit.FIT


@pytest.mark.parametrize("why", ["not supported", "missing", "failed", "denied", "timeout", "lost"])
def test_unsupported_or_error_is_no_exit_code_0(h100, why):
    """A prolog that ends with 0 for "unsupported" or "ERROR" starts every job on the nodes it could not judge."""
    for key in h100.sections["nvml"]["gpus"][0].keys() - {"index"}:
        every(h100, key, {"why": why, "detail": "NVML says so"})
    assert bootchecked(h100).exit in (Exit.UNFIT, Exit.UNKNOWN)


def test_a_platform_that_nobody_knows_is_neither_fit_nor_unfit(h100):
    every(h100, "pci_device_id", 0xFFFF10DE)
    for index in range(8):
        h100.set_pci(h100.gpu_address(index), "device", "0xffff")
    outcome = bootchecked(h100)
    assert outcome.exit is Exit.UNKNOWN
    assert outcome.line.startswith("could not tell: ")


def record(check, verdict):
    return Record("gpu01", check, verdict, (Finding(NODE, verdict, text="said"),))


@pytest.mark.parametrize("verdicts", [[], [SKIP], [ERROR], [SKIP, ERROR], [PASS, ERROR], [WARN, ERROR]])
def test_only_what_was_judged_and_found_good_is_fit(verdicts):
    records = tuple(record(f"site.check{number}", verdict) for number, verdict in enumerate(verdicts))
    assert outcome_of(records).exit is Exit.UNKNOWN
    assert outcome_of((*records, record("site.bad", FAIL))).exit is Exit.UNFIT
    assert outcome_of((record("site.good", PASS),)).exit is Exit.FIT


# Wrong boards


@pytest.mark.parametrize(
    ("reading", "value", "check"),
    [
        ("memory_total_bytes", 40 << 30, "boards.memory"),
        ("memory_total_bytes", 0, "boards.memory"),
        ("vbios", "96.00.61.00.01", "boards.revision"),
        ("pci_device_id", 0x232910DE, "boards.model"),  # NVML and sysfs see different boards
        ("fabric.clique", 7, "fabric.one_cluster"),
        ("mig_mode", [1, 1], "gpu.mig"),
    ],
    ids=str,
)
def test_one_of_eight_is_another_and_nothing_else_fails(h100, reading, value, check):
    h100.set_gpu(3, reading, value)
    failed = {name: each for name, each in by_facts(h100).items() if each.verdict is FAIL}
    assert failed.keys() == {check}
    assert {each.part.index for each in failed[check].findings if each.verdict is FAIL} == {3}
    assert (bootchecked(h100).exit is Exit.FIT) is (check == "boards.revision"), "after the delivery a warning"


@pytest.mark.parametrize(("reading", "gpus"), [("serial", {2, 3}), ("serial", set(range(8))), ("uuid", {2, 3})])
def test_one_number_twice(h100, reading, gpus):
    for index in gpus:
        h100.set_gpu(index, reading, h100.sections["nvml"]["gpus"][2][reading])
    found = judge_one("boards.identity", h100)
    assert {finding.part.index for finding in found.findings if finding.verdict is FAIL} == gpus
