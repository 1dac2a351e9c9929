"""The processes that this command has started, wherever they are: by a word in their environment."""

from __future__ import annotations

import os
import secrets
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

MARK = "NODEGATE_LAB_GPU"
_LOOK_S = 0.1


def mark() -> str:
    """Mark all that is started from now on; the mark."""
    os.environ[MARK] = secrets.token_hex(16)
    return os.environ[MARK]


def running(word: str) -> dict[int, str]:
    """{pid: name} of the living processes with this mark, but for this one."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        pid = int(folder.name)
        try:
            marked = f"{MARK}={word}".encode() in (folder / "environ").read_bytes()
            state = (folder / "stat").read_text().rpartition(")")[2].split()[0]
            if marked and state not in "ZX" and pid != os.getpid():
                found[pid] = (folder / "comm").read_text().strip()
        except OSError:  # it ended while we looked, or belongs to somebody else
            continue
    return found


def computing(word: str) -> list[int]:
    """Those of them that have loaded CUDA's driver library."""
    return sorted(pid for pid in running(word) if _has_loaded(pid, "/libcuda.so"))


def soon(true: Callable[[], object], limit_s: float) -> bool:
    """Whether `true()` comes true in time."""
    until = time.monotonic() + limit_s
    while not true():
        if time.monotonic() > until:
            return False
        time.sleep(_LOOK_S)
    return True


def _has_loaded(pid: int, library: str) -> bool:
    try:
        return library in Path(f"/proc/{pid}/maps").read_text()
    except OSError:
        return False
