"""What ends a run early: Ctrl-C, SIGTERM, SIGHUP; and the user's own streams, which pytest's capturing replaces.

The first signal ends the measuring, a later one the wait for the nodes. None stops the writing of the reports.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import stat
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    import pytest

Handler = Callable[[int, FrameType | None], object]
TOLD = (signal.SIGTERM, signal.SIGHUP)  # by systemd, by a batch system, by a terminal that was closed
_WIDTH_OF_A_LOG = 120


class Interrupts:
    """The handlers of these signals while a run goes on; `seen` says that another came while it was ending.

    What is ignored stays ignored (nohup), and a handler that another program has set stays.
    """

    def __init__(self) -> None:
        self.seen = False
        self._before: dict[signal.Signals, Handler | int | None] = {}

    def begin(self) -> None:
        """From now on SIGTERM and SIGHUP end the run as Ctrl-C does."""
        for number in TOLD:
            if signal.getsignal(number) is signal.SIG_DFL:
                self._set(number, _end_the_run)

    def take(self) -> None:
        """From now on all of them are noted in `seen`, and raise no exception any more."""
        for number in (signal.SIGINT, *TOLD):
            if callable(signal.getsignal(number)):
                self._set(number, self._note)

    def give_back(self) -> None:
        """Restore what was there, for code that runs after the run."""
        for number, before in self._before.items():
            signal.signal(number, before)
        self._before.clear()

    def _set(self, number: signal.Signals, handler: Handler) -> None:
        """Python has handlers in the main thread only; pytest may run in another."""
        if threading.current_thread() is threading.main_thread():
            before = signal.signal(number, handler)
            self._before.setdefault(number, before)

    def _note(self, number: int, _frame: FrameType | None) -> None:
        self.seen = True
        _leave_lost_terminal(number)


def has_line(entry: object) -> bool:
    """Whether pytest can show a place: a signal may strike at an instruction that belongs to no line."""
    try:
        return isinstance(entry.lineno, int)  # type: ignore[attr-defined]
    except TypeError:  # pytest counts from the line that is not there
        return False


def _end_the_run(number: int, _frame: FrameType | None) -> None:
    _leave_lost_terminal(number)
    raise KeyboardInterrupt(f"the run was ended by {signal.Signals(number).name}")


def _leave_lost_terminal(number: int) -> None:
    """After SIGHUP the terminal may be gone: each write to it would fail, and pytest would end without reports."""
    if number != signal.SIGHUP:
        return
    null = os.open(os.devnull, os.O_RDWR)
    for each in Path("/dev/fd").iterdir():
        with contextlib.suppress(OSError, ValueError):
            file = int(each.name)
            if stat.S_ISCHR(os.fstat(file).st_mode) and _is_hung_up(file):
                os.dup2(null, file)
    os.close(null)


def _is_hung_up(file: int) -> bool:
    looker = select.poll()
    looker.register(file, 0)
    return any(events & select.POLLHUP for _, events in looker.poll(0))


def width(reporter: pytest.TerminalReporter) -> int:
    """Characters of a line: those of the terminal, or as COLUMNS asks; a log or a mail has no width of its own."""
    is_known = reporter.isatty or os.environ.get("COLUMNS")
    return reporter.config.get_terminal_writer().fullwidth if is_known else _WIDTH_OF_A_LOG


def stdin(config: pytest.Config) -> TextIO:
    """Standard input, which pytest's capturing has replaced."""
    capturing = config.pluginmanager.getplugin("capturemanager")
    if capturing is not None:
        capturing.suspend_global_capture(in_=True)
    return sys.stdin


def own_stderr() -> TextIO | None:
    """A stream to the user's terminal or log that pytest's capturing does not close."""
    try:
        return os.fdopen(os.dup(2), "w", encoding="utf-8", errors="replace")
    except OSError:
        return None
