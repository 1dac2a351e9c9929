"""The table of conditions: its own lines are right, and a slip in a line is refused with file and line."""

import fnmatch

import pytest

from nodegate import suite
from nodegate.causes.conditions import Condition, conditions, read
from nodegate.errors import UsageError
from nodegate.records.cause import ORDER, CheckFinding, Severity
from nodegate.records.finding import Finding
from nodegate.records.part import Kind, Part
from nodegate.records.verdict import Verdict


def test_every_check_that_the_table_lists_exists():
    checks = [check.id for check in suite.checks()]
    listed = [name.partition("/")[0] for condition in conditions().known for name in condition.findings]
    assert [name for name in listed if not fnmatch.filter(checks, name)] == []


def test_a_warning_is_called_degraded_or_milder_by_every_condition_and_a_failure_at_least_as_bad():
    for condition in (*conditions().known, Condition("site.mine", len(conditions().known))):
        for kind in Kind:
            said = {
                verdict: condition.severity_of(CheckFinding("site.mine", Finding(Part(kind, "x"), verdict, text="y")))
                for verdict in (Verdict.WARN, Verdict.FAIL)
            }
            assert ORDER[said[Verdict.WARN]] >= ORDER[Severity.DEGRADED], condition.name
            assert ORDER[said[Verdict.FAIL]] <= ORDER[said[Verdict.WARN]], condition.name


def test_a_condition_explains_only_conditions_below_it():
    place = {condition.name: condition.place for condition in conditions().known}
    for condition in conditions().known:
        assert all(place[name] > condition.place for name in condition.on_part | condition.on_node)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("- lost", "conditions must be a mapping"),
        ("lost: [gpu.lost]", "a condition must be a mapping"),
        ("lost: {findings: [gpu.lost], sevrity: lost}", "sevrity"),
        ("lost: {severity: lost}", "findings must be a list of names"),
        ("lost: {findings: [gpu.lost], severity: bad}", "severity is one of wrong data, lost"),
        ("lost: {findings: [gpu.lost], class: door}", "class is one of gpu, nic"),
        ("lost: {findings: [gpu.lost], explains: {node: [cuont]}}", "explains cuont, which is not a condition below"),
        ("lost: {findings: [gpu.lost], explains: {rack: [x]}}", "rack"),
        ("lost: {findings: [gpu.lost], says: '{value}'}", "must have only the fields"),
    ],
)
def test_a_slip_is_refused_with_its_line(tmp_path, text, message):
    file = tmp_path / "causes.yaml"
    file.write_text(f"# a site's own\n{text}\n")
    with pytest.raises(UsageError, match=message) as refused:
        read(file)
    assert (refused.value.file, refused.value.line) == (str(file), 2)
