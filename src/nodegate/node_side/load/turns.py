"""What the processes of a program know about each other: how far each GPU is.

A page of shared memory with a slot for each process. Each slot is written by one process alone, so no lock is needed.
"""

import mmap
import os
import struct
import time
from typing import Dict, Iterable

PREPARING, WAITING, ALONE, INSIDE, READY_OUT, OUT, READY_IN, IN, ENDED = range(9)  # of the copies
READY, LOADING = 1, 2  # of a burn, between the first and the last of these
_SLOT = struct.Struct("<iid")  # step, pid, since when
_START = struct.Struct("<d")
_LOOK_S = 0.001


class Turns:
    """Made before the processes are. `longest_s` says how long a GPU may stay at a step before the others go on.

    A step that is not in it has no limit: it waits itself, for steps that have one. As many slots as there are GPUs
    are for the processes that watch them.
    """

    def __init__(self, slots: int, longest_s: Dict[int, float]) -> None:
        self.slots = slots
        self._longest_s = longest_s
        self._page = mmap.mmap(-1, 2 * slots * _SLOT.size + _START.size)
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

    def wait(self, slots: "Iterable[int]", step: int, until: float = float("inf")) -> None:
        """Wait until all of these GPUs are at this step, past it, or out; no longer than until that time."""
        for slot in slots:
            while self.step(slot) < step and time.monotonic() < until:
                time.sleep(_LOOK_S)

    @property
    def started(self) -> float:
        """When the load of a burn began, as time.monotonic says in all processes; 0.0 before that."""
        value: float = _START.unpack_from(self._page, 2 * self.slots * _SLOT.size)[0]
        return value

    def start_with_all(self, until: float) -> None:
        """Start the load once every GPU is ready or out, or at that time: one that hangs must not delay the others."""
        self.wait(range(self.slots), READY, until)
        if not self.started:  # if several see this at once the last one wins, by less than a millisecond
            _START.pack_into(self._page, 2 * self.slots * _SLOT.size, time.monotonic())
