"""Programs that the probe runs on a node: all that they wrote is read, and nobody is waited for in vain."""

from __future__ import annotations

import select
import time
from typing import Any

import pytest

from nodegate.node_side.probe import commands, reading


def test_what_a_program_writes_just_before_its_end_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    look = select.select

    def look_and_be_held_up(readable: list[int], *_: object) -> tuple[list[Any], list[Any], list[Any]]:
        """On a busy node: nothing there yet, and before we go on it has written all and ended."""
        found = look(readable, [], [], 0.0)
        if not found[0]:
            look(readable, [], [], 5.0)
            time.sleep(0.2)
        return found

    monkeypatch.setattr(select, "select", look_and_be_held_up)
    assert commands.run(["sh", "-c", "sleep 0.1; echo said"], limit_s=60.0) == commands.Output(0, "said\n", "")


def test_what_a_program_leaves_behind_is_not_waited_for() -> None:
    found = commands.run(["sh", "-c", "sleep 60 & echo said"], limit_s=30.0)
    assert found == commands.Output(0, "said\n", "")


def spins() -> list[str]:
    return ["sh", "-c", "while :; do :; done"]


def test_a_program_that_does_not_wait_for_anything_gets_its_time_twice() -> None:
    started = time.monotonic()
    with pytest.raises(reading.CannotRead) as said:
        commands.run(spins(), limit_s=1.0)
    assert time.monotonic() - started >= 2.0
    assert said.value.reading == reading.unknown("timeout", "sh: not finished within 2 s")


def test_a_program_that_waits_for_something_else_has_its_limit() -> None:
    with pytest.raises(reading.CannotRead) as said:
        commands.run(["sleep", "60"], limit_s=0.5)
    assert said.value.reading == reading.unknown("timeout", "sleep: not finished within 0.5 s")


def test_what_has_closed_its_pipes_gets_its_time_twice_too() -> None:
    started = time.monotonic()
    with pytest.raises(reading.CannotRead):
        commands.run(["sh", "-c", "exec >&- 2>&-; while :; do :; done"], limit_s=1.0)
    assert time.monotonic() - started >= 2.0
