"""The knowledge files say what they must, row by row."""

from __future__ import annotations

import re

import pytest

from nodegate.judge.verdict import Verdict
from nodegate.knowledge.tables import Lasts, LineRule, XidKind, lines, settings, unknown_xid, xids
from nodegate.probe.payload.kernel_log import INTEREST
from nodegate.rules.line_faults import device_of, rule_of

ASKED_FOR = (31, 48, 63, 64, 79, 94, 95, 109, 119, 120, 13, 43, 45, 74, 92, 110, 140, 143, 154)
SUBJECTS = {"gpu_driver", "pcie", "nic", "memory", "storage", "host"}


@pytest.mark.parametrize("code", ASKED_FOR)
def test_the_xid_is_in_the_table(code: int) -> None:
    assert xids()[code].code == code


def test_what_makes_a_gpu_unusable_now_fails_before_a_job() -> None:
    failing = {code for code, rule in xids().items() if rule.bootcheck is Verdict.FAIL}
    assert {48, 64, 74, 79, 95, 110, 119, 120, 140, 143} <= failing


def test_a_programs_own_fault_never_fails() -> None:
    rules = [rule for rule in xids().values() if rule.kind is XidKind.APPLICATION]
    assert {rule.code for rule in rules} == {13, 31, 43}
    assert all(Verdict.FAIL not in (rule.delivery, rule.bootcheck) for rule in rules)


def test_delivery_is_never_milder_than_a_bootcheck() -> None:
    order = [Verdict.PASS, Verdict.WARN, Verdict.FAIL]
    for rule in (*xids().values(), *lines()):
        assert order.index(rule.delivery) >= order.index(rule.bootcheck), rule.name


def test_only_a_new_part_ends_a_failed_row_remap() -> None:
    assert [code for code, rule in xids().items() if rule.lasts is Lasts.GOOD] == [64]


def test_a_code_that_is_not_in_the_table_warns() -> None:
    rule = unknown_xid(999)
    assert (rule.delivery, rule.bootcheck) == (Verdict.WARN, Verdict.WARN)


@pytest.mark.parametrize("rule", [pytest.param(rule, id=rule.name) for rule in lines()])
def test_the_rule_is_the_first_that_fits_its_own_example(rule: LineRule) -> None:
    assert rule_of(rule.example) is rule


@pytest.mark.parametrize("rule", [pytest.param(rule, id=rule.name) for rule in lines()])
def test_the_probe_brings_lines_like_the_example(rule: LineRule) -> None:
    assert INTEREST.search(rule.example)


@pytest.mark.parametrize("rule", [pytest.param(rule, id=rule.name) for rule in lines()])
def test_the_example_names_its_device_where_the_pattern_can(rule: LineRule) -> None:
    named = {"device", "netdev"} & rule.pattern.groupindex.keys()
    assert bool(device_of(rule, rule.example)) == bool(named)


def test_each_line_rule_has_a_check_that_judges_it() -> None:
    assert {rule.subject for rule in lines()} == SUBJECTS


def test_every_sentence_is_one_line_without_an_end() -> None:
    for rule in (*xids().values(), *lines()):
        for text in (rule.meaning, rule.action):
            assert text
            assert not re.search(r"[\n.]$|  ", text), f"{rule.name}: {text!r}"


def test_settings_fit_values_without_regard_to_case_and_never_the_empty_one() -> None:
    pinned = next(row for row in settings() if row.name == "NCCL_ALGO")
    socket = next(row for row in settings() if row.name == "NCCL_NET")
    assert pinned.matches("Ring")
    assert not pinned.matches(" ")
    assert socket.matches("socket")
    assert not socket.matches("IB")
