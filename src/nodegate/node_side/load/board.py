"""What the processes of a burn know about each other: a page of shared memory with a slot for each GPU.

Each slot is written only by the process of its GPU, so no lock is needed.
"""

import mmap
import os
import struct
import time
from typing import List

PREPARING, READY, LOADING, ENDED = range(4)
_SLOT = struct.Struct("<ii")  # state, pid
_START = struct.Struct("<d")
_LOOK_S = 0.001


class Board:
    """Made before the processes are; times are those of time.monotonic, which all processes share."""

    def __init__(self, slots: int) -> None:
        self._slots = slots
        self._page = mmap.mmap(-1, _START.size + slots * _SLOT.size)

    def say(self, slot: int, state: int) -> None:
        """Note how far the GPU of this slot is."""
        _SLOT.pack_into(self._page, _START.size + slot * _SLOT.size, state, os.getpid())

    def state(self, slot: int) -> int:
        """How far a GPU is; ENDED also if its process is gone."""
        state, pid = _SLOT.unpack_from(self._page, _START.size + slot * _SLOT.size)
        return ENDED if pid and not os.path.exists(f"/proc/{pid}") else state

    @property
    def started(self) -> float:
        """When the load began; 0.0 before that."""
        value: float = _START.unpack_from(self._page, 0)[0]
        return value

    def wait_for_all(self, until: float) -> None:
        """Wait until every GPU is ready or out, or until that time: one that hangs must not delay the others."""
        while time.monotonic() < until and PREPARING in self._states():
            time.sleep(_LOOK_S)
        if not self.started:  # if several see this at once the last one wins, by less than a millisecond
            _START.pack_into(self._page, 0, time.monotonic())

    def _states(self) -> "List[int]":
        return [self.state(slot) for slot in range(self._slots)]
