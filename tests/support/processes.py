"""What runs on this machine, by /proc."""

from __future__ import annotations

import time
from pathlib import Path


def running(word: str) -> list[int]:
    """The processes that have this word among their arguments; those that ended and wait for their parent left out."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if word.encode() in (folder / "cmdline").read_bytes().split(b"\0"):
                found.append(int(folder.name))
        except OSError:  # noqa: PERF203
            continue
    return found


def wait_until(true: object, limit_s: float = 30.0) -> bool:
    """Whether `true()` came true in time."""
    end = time.monotonic() + limit_s
    while time.monotonic() < end:
        if true():  # type: ignore[operator]
            return True
        time.sleep(0.05)
    return False
