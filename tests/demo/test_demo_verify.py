"""The comparison of a run with what was planted: a missed fault and a false alarm are both told."""

from pathlib import Path

import pytest

from nodegate.demo.verify import PlantedFault, compare, read_faults
from nodegate.errors import UsageError
from nodegate.records import part
from nodegate.records.finding import Finding, Record
from nodegate.records.verdict import Verdict

FAULT = PlantedFault("n1", "gpu.lost", Verdict.FAIL, "F02", "GPU 3 is gone", "GPU 3")


def said(gpu: int, verdict: Verdict = Verdict.FAIL, *, node: str = "n1", check: str = "gpu.lost") -> Record:
    where = part.gpu(gpu, address=f"0000:{gpu:02x}:00.0")
    return Record(node, check, verdict, (Finding(where, verdict, text="m"),))


def test_the_planted_fault_found_is_no_difference():
    same = compare([said(3)], [FAULT])
    assert not same
    assert same.lines() == (
        "demo: 1 of 1 planted faults reported, in 1 cause",
        "demo: 1 of 1 planted findings found on 1 nodes, no false alarm",
    )


@pytest.mark.parametrize("record", [said(31), said(3, Verdict.WARN), said(3, node="n2"), said(3, check="gpu.count")])
def test_another_device_verdict_node_or_check_is_both_a_miss_and_a_false_alarm(record: Record):
    different = compare([record], [FAULT])
    assert different
    assert different.missed == (FAULT,)
    assert len(different.false_alarms) == 1


def test_a_fault_that_only_follows_from_another_cause_is_not_told():
    lost, unread = said(3), said(3, Verdict.ERROR, check="ecc.volatile")
    hidden = PlantedFault("n1", "ecc.volatile", Verdict.ERROR, "F03", "GPU 3 loses memory", "GPU 3")
    different = compare([lost, unread], [FAULT, hidden])
    assert different.untold == ("n1: GPU 3 loses memory",)
    assert "no cause reports: n1: GPU 3 loses memory" in different.lines()


def test_silence_is_a_miss():
    different = compare([said(3, Verdict.PASS)], [FAULT])
    assert different.lines()[0] == "missed: n1 gpu.lost: fail of GPU 3 (F02: GPU 3 is gone)"
    assert compare([], [FAULT]).missed == (FAULT,)


@pytest.mark.parametrize("verdict", [Verdict.WARN, Verdict.ERROR, Verdict.FAIL])
def test_any_alarm_that_was_not_planted_is_told(verdict: Verdict):
    assert compare([said(3), said(5, verdict)], [FAULT]).false_alarms == (
        f"n1 gpu.lost: {verdict.value} GPU 5 (0000:05:00.0): m",
    )


def test_an_alarm_without_findings_is_told_too():
    assert compare([Record("n1", "gpu.lost", Verdict.ERROR, remark="no answer")], []).false_alarms == (
        "n1 gpu.lost: error node: no answer",
    )


def test_a_pattern_stands_for_the_checks_that_one_fault_leaves_without_an_answer():
    every = PlantedFault("n1", "*", Verdict.ERROR, "F02", "gone", "GPU 3")
    records = [said(3, Verdict.ERROR, check="ecc.volatile"), said(3, Verdict.ERROR, check="idle.memory")]
    assert not compare(records, [every])
    assert compare([said(4, Verdict.ERROR)], [every]).false_alarms


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("a: 1\n", "the planted faults must be a list"),
        ("- 1\n", "f.yaml:1: a planted fault must be a mapping"),
        ("- {nod: n1}\n", "f.yaml:1: 0: unknown key 'nod' - did you mean node?"),
        ("- {node: n1}\n", "f.yaml:1: check must be some text"),
        ("- {node: n, check: c, verdict: bad, failure_mode: F02, what: w}\n", "verdict must be warn, error or fail"),
    ],
)
def test_a_bad_list_is_an_error_with_its_line(tmp_path: Path, text: str, complaint: str):
    file = tmp_path / "f.yaml"
    file.write_text(text)
    with pytest.raises(UsageError) as problem:
        read_faults(file)
    assert complaint in str(problem.value)
