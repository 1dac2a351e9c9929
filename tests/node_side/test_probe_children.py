"""Tasks in child processes and programs: what hangs is told from what waits for a processor, and all is read."""

import os
import select
import time

import pytest

from nodegate.node_side.probe import child, children, commands, reading

LIMIT_S = 0.3


def runs(seconds):
    """As on busy processors: the child could go on at every moment, and is late."""

    def run():
        child.note("statvfs /data")
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            pass
        return "sound"

    return run


def begins_late(seconds):
    def run():
        time.sleep(seconds)
        child.note("statvfs /data")
        return "sound"

    return run


def is_blocked():
    child.note("statvfs /data")
    os.read(os.pipe()[0], 1)
    return "sound"


def outcome(task, patience_s):
    return children.run({"": child.Task(task, LIMIT_S, patience_s=patience_s)})[""]


@pytest.mark.parametrize("task", [runs(3 * LIMIT_S), begins_late(3 * LIMIT_S)], ids=["runs", "begins late"])
def test_what_only_waits_for_a_processor_is_given_time(task):
    assert outcome(task, 20.0).value == "sound"


@pytest.mark.parametrize(
    ("task", "patience_s", "why", "detail"),
    [
        (is_blocked, 20.0, "timeout", "s, at statvfs /data"),
        (runs(60.0), 2 * LIMIT_S, "busy", "but nothing blocks it, at statvfs /data"),
        (runs(60.0), 0.0, "timeout", "at statvfs /data"),
    ],
    ids=["blocked", "no more patience", "no patience"],
)
def test_what_is_late_is_said_with_its_reason(task, patience_s, why, detail):
    found = outcome(task, patience_s)
    assert found.unknown is not None
    assert found.unknown["why"] == why
    assert str(found.unknown["detail"]).endswith(detail)
    assert found.duration_s < 10


def test_patience_ends_with_the_time_for_all():
    started = time.monotonic()
    found = children.run({"": child.Task(runs(60.0), LIMIT_S, patience_s=50.0)}, budget_s=2 * LIMIT_S)[""]
    assert found.unknown is not None
    assert time.monotonic() - started < 20


def test_what_a_program_writes_just_before_its_end_is_read(monkeypatch):
    look = select.select

    def look_and_be_held_up(readable, *_):
        """On a busy node: nothing there yet, and before we go on it has written all and ended."""
        found = look(readable, [], [], 0.0)
        if not found[0]:
            look(readable, [], [], 5.0)
            time.sleep(0.2)
        return found

    monkeypatch.setattr(select, "select", look_and_be_held_up)
    assert commands.run(["sh", "-c", "sleep 0.1; echo said"], limit_s=60.0) == commands.Output(0, "said\n", "")


def test_what_a_program_leaves_behind_is_not_waited_for():
    found = commands.run(["sh", "-c", "sleep 60 & echo said"], limit_s=30.0)
    assert found == commands.Output(0, "said\n", "")


@pytest.mark.parametrize(
    ("argv", "limit_s", "late_s"),
    [
        (["sh", "-c", "while :; do :; done"], 1.0, 2.0),  # it waits for nothing but a processor: its time twice
        (["sh", "-c", "exec >&- 2>&-; while :; do :; done"], 1.0, 2.0),
        (["sleep", "60"], 0.5, 0.5),
    ],
)
def test_a_program_has_its_limit_and_twice_that_where_it_could_go_on(argv, limit_s, late_s):
    started = time.monotonic()
    with pytest.raises(reading.CannotRead) as said:
        commands.run(argv, limit_s=limit_s)
    assert time.monotonic() - started >= late_s
    assert said.value.reading == reading.unknown("timeout", f"{argv[0]}: not finished within {late_s:g} s")
