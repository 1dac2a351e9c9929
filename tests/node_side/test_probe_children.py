"""Tasks in child processes: what hangs is told from what waits for a processor."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

import pytest

from nodegate.node_side.probe import child, children

if TYPE_CHECKING:
    from collections.abc import Callable

    from nodegate.node_side.probe.children import Outcome

LIMIT_S = 0.3


def runs(seconds: float) -> Callable[[], object]:
    """As on busy processors: the child could go on at every moment, and is late."""

    def run() -> object:
        child.note("statvfs /data")
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            pass
        return "sound"

    return run


def begins_late(seconds: float) -> Callable[[], object]:
    def run() -> object:
        time.sleep(seconds)
        child.note("statvfs /data")
        return "sound"

    return run


def is_blocked() -> object:
    child.note("statvfs /data")
    os.read(os.pipe()[0], 1)
    return "sound"


def outcome(task: Callable[[], object], patience_s: float) -> Outcome:
    return children.run({"": child.Task(task, LIMIT_S, patience_s=patience_s)})[""]


@pytest.mark.parametrize("task", [runs(3 * LIMIT_S), begins_late(3 * LIMIT_S)], ids=["runs", "begins late"])
def test_what_only_waits_for_a_processor_is_given_time(task: Callable[[], object]) -> None:
    assert outcome(task, 20.0).value == "sound"


def test_what_is_blocked_is_late_at_its_limit() -> None:
    found = outcome(is_blocked, 20.0)
    assert found.unknown is not None
    assert found.unknown["why"] == "timeout"
    assert str(found.unknown["detail"]).endswith("s, at statvfs /data")
    assert found.duration_s < 10


def test_patience_ends_and_then_nothing_is_said_of_a_hang() -> None:
    found = outcome(runs(60.0), 2 * LIMIT_S)
    assert found.unknown is not None
    assert found.unknown["why"] == "busy"
    assert "but nothing blocks it, at statvfs /data" in str(found.unknown["detail"])


def test_without_patience_the_limit_is_the_limit() -> None:
    found = outcome(runs(60.0), 0.0)
    assert found.unknown is not None
    assert found.unknown["why"] == "timeout"


def test_patience_ends_with_the_time_for_all() -> None:
    started = time.monotonic()
    found = children.run({"": child.Task(runs(60.0), LIMIT_S, patience_s=50.0)}, budget_s=2 * LIMIT_S)[""]
    assert found.unknown is not None
    assert time.monotonic() - started < 20
