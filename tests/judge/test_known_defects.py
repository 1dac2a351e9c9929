"""Defects that other node checkers have or had, each as the input that fools them and the verdict that is right.

A checker that passes a bad node costs a job on every run. These are the ways in which that has happened; those that
one reading of NVML shows stand as cases in tests/checks.
"""

import re

import pytest
from fleet.machine import Machine
from support.healthy_platforms import UNSUPPORTED
from support.judging import judge_one
from support.recordings import recording
from support.whole_node import bootchecked, whole

from nodegate.claims.verdict import node_verdict
from nodegate.records.verdict import Verdict
from nodegate.run.bootcheck import Exit
from nodegate.subjects.host import older

FAIL, ERROR = Verdict.FAIL, Verdict.ERROR


def by_nvidia_smi(change: tuple[str, str], layout: str = "q-550.xml") -> Machine:
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
def test_yes_is_as_true_as_1(field: str, words: str, layout: str) -> None:
    """A driver writes Yes where a checker compares with 1: the pending or failed remap passes."""
    record = judge_one("ecc.remap_pending", by_nvidia_smi((f"<{field}>No<", f"<{field}>Yes<"), layout))
    assert record.verdict is FAIL
    assert words in record.message


@pytest.mark.parametrize("word", ["1", "yes", "Maybe", "", "N/A "])
def test_a_word_for_pending_that_nobody_taught_us_is_never_a_pass(word: str) -> None:
    machine = by_nvidia_smi(("<remapped_row_pending>No<", f"<remapped_row_pending>{word}<"))
    assert judge_one("ecc.remap_pending", machine).verdict in (ERROR, Verdict.NOT_JUDGED, Verdict.SKIP)
    assert bootchecked(machine).exit is not Exit.FIT


def test_nvidia_smi_counts_errors_of_memory_and_says_not_started_in_its_own_words() -> None:
    value = re.search(r"<dram_uncorrectable>\d+<", recording("nvidia_smi", "q-550.xml"))
    assert value
    assert judge_one("ecc.volatile", by_nvidia_smi((value[0], "<dram_uncorrectable>19999999<"))).verdict is FAIL
    not_started = by_nvidia_smi(("<state>Completed</state>", "<state>Not Started</state>"))
    assert judge_one("fabric.state", not_started).verdict is FAIL


@pytest.mark.parametrize("recovery", [0, UNSUPPORTED], ids=["none", "not told"])
def test_a_failed_row_remap_stands_whatever_the_recommended_action_says(recovery: object) -> None:
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
def test_one_uncorrectable_error_is_one_too_many(count: int) -> None:
    """A limit of 20,000,000, made for corrected errors, passes 19,999,999 uncorrectable ones."""
    machine = Machine.hgx_h100("gpu01")
    machine.set_gpu(6, "ecc.volatile_uncorrected", count)
    assert bootchecked(machine).exit is Exit.UNFIT


@pytest.mark.parametrize(
    ("old", "new"),
    [("2.9", "2.21.5"), ("2.9.9", "2.10"), ("535.183.06", "550.54.14"), ("9.0", "10.0"), ("2.21", "2.21.5")],
)
def test_versions_are_numbers_and_not_text(old: str, new: str) -> None:
    """By the letters "2.9" is newer than "2.21.5"."""
    assert older(old, new)
    assert not older(new, old)
    assert not older(new, new)
