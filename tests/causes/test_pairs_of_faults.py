"""Every planted fault is a cause of its own: alone, beside another on one node, and on two that measure together.

A fault that keeps another from being seen at all (a lost GPU blocks the burn) cannot give it away; what is seen of a
fault must be told.
"""

from __future__ import annotations

import itertools
from functools import cache

import pytest
from support.faulty_nodes import MAKES, PLANTS, names
from support.judged_fleet import judged

from nodegate.causes.conditions import conditions
from nodegate.causes.explain import HEALTHY, causes_of
from nodegate.records.cause import NOT_JUDGED
from nodegate.records.verdict import Verdict

BAD = (Verdict.FAIL, Verdict.WARN)
BETWEEN_NODES = (
    "slow_nic",
    "narrow_nic",
    "bad_cable",
    "hung_all_reduce",
    "power_brake",
    "hot_gpu",
    "port_down",
    "lost_gpu",
)
# A GPU that never begins to copy loses no words.
IMPOSSIBLE = frozenset(("dead_fabric_manager", "lost_words"))


# A collective that is 6 % slow, and a part of its node that can cost as much: one reading cannot tell two faults.
ALIKE = {frozenset(("slow_all_reduce", other)) for other in ("power_brake", "broken_nvlink", "hot_gpu", "no_nvls")}
PAIRS = [
    (kind, *pair)
    for kind, plants in PLANTS.items()
    for pair in itertools.combinations(plants, 2)
    if {*map(names, pair)} != IMPOSSIBLE
]


def plain(records):
    return causes_of(records, conditions())


@cache
def told(kind, plant):
    """The causes that a fault alone gives: (condition, part), with the findings that decide."""
    make, memory = MAKES[kind]
    records = judged(make, [[plant]], memory)["faulty1"]
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


@pytest.mark.parametrize(("kind", "one", "other"), PAIRS, ids=names)
def test_two_faults_of_one_node_are_both_told(kind, one, other):
    make, memory = MAKES[kind]
    plants = sorted((one, other), key=lambda plant: names(plant) == "lost_gpu")  # nothing can be set on a lost GPU
    records = judged(make, [plants], memory)["faulty1"]
    assert_nothing_lost(records)
    hidden = missing(kind, one, records) + missing(kind, other, records)
    expected = [("nccl_slow", "all_reduce")] if {names(one), names(other)} in ALIKE else []
    assert hidden == expected


@pytest.mark.parametrize(
    ("kind", "one", "other"),
    [pair for pair in PAIRS if {pair[1].__name__, pair[2].__name__} <= {*BETWEEN_NODES}],
    ids=names,
)
def test_faults_of_two_nodes_that_measure_together_are_each_told_of_their_own(kind, one, other):
    make, memory = MAKES[kind]
    both = judged(make, [[one], [other]], memory)
    assert missing(kind, one, both["faulty1"]) == []
    assert missing(kind, other, both["faulty2"]) == []
    for records in both.values():
        assert_nothing_lost(records)
