"""Ctrl-C while a run is ending: it may end the wait for the nodes, never the writing of the reports."""

from __future__ import annotations

import signal
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType


class LaterInterrupts:
    """Ctrl-C after Python's handler is replaced: it raises no exception any more and is noted in `seen`."""

    def __init__(self) -> None:
        self.seen = False
        self._before: Callable[[int, FrameType | None], object] | None = None

    def take(self) -> None:
        """Begin. If Ctrl-C is ignored it stays ignored; if pytest runs in a thread, that thread cannot handle it."""
        before = signal.getsignal(signal.SIGINT)
        if self._before is None and callable(before) and threading.current_thread() is threading.main_thread():
            self._before = before
            signal.signal(signal.SIGINT, self._note)

    def give_back(self) -> None:
        """Restore Python's handler, for code that runs after the run."""
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)
            self._before = None

    def _note(self, _number: int, _frame: FrameType | None) -> None:
        self.seen = True
