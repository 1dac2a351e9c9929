"""Control groups of our own for nodes that boot a systemd: two systemds in one group would end each other's services.

A control group is the one thing of a lab that outlives its processes. Whoever holds the lab removes it at the end;
`sweep` removes those whose holder was killed.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

MOUNTED = Path("/sys/fs/cgroup")
PREFIX = "nodegate-lab-"
# Removes the groups named as its arguments, once their last process is gone.
REMOVE = """
for group in "$@"; do
    left=100
    while [ -d "$group" ] && [ $left -gt 0 ]; do
        find "$group" -depth -type d -exec rmdir {} + 2>/dev/null || sleep 0.05
        left=$((left - 1))
    done
done
"""


def groups(holder: int | str) -> list[Path]:
    """The groups of the lab that the process `holder` holds: one in each hierarchy that a systemd needs."""
    return [base / f"{PREFIX}{holder}" for base in hierarchies()]


def made(holder: int, name: str) -> list[Path]:
    """New groups `name` below those of a lab."""
    folders = [group / name for group in groups(holder)]
    for folder in folders:
        folder.mkdir(parents=True)
    return folders


def sweep() -> None:
    """Remove the groups whose holder is no more."""
    found = [group for base in hierarchies() for group in base.glob(f"{PREFIX}*")]
    stale = [str(group) for group in found if not Path("/proc", group.name.removeprefix(PREFIX)).exists()]
    if stale:
        subprocess.run(["sh", "-c", REMOVE, "sh", *stale], check=True, timeout=30)


def hierarchies() -> list[Path]:
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
