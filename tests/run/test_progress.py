"""The progress of a run: a live line on a terminal, lines in a log."""

from __future__ import annotations

import io
import time
from pathlib import Path

import pytest

from lab.processes import wait_until
from nodegate.run import progress
from nodegate.run.progress import Progress


class Log(io.StringIO):
    """A log file that keeps what it got when it is closed."""

    said = ""

    def close(self) -> None:
        self.said = self.getvalue()
        super().close()


def test_a_log_gets_a_line_now_and_then_and_no_control_characters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "LINE_EVERY_S", 600.0)
    monkeypatch.setattr(progress, "REFRESH_EVERY_S", 0.01)
    log = Log()
    told = Progress(log)
    begun_s = time.monotonic()
    told.stage("facts", 4)
    told.node_done(failed=True)
    monkeypatch.setattr(progress, "LINE_EVERY_S", 0.2)
    assert wait_until(lambda: log.getvalue().count("\n") >= 2)
    told.done()
    told.done()
    lines = log.said.splitlines()
    assert len(lines) <= (time.monotonic() - begun_s) / 0.2
    assert all(line.startswith("facts: 1 of 4 nodes, 1 could not be measured, ") for line in lines)
    assert "\r" not in log.said


def test_a_log_on_a_full_disk_ends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "LINE_EVERY_S", 0.0)
    monkeypatch.setattr(progress, "REFRESH_EVERY_S", 0.01)
    full = Path("/dev/full").open("w", encoding="utf-8")  # noqa: SIM115 - Progress closes it
    told = Progress(full)
    told.stage("facts", 1)
    told._ended.wait(0.1)
    told.done()
    assert told._stream is None or full.closed


class Clock:
    """The time, set by hand."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_s = 1000.0
        monkeypatch.setattr(progress.time, "monotonic", lambda: self.now_s)


def test_judging_is_a_stage_with_the_time_that_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, told = Clock(monkeypatch), Progress(None)
    told.stage("judging", 200, of="checks")
    for _ in range(50):
        told.node_done(failed=False)
    clock.now_s += 10
    assert told.line() == "judging: 50 of 200 checks, 10 s, about 30 s left"


def test_the_first_few_say_nothing_of_the_time_that_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, told = Clock(monkeypatch), Progress(None)
    told.stage("judging", 2496, of="checks")
    told.node_done(failed=False)
    clock.now_s += 10
    assert told.line() == "judging: 1 of 2496 checks, 10 s"


def test_nodes_that_are_judged_after_the_last_is_measured_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, told = Clock(monkeypatch), Progress(None)
    told.stage("facts", 4)
    for _ in range(4):
        told.node_done(failed=False)
    told.node_judged()
    clock.now_s += 2
    assert told.line() == "judging: 1 of 4 nodes, 2 s, about 6 s left"


def test_a_stage_of_known_length_says_what_is_left_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, told = Clock(monkeypatch), Progress(None)
    told.stage("gpu", 8, expected_s=60.0)
    clock.now_s += 45
    assert told.line() == "gpu: 0 of 8 nodes, 45 s, about 15 s left"
