"""How the processor time of a piece of work grows with its size: only ratios are judged, never seconds.

Work in proportion to its size takes 8 times as long for 8 times the size, work that grows with the square 64 times.
A machine that others use too may make one measurement several times too long, for seconds: so the limit lies far from
both, the quickest of several tries counts, and the tries of a suspect are spread over more than a second.
"""

from __future__ import annotations

import gc
import math
import time
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

Work = TypeVar("Work")

TIMES = 8
MOST_GROWTH = 22.0  # nearly three times what is right, and a third of what the square would be
QUICK_S = 0.05  # what is done sooner is not worth a ratio
_PAUSES_S = (0.0, 0.0, 0.1, 0.3, 1.0)


def growth(run: Callable[[Work], object], make: Callable[[int], Work], size: int, quick_s: float = QUICK_S) -> float:
    """How many times as long work of that size takes as an eighth of it; `TIMES` for what is too quick to tell."""
    whole, part = make(size), make(size // TIMES)
    took_s, took_part_s = cpu_s(run, whole), math.inf
    if took_s < quick_s:
        return TIMES
    for pause_s in _PAUSES_S:
        took_part_s = min(took_part_s, cpu_s(run, part), cpu_s(run, part))  # one that was held up would hide a square
        if took_s <= MOST_GROWTH * took_part_s:
            break
        time.sleep(pause_s)
        took_s = min(took_s, cpu_s(run, whole))
    return took_s / max(took_part_s, 1e-9)


def cpu_s(run: Callable[[Work], object], work: Work) -> float:
    """Seconds of processor time that the work takes, without the garbage of whoever asks."""
    collects = gc.isenabled()
    gc.disable()  # when it collects is chance, and it has all objects of the process to look at
    try:
        started = time.process_time()
        run(work)
        return time.process_time() - started
    finally:
        if collects:
            gc.enable()
