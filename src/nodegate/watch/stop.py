"""Ctrl-C ends a watch when what it has read is judged; a second Ctrl-C ends it at once."""

from __future__ import annotations

import signal
from types import FrameType


class Stop:
    """Whether SIGINT came; only for the main thread, where Python handles signals."""

    def __init__(self) -> None:
        self.asked = False

    def __enter__(self) -> Stop:  # noqa: PYI034 - typing.Self needs Python 3.11
        self._before = signal.signal(signal.SIGINT, self._ask)
        return self

    def __exit__(self, *_: object) -> None:
        signal.signal(signal.SIGINT, self._before)

    def _ask(self, _number: int, _frame: FrameType | None) -> None:
        self.asked = True
        signal.signal(signal.SIGINT, signal.default_int_handler)
