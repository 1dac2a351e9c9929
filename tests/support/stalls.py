"""A machine that stands still for seconds makes everything late that has a limit, which is no test of anything."""

import threading
import time
from typing import TypeVar

Done = TypeVar("Done")

TICK_S = 0.05
MOST_STILL_S = 1.0
TRIES = 3


def undisturbed(work):
    """What the work gives; it is done again where this machine stalled for a second meanwhile."""
    for _ in range(TRIES):
        ended, longest_s = threading.Event(), [0.0]
        ticking = threading.Thread(target=_tick, args=(ended, longest_s))
        ticking.start()
        try:
            done = work()
        finally:
            ended.set()
            ticking.join()
        if longest_s[0] < MOST_STILL_S:
            break
    return done


def _tick(ended, longest_s):
    before = time.monotonic()
    while not ended.wait(TICK_S):
        now = time.monotonic()
        longest_s[0], before = max(longest_s[0], now - before), now
