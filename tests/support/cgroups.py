"""Control groups of our own for nodes that boot a systemd: two systemds in one group would end each other's services."""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path

MOUNTED = Path("/sys/fs/cgroup")
_OURS = "nodegate-tests-"


def made(name: str) -> list[Path]:
    """The folders of the group `name`, one in each hierarchy that a systemd needs."""
    folders = [base / f"{_OURS}{os.getpid()}" / name for base in _hierarchies()]
    for folder in folders:
        folder.mkdir(parents=True)
    return folders


def remove(owner: int, limit_s: float = 5.0) -> None:
    """Remove every group that a process of this number made, once nobody is in them."""
    end = time.monotonic() + limit_s
    for top in [base / f"{_OURS}{owner}" for base in _hierarchies()]:
        while top.exists() and time.monotonic() < end:
            for folder in sorted((path for path in top.rglob("*") if path.is_dir()), reverse=True):
                with contextlib.suppress(OSError):
                    folder.rmdir()
            with contextlib.suppress(OSError):
                top.rmdir()
                break
            time.sleep(0.02)


def sweep() -> None:
    """Remove what is left of runs that were ended by SIGKILL: a control group outlives its last process."""
    for base in _hierarchies():
        for top in base.glob(f"{_OURS}*"):
            owner = int(top.name.removeprefix(_OURS))
            if not Path(f"/proc/{owner}").exists():
                remove(owner)


def _hierarchies() -> list[Path]:
    """Our own group in the hierarchy named systemd (cgroup v1) and in the unified one (v2)."""
    found = []
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        number, controllers, path = line.split(":", 2)
        if controllers == "name=systemd":
            found.append(MOUNTED / "systemd" / path.lstrip("/"))
        elif number == "0":
            unified = MOUNTED / "unified"
            found.append((unified if unified.is_dir() else MOUNTED) / path.lstrip("/"))
    return found
