"""Processes that a test started, found by a mark in their environment: to see that none is left."""

from __future__ import annotations

import time
from pathlib import Path

MARK = "NODEGATE_TEST_MARK"


def marked(value: str) -> list[int]:
    """The living processes that have the mark."""
    wanted = f"{MARK}={value}".encode()
    return [int(folder.name) for folder in Path("/proc").iterdir() if folder.name.isdigit() and _has(folder, wanted)]


def none_marked_within(value: str, seconds: float) -> bool:
    """True as soon as no process has the mark."""
    end = time.monotonic() + seconds
    while marked(value):
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def _has(folder: Path, wanted: bytes) -> bool:
    try:
        return wanted in (folder / "environ").read_bytes().split(b"\0")
    except OSError:
        return False
