"""Programs that the probe runs on a node: all that they wrote is read, and nobody is waited for in vain."""

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


@pytest.mark.parametrize(
    ("argv", "limit_s", "late_s"),
    [
        (["sh", "-c", "while :; do :; done"], 1.0, 2.0),  # it waits for nothing but a processor: its time twice
        (["sh", "-c", "exec >&- 2>&-; while :; do :; done"], 1.0, 2.0),
        (["sleep", "60"], 0.5, 0.5),
    ],
)
def test_a_program_has_its_limit_and_twice_that_where_it_could_go_on(
    argv: list[str], limit_s: float, late_s: float
) -> None:
    started = time.monotonic()
    with pytest.raises(reading.CannotRead) as said:
        commands.run(argv, limit_s=limit_s)
    assert time.monotonic() - started >= late_s
    assert said.value.reading == reading.unknown("timeout", f"{argv[0]}: not finished within {late_s:g} s")
