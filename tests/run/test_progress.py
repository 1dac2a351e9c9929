"""The progress of a run: a live line on a terminal, lines in a log."""

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


@pytest.mark.parametrize(
    ("stage", "done", "judged", "after_s", "line"),
    [
        (("judging", 200, "nodes", 0.0), 51, 0, 10, "judging: 51 of 200 nodes, 10 s, about 30 s left"),
        (("judging", 2496, "nodes", 0.0), 9, 0, 10, "judging: 9 of 2496 nodes, 10 s"),  # too few to tell
        (("facts", 4, "nodes", 0.0), 3, 2, 2, "facts: 3 of 4 nodes, 2 s"),  # before judging nothing is known
        (("facts", 4, "nodes", 0.0), 4, 2, 2, "judging: 2 of 4 nodes, 2 s, about 4 s left"),
        (("gpu", 8, "nodes", 60.0), 0, 0, 45, "gpu: 0 of 8 nodes, 45 s of about 60 s"),
    ],
)
def test_a_line_says_what_is_done_and_how_long_the_rest_takes(  # noqa: PLR0917 - a row
    monkeypatch: pytest.MonkeyPatch,
    stage: tuple[str, int, str, float],
    done: int,
    judged: int,
    after_s: float,
    line: str,
) -> None:
    clock, told = Clock(monkeypatch), Progress(None)
    name, many, of, expected_s = stage
    told.stage(name, many, of=of, expected_s=expected_s)
    for _ in range(done):
        told.node_done(failed=False)
    for _ in range(judged):
        told.node_judged()
    clock.now_s += after_s
    assert told.line() == line
