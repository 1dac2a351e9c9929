"""Defects that other node checkers have or had, each as the input that fools them and the verdict that is right.

A checker that passes a bad node costs a job on every run. These are the ways in which that has happened.
"""

import re

import pytest
from fleet.machine import Machine
from support.judging import judge_one
from support.recordings import recording
from support.whole_node import bootchecked, whole

from nodegate.claims.verdict import node_verdict
from nodegate.profile import Profile
from nodegate.records.verdict import Verdict
from nodegate.run.bootcheck import Exit
from nodegate.subjects.host import older

PASS, WARN, FAIL, ERROR, SKIP = Verdict.PASS, Verdict.WARN, Verdict.FAIL, Verdict.ERROR, Verdict.SKIP
NOT_SUPPORTED = {"why": "not supported", "detail": "NVML 3: Not Supported", "nvml": 3}


def h100() -> Machine:
    return Machine.hgx_h100("gpu01")


# Row remapping


@pytest.mark.parametrize(
    ("corrected", "rows", "verdict"), [(0, 0, PASS), (600, 511, PASS), (0, 512, FAIL), (0, 600, FAIL)]
)
@pytest.mark.parametrize("profile", list(Profile))
def test_rows_are_read_from_the_field_of_uncorrectable_errors(
    corrected: int, rows: int, verdict: Verdict, profile: Profile
) -> None:
    """A checker that takes the third of three fields reads "pending" for the count, and passes 600 remapped rows."""
    machine = h100()
    machine.set_gpu(3, "remapped_rows", [corrected, rows, 0, 0])
    record = judge_one("ecc.remapped_rows", machine, profile=profile)
    assert record.verdict is verdict
    if verdict is FAIL:
        assert record.message.startswith("GPU 3 ")
        assert f"{rows} rows remapped for uncorrectable errors, expected at most 511 rows" in record.message


def by_nvidia_smi(change: tuple[str, str], layout: str = "q-550.xml") -> Machine:
    """A node whose NVML cannot be loaded and whose nvidia-smi writes this."""
    written = recording("nvidia_smi", layout)
    assert change[0] in written
    machine = h100()
    machine.section_fails("nvml", "missing", "no libnvidia-ml.so.1")
    machine.sections["nvidia_smi"] = {"q": written.replace(*change), "exit_code": 0}
    return machine


@pytest.mark.parametrize(
    ("field", "words"),
    [("remapped_row_pending", "a row remap is pending"), ("remapped_row_failure", "a row remap has failed")],
)
@pytest.mark.parametrize("layout", ["q-525.xml", "q-550.xml", "q-570.xml", "q-580.xml"])
def test_yes_is_as_true_as_1(field: str, words: str, layout: str) -> None:
    """A driver writes Yes where a checker compares with 1: the pending or failed remap passes."""
    record = judge_one("ecc.remap_pending", by_nvidia_smi((f"<{field}>No<", f"<{field}>Yes<"), layout))
    assert record.verdict is FAIL
    assert words in record.message


@pytest.mark.parametrize("word", ["1", "yes", "Maybe", "", "N/A "])
def test_a_word_for_pending_that_nobody_taught_us_is_never_a_pass(word: str) -> None:
    machine = by_nvidia_smi(("<remapped_row_pending>No<", f"<remapped_row_pending>{word}<"))
    assert judge_one("ecc.remap_pending", machine).verdict in (ERROR, Verdict.NOT_JUDGED, SKIP)
    assert bootchecked(machine).exit is not Exit.FIT


@pytest.mark.parametrize("recovery", [0, NOT_SUPPORTED], ids=["none", "not told"])
def test_a_failed_row_remap_stands_whatever_the_recommended_action_says(recovery: object) -> None:
    """A checker that prints the recommended action prints "Healthy" for none, beside a remap that failed."""
    machine = h100()
    machine.set_gpu(2, "remapped_rows", [0, 8, 0, 1])
    machine.set_gpu(2, "recovery_action", recovery)
    records = whole(machine)
    assert records["ecc.remap_pending"].verdict is FAIL
    assert any("replace the board" in finding.action for finding in records["ecc.remap_pending"].findings)
    assert node_verdict(records.values()).value == "rejected"
    outcome = bootchecked(machine)
    assert outcome.exit is Exit.UNFIT
    assert "row remap failed - replace the GPU" in outcome.line


@pytest.mark.parametrize("action", range(1, 9))
def test_each_recommended_action_is_a_fail_that_names_it(action: int) -> None:
    """A table of actions without an entry for reboot or reset gives nothing, and nothing is shown as healthy."""
    machine = h100()
    machine.set_gpu(2, "recovery_action", action)
    record = judge_one("gpu.recovery_action", machine)
    assert record.verdict is FAIL
    assert "recovery action none" not in record.message
    assert any(finding.action.startswith("drain the node, then: ") for finding in record.findings)


# ECC


@pytest.mark.parametrize("count", [1, 19_999_999, 20_000_001])
def test_one_uncorrectable_error_is_one_too_many(count: int) -> None:
    """A limit of 20,000,000, made for corrected errors, passes 19,999,999 uncorrectable ones."""
    machine = h100()
    machine.set_gpu(6, "ecc.volatile_uncorrected", count)
    machine.set_gpu(6, "ecc.aggregate_uncorrected", count)
    machine.set_gpu(6, "ecc.aggregate_dram_uncorrected", count)
    record = judge_one("ecc.volatile", machine, profile=Profile.BOOTCHECK)
    assert record.verdict is FAIL
    assert [finding.observed for finding in record.decisive] == [count]
    assert "since driver load, expected at most 0 errors" in record.message
    assert bootchecked(machine).exit is Exit.UNFIT


def test_nvidia_smi_counts_its_dram_errors_too() -> None:
    value = re.search(r"<dram_uncorrectable>\d+<", recording("nvidia_smi", "q-550.xml"))
    assert value
    machine = by_nvidia_smi((value[0], "<dram_uncorrectable>19999999<"))
    assert judge_one("ecc.volatile", machine).verdict is FAIL


# Xids


@pytest.mark.parametrize("code", [31, 94, 95, 109, 140, 149, 777])
@pytest.mark.parametrize("profile", list(Profile))
def test_an_xid_that_lists_forget_is_not_passed_over(code: int, profile: Profile) -> None:
    """A list of the Xids that count leaves these out: memory errors that escaped, a stuck context, NVLink 5."""
    machine = h100()
    place = machine.gpu_address(5).removesuffix(".0")
    machine.kernel(f"NVRM: Xid (PCI:{place}): {code}, pid=4711, name=python3, something went wrong", ago_s=600)
    record = judge_one("kernel_log.xid", machine, profile=profile)
    assert record.verdict in (WARN, FAIL)
    assert f"Xid {code}" in record.message
    assert machine.gpu_address(5) in record.message
    if code in (95, 140, 149):
        assert record.verdict is FAIL


# NVLink fabric


@pytest.mark.parametrize("gpu", range(8))
@pytest.mark.parametrize(("state", "word"), [(0, "not supported"), (1, "not started"), (2, "in progress")])
def test_the_fabric_state_of_each_gpu_counts(gpu: int, state: int, word: str) -> None:
    """A checker that asks GPU 0 speaks for one of eight; one that looks for "in progress" leaves out the others."""
    machine = h100()
    machine.set_gpu(gpu, "fabric.state", state)
    record = judge_one("fabric.state", machine)
    assert record.verdict is FAIL
    assert record.message.startswith(f"GPU {gpu} ")
    assert f"fabric state {word}, expected completed" in record.message
    assert sum(finding.verdict is FAIL for finding in record.findings) == 1


def test_nvidia_smi_says_not_started_in_its_own_words() -> None:
    machine = by_nvidia_smi(("<state>Completed</state>", "<state>Not Started</state>"))
    assert judge_one("fabric.state", machine).verdict is FAIL


# Versions


@pytest.mark.parametrize(
    ("old", "new"),
    [("2.9", "2.21.5"), ("2.9.9", "2.10"), ("535.183.06", "550.54.14"), ("9.0", "10.0"), ("2.21", "2.21.5")],
)
def test_versions_are_numbers_and_not_text(old: str, new: str) -> None:
    """By the letters "2.9" is newer than "2.21.5"."""
    assert older(old, new)
    assert not older(new, old)
    assert not older(new, new)


def test_an_old_nccl_with_a_large_digit_is_old() -> None:
    machine = h100()
    machine.set("software", "nccl", [{"path": "/usr/lib/libnccl.so.2", "file": "libnccl.so.2.9.9"}])
    record = judge_one("software.nccl_version", machine)
    assert record.verdict is WARN
    assert "version 2.9.9, expected at least 2.21.5" in record.message


# The worse verdict stays


def test_a_warning_followed_by_a_pass_in_one_check_stays_a_warning() -> None:
    """A checker that writes one result a check lets the last line win: 12 GB/s warned, then "PASS, no action"."""
    machine = h100()
    machine.set_gpu(0, "persistence_mode", False)  # the first of eight; the seven after it pass
    record = judge_one("gpu.persistence", machine)
    assert record.findings[-1].verdict is PASS
    assert record.verdict is WARN
    assert record.message.startswith("GPU 0 ")


def test_a_link_that_fell_to_gen_3_at_work_fails() -> None:
    """A limit of a thousandth of what is right (MB/s for GB/s, say) lets a fall from generation 5 to 3 pass."""
    machine = h100()
    machine.set_link(machine.gpu_address(4), speed_gts="8.0")
    machine.set_gpu(4, "utilization_percent", 95)
    record = judge_one("pcie.link_speed", machine)
    assert record.verdict is FAIL
    assert "link speed 8 GT/s, expected at least 32 GT/s" in record.message
