"""Whose turn it is, as the record knows it."""

import pytest
from support.remembered import BEGIN_S, DAY_S, keep

from nodegate.night.runs import NEVER, Turn, in_turn, overdue, turns
from nodegate.past import database
from nodegate.past.record import FleetRecord

NODES = ("a", "b", "c")


def test_who_was_not_tested_for_longest_comes_first_and_who_is_busy_last(tmp_path):
    record = FleetRecord(tmp_path / "fleet.sqlite")
    keep(record, "one", BEGIN_S, {"a": (), "b": ()})
    keep(record, "two", BEGIN_S + DAY_S, {"a": ()})
    keep(record, "hook", BEGIN_S + 2 * DAY_S, {"b": ()}, profile="bootcheck")  # no test
    with database.reading(record.file) as base:
        found = turns(base, NODES)
    assert in_turn(found.values()) == ["c", "b", "a"]
    assert in_turn(found.values(), busy={"c"}) == ["b", "a", "c"]


def test_without_a_record_the_order_is_that_of_the_inventory():
    assert in_turn(turns(None, NODES).values()) == list(NODES)


def turn(*verdicts):
    found = Turn("a")
    for night, verdict in enumerate(verdicts):
        found.add(verdict, BEGIN_S + night * DAY_S)
    return found


@pytest.mark.parametrize(
    ("verdicts", "waits_days", "busy"),
    [
        ((), 0, 0),
        (("accepted",), 10, 0),
        (("accepted", *["not-judged"] * 4), 10, 4),
        (("not-judged", "not-judged"), 10, 2),  # never tested: it waits since it is known
        (("not-judged", "rejected", "not-judged"), 9, 1),
        (("accepted", "unreachable", "not-judged"), 10, 1),
        (("not-judged", "incomplete"), 9, 0),
    ],
)
def test_how_long_a_node_waits(verdicts, waits_days, busy):
    found = turn(*verdicts)
    assert (found.waits_s(BEGIN_S + 10 * DAY_S), found.busy) == (waits_days * DAY_S, busy)


def test_who_cannot_be_reached_keeps_nobody_from_its_turn():
    gone, tested = turn("accepted", "unreachable", "unreachable"), Turn("b", tried_s=BEGIN_S, tested_s=BEGIN_S)
    assert in_turn([gone, tested]) == ["b", "a"]


def test_who_waits_too_long_is_overdue_the_longest_first():
    now = BEGIN_S + 10 * DAY_S
    found = [Turn("a", first_s=now - DAY_S), Turn("b", first_s=now - 8 * DAY_S), Turn("c", first_s=now - 9 * DAY_S)]
    assert [each.node for each in overdue(found, 7 * DAY_S, now)] == ["c", "b"]
    assert not overdue([Turn("new")], 7 * DAY_S, now)
    assert Turn("new").waits_s(now) == 0.0
    assert Turn("new").tested_s == NEVER
