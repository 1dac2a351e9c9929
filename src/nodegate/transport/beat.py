"""A sign of life for every program with a lease: one thread for all of them, which no other work can starve."""

import threading
import time
from contextlib import suppress
from typing import Protocol

BEAT_S = 5.0
SIGN = b"\n"


class Leased(Protocol):
    """What ends by itself where no sign of life comes. `lease_s`: after so many seconds."""

    lease_s: float

    def beat(self) -> None:
        """Send one sign of life. Must not wait. Raises OSError."""
        ...

    def expired(self, silent_s: float) -> None:
        """No sign of life was sent for so long, which is more than the lease: this process was stopped."""
        ...


class Beat:
    """Sends the signs of life. Its thread runs while there is something to keep."""

    def __init__(self) -> None:
        self._kept: set[Leased] = set()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    def keep(self, leased: Leased) -> None:
        """From now on."""
        with self._changed:
            self._kept.add(leased)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="beat", daemon=True)
                self._thread.start()

    def leave(self, leased: Leased) -> None:
        """No more. Harmless twice, and for what was never kept."""
        with self._changed:
            self._kept.discard(leased)
            self._changed.notify_all()

    def _run(self) -> None:
        last_s = _now_s()
        while True:
            with self._changed:
                if self._changed.wait_for(lambda: not self._kept, BEAT_S):
                    self._thread = None
                    return
                kept = list(self._kept)
            silent_s, last_s = _now_s() - last_s, _now_s()
            for each in kept:
                if silent_s > each.lease_s:
                    each.expired(silent_s)
                with suppress(OSError, ValueError):
                    each.beat()


def _now_s() -> float:
    """Seconds that a machine counts while it is suspended too."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


BEAT = Beat()
