"""What the lab builds once and keeps: outside the tree, so that nothing of it can be committed."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

FOLDER = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "nodegate-lab"


def key(*decides: object) -> str:
    """A short name for all that decides what is made."""
    return hashlib.sha256(repr(decides).encode()).hexdigest()[:16]


def kept(name: str, decides: str, make: Callable[[Path], object]) -> Path:
    """The folder `name`-`decides`, made by the first who asks for it; it is there whole or not at all.

    `make` gets a path where nothing is yet. Raises what that raises.
    """
    FOLDER.mkdir(parents=True, exist_ok=True)
    target = FOLDER / f"{name}-{decides}"
    with (FOLDER / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not target.exists():
            fresh = target.with_name(f"{target.name}.new")
            shutil.rmtree(fresh, ignore_errors=True)
            try:
                make(fresh)
                fresh.rename(target)
            finally:
                shutil.rmtree(fresh, ignore_errors=True)
    return target
