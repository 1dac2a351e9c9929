"""What the processes of the copies know about each other: how far each GPU is, so that they copy in turn, then at once.

A page of shared memory with a slot for each GPU, and as many for the processes that watch them. Each slot is written by
one process alone, so no lock is needed.
"""

import mmap
import os
import struct
import time
from typing import Dict, Iterable

PREPARING, WAITING, ALONE, INSIDE, READY_OUT, OUT, READY_IN, IN, ENDED = range(9)
_SLOT = struct.Struct("<iid")  # step, pid, since when
_LOOK_S = 0.001


class Turns:
    """Made before the processes are. `longest_s` says how long a GPU may stay at a step before the others go on.

    A step that is not in it has no limit: it waits itself, for steps that have one.
    """

    def __init__(self, slots: int, longest_s: Dict[int, float]) -> None:
        self.slots = slots
        self._longest_s = longest_s
        self._page = mmap.mmap(-1, max(2 * slots, 1) * _SLOT.size)
        for slot in range(2 * slots):
            _SLOT.pack_into(self._page, slot * _SLOT.size, PREPARING, 0, time.monotonic())

    def watcher(self, slot: int) -> int:
        """The slot of the process that watches this GPU."""
        return self.slots + slot

    def say(self, slot: int, step: int) -> None:
        """Note how far the GPU of this slot is."""
        _SLOT.pack_into(self._page, slot * _SLOT.size, step, os.getpid(), time.monotonic())

    def step(self, slot: int) -> int:
        """How far a GPU is; ENDED also if its process is gone, or has been at one step for too long."""
        step, pid, since = _SLOT.unpack_from(self._page, slot * _SLOT.size)
        gone = pid and not os.path.exists(f"/proc/{pid}")
        late = time.monotonic() - since > self._longest_s.get(step, float("inf"))
        return ENDED if gone or late else int(step)

    def wait(self, slots: "Iterable[int]", step: int) -> None:
        """Wait until all of these GPUs are at this step, past it, or out."""
        for slot in slots:
            while self.step(slot) < step:
                time.sleep(_LOOK_S)
