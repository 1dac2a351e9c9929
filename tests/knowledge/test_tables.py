"""The knowledge files say what they must, row by row, and where it was seen."""

import re

import pytest
from support.patterns import alternatives

from nodegate.kernel_log import incidents
from nodegate.kernel_log.incidents import device_of, rule_of
from nodegate.knowledge.roots import follows
from nodegate.knowledge.tables import Lasts, XidKind, lines, rows, settings, xid_rule, xids
from nodegate.node_side.probe.kernel_lines import KINDS, kind_of
from nodegate.records.verdict import Verdict

# How such a line goes on: of crashed programs those are sent that jobs use, for any program may crash.
OF_A_JOB = {"program_crashed": "7f ip 7f sp 7f error 4 in libcuda.so.550.90.07"}
EVERY_CODE = range(1, 177)
SUBJECTS = {
    *("gpu_driver", "pcie", "nic", "memory", "storage", "host", "hung_task", "lockup"),
    *("hardware_error", "nvme", "file_system"),
}
TOLD_BY_TRIAGE_ONLY = "context"


def test_every_xid_is_in_the_table_in_order():
    assert list(xids()) == list(EVERY_CODE)
    assert all(rule.code == code for code, rule in xids().items())


def test_every_xid_has_the_name_that_the_driver_gives_it():
    assert [rule.code for rule in xids().values() if not re.fullmatch(r"[A-Z][A-Z0-9_]+", rule.mnemonic)] == []


def test_what_makes_a_gpu_unusable_now_fails_before_a_job():
    failing = {code for code, rule in xids().items() if rule.bootcheck is Verdict.FAIL}
    assert {48, 64, 74, 79, 95, 110, 119, 120, 140, 143} <= failing


def test_a_programs_own_fault_never_fails():
    rules = [rule for rule in xids().values() if rule.kind is XidKind.APPLICATION]
    assert {rule.code for rule in rules} >= {8, 13, 31, 32, 39, 43, 69, 80}
    assert all(Verdict.FAIL not in (rule.delivery, rule.bootcheck) for rule in rules)


def test_a_code_of_old_gpus_only_warns():
    rules = [rule for rule in xids().values() if rule.kind is XidKind.LEGACY]
    assert len(rules) > 40
    assert {(rule.delivery, rule.bootcheck) for rule in rules} == {(Verdict.WARN, Verdict.WARN)}


def test_what_nvlink_5_and_newer_drivers_report_is_judged_as_its_older_sibling():
    for new, old in ((156, 63), (167, 79), (171, 48), (172, 48), (175, 119)):
        assert xids()[new].delivery is xids()[old].delivery, new


def test_what_follows_is_never_worse_than_its_root():
    order = [Verdict.PASS, Verdict.WARN, Verdict.FAIL]
    pairs = [(rule, root) for rule in xids().values() for root in xids().values() if follows(rule, root, None)]
    assert len(pairs) > 100
    for rule, root in pairs:
        assert order.index(root.bootcheck) >= order.index(rule.bootcheck), (rule.code, root.code)
        if root.kind is XidKind.HARDWARE:
            assert order.index(root.delivery) >= order.index(rule.delivery), (rule.code, root.code)


def test_only_a_new_part_ends_a_failed_row_remap_and_what_wears_out():
    assert [code for code, rule in xids().items() if rule.lasts is Lasts.GOOD] == [64, 157, 161, 164, 165]


def test_a_code_that_is_not_in_the_table_warns():
    rule = xid_rule(999)
    assert (rule.delivery, rule.bootcheck) == (Verdict.WARN, Verdict.WARN)


def test_the_rule_fits_its_example_and_the_probe_brings_each_form_of_its_pattern(subtests):
    for rule in lines():
        with subtests.test(rule.id):
            first = rule_of(rule.example)
            assert (first and first.id) == rule.id
            forms = (form + OF_A_JOB.get(rule.id, "") for form in alternatives(rule.pattern))
            for text in (rule.example, *forms):
                kind = kind_of(text)
                assert kind in KINDS, text
                assert rule.subject not in incidents.KINDS or kind in incidents.KINDS[rule.subject], (kind, text)


def test_the_example_names_its_device_where_the_pattern_can(subtests):
    for rule in lines():
        with subtests.test(rule.id):
            named = {"device", "netdev"} & rule.pattern.groupindex.keys()
            assert bool(device_of(rule, rule.example)) == bool(named)


def test_each_line_rule_has_a_check_that_judges_it():
    assert {rule.subject for rule in lines()} == SUBJECTS | {TOLD_BY_TRIAGE_ONLY}
    told = [rule for rule in lines() if rule.subject == TOLD_BY_TRIAGE_ONLY]
    assert all((rule.delivery, rule.bootcheck) == (Verdict.PASS, Verdict.PASS) for rule in told)


def test_settings_fit_values_without_regard_to_case_and_never_the_empty_one():
    pinned = next(row for row in settings() if row.name == "NCCL_ALGO")
    socket = next(row for row in settings() if row.name == "NCCL_NET")
    assert pinned.matches("Ring")
    assert not pinned.matches(" ")
    assert socket.matches("socket")
    assert not socket.matches("IB")


@pytest.mark.parametrize("driver", ["some_device", "vnice"])
def test_a_driver_whose_name_ends_like_a_nic_s_is_none(driver):
    assert rule_of(f"{driver}: probe of 0000:5c:00.0 failed with error -2") is None
    told = rule_of("ice: probe of 0000:5c:00.0 failed with error -2")
    assert told is not None
    assert told.id == "nic_start_failed"


FORMS = re.compile(  # a page, a file of a commit or of a release, our own choice
    r"https://\S+|[\w.-]+/[\w.-]+@[0-9a-f]{7,40} [\w./-]+(?::[0-9]+)?|[a-z][\w-]+ [\w.-]+: [\w./-]+|choice: \S.{20,}"
)


@pytest.mark.parametrize("table", ["signatures.csv", "kernel_lines.csv", "fabric_lines.csv"])
def test_each_row_has_a_source_in_one_of_the_forms(table):
    assert [row["id"] for row in rows(table) if not FORMS.fullmatch(row["source"])] == []
