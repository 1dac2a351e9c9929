"""Every planted fault is a cause of its own: alone, beside another on one node, and on two that measure together.

A fault that keeps another from being seen at all (a lost GPU blocks the burn) cannot give it away; what is seen of a
fault must be told. Beside another: three faults to a node, so that each pair of faults stands on one without a third
that keeps either from being seen.
"""

import itertools
from functools import cache

import pytest
from support.faulty_nodes import PLANTS, names, records_of

from nodegate.causes.conditions import conditions
from nodegate.causes.explain import HEALTHY, causes_of
from nodegate.records.cause import NOT_JUDGED
from nodegate.records.verdict import Verdict

BAD = (Verdict.FAIL, Verdict.WARN)
TOLD = (Verdict.PASS, *BAD)
BETWEEN_NODES = (
    *("slow_nic", "narrow_nic", "bad_cable", "hung_all_reduce"),
    *("power_brake", "hot_gpu", "port_down", "lost_gpu"),
)
# A GPU that never begins to copy loses no words.
IMPOSSIBLE = frozenset(("dead_fabric_manager", "lost_words"))
# A collective that is 6 % slow, and a part of its node that can cost as much: one reading cannot tell two faults.
ALIKE = {frozenset(("slow_all_reduce", other)) for other in ("power_brake", "broken_nvlink", "hot_gpu", "no_nvls")}
# These keep checks from being judged, so what another pair of faults shows may not be seen beside them.
BLOCKING = {"lost_gpu", "dead_fabric_manager", "no_nvls", "stray_process", "hung_all_reduce", "no_nccl_tests"}


def together(plants):
    """Sets of two or three faults: every pair is in one whose third, if there is one, hides nothing of the pair."""
    pairs = [frozenset(pair) for pair in itertools.combinations(plants, 2) if {*map(names, pair)} != IMPOSSIBLE]
    left, found = dict.fromkeys(pairs), []
    while left:
        first = next(iter(left))
        sets = [first, *(first | {third} for third in plants if third not in first)]
        best = max(sets, key=lambda chosen: len(shown_by(chosen) & left.keys()) if first in shown_by(chosen) else 0)
        found.append(tuple(plant for plant in plants if plant in best))
        for pair in shown_by(best):
            left.pop(pair, None)
    return found


@cache
def shown_by(chosen):
    """The pairs of a set that are seen as if they were alone."""
    pairs = [frozenset(pair) for pair in itertools.combinations(chosen, 2)]
    if len(chosen) == 2:
        return frozenset(pairs)
    if any({*map(names, pair)} in (IMPOSSIBLE, *ALIKE) for pair in pairs):
        return frozenset()
    return frozenset(pair for pair in pairs if not {*map(names, chosen - pair)} & BLOCKING)


TOGETHER = [
    pytest.param(kind, each, id="-".join(map(names, each))) for kind in PLANTS for each in together(PLANTS[kind])
]
BETWEEN = [
    (kind, *pair)
    for kind, plants in PLANTS.items()
    for pair in itertools.combinations([plant for plant in plants if names(plant) in BETWEEN_NODES], 2)
]


def plain(records):
    return causes_of(records, conditions())


@cache
def told(kind, plant):
    """The causes that a fault alone gives: (condition, part), with the findings that decide."""
    records = records_of(kind, (plant,))["faulty1"]
    return {
        (cause.condition, cause.part.short): cause.decisive for cause in plain(records) if cause.condition != NOT_JUDGED
    }


def missing(kind, plant, records):
    """What a fault gives alone and what was seen of it here, without a cause here."""
    seen = {
        (record.check, each.code, part.short)
        for record in records
        for each in record.findings
        if each.verdict in BAD
        for part in each.parts
    }
    here = {(cause.condition, part.short) for cause in plain(records) for part in cause.parts}
    return [
        key
        for key, decisive in told(kind, plant).items()
        if key not in here and (decisive.check, decisive.finding.code, decisive.finding.part.short) in seen
    ]


def assert_nothing_lost(records):
    expected = sorted(id(each) for one in records for each in one.findings if each.verdict not in HEALTHY)
    assert sorted(id(each.finding) for cause in plain(records) for each in cause.findings) == expected


@pytest.mark.parametrize(("kind", "plant"), [(kind, plant) for kind in PLANTS for plant in PLANTS[kind]], ids=names)
def test_a_fault_alone_is_one_cause(kind, plant):
    assert len(told(kind, plant)) == 1


@pytest.mark.parametrize(("kind", "plant"), [(kind, plant) for kind in PLANTS for plant in PLANTS[kind]], ids=names)
def test_the_others_keep_no_more_than_a_check_of_their_own_from_being_judged(kind, plant):
    healthy = {record.check for record in records_of(kind, ())["faulty1"] if record.verdict is Verdict.PASS}
    lost = [
        one.check for one in records_of(kind, (plant,))["faulty1"] if one.check in healthy and one.verdict not in TOLD
    ]
    assert len(lost) <= 1 or names(plant) in BLOCKING, lost


@pytest.mark.parametrize(("kind", "plants"), TOGETHER)
def test_the_faults_of_one_node_are_all_told(kind, plants):
    last = tuple(sorted(plants, key=lambda plant: names(plant) == "lost_gpu"))  # nothing can be set on a lost GPU
    records = records_of(kind, last)["faulty1"]
    assert_nothing_lost(records)
    hidden = [key for plant in plants for key in missing(kind, plant, records)]
    assert hidden == ([("nccl_slow", "all_reduce")] if {*map(names, plants)} in ALIKE else [])


@pytest.mark.parametrize(("kind", "one", "other"), BETWEEN, ids=names)
def test_faults_of_two_nodes_that_measure_together_are_each_told_of_their_own(kind, one, other):
    both = records_of(kind, (one,), (other,))
    assert missing(kind, one, both["faulty1"]) == []
    assert missing(kind, other, both["faulty2"]) == []
    for records in both.values():
        assert_nothing_lost(records)
