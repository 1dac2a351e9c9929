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


def children_of(pid: int) -> list[int]:
    """All living descendants of a process, by /proc."""
    parents: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        parents.setdefault(int(fields[1]), []).append(int(stat.parent.name))
    found, todo = [], [pid]
    while todo:
        below = parents.get(todo.pop(), [])
        found += below
        todo += below
    return found


def first_process(name: str, below: int) -> int:
    """The process of this name that is number 1 of its own namespace, among the descendants of another; 0: none yet."""
    for pid in children_of(below):
        try:
            status = Path(f"/proc/{pid}/status").read_text()
        except OSError:
            continue
        fields = dict(line.split(":", 1) for line in status.splitlines() if ":" in line)
        if fields["NSpid"].split()[-1] == "1" and fields["Name"].strip() == name:
            return pid
    return 0


def name_of(pid: int) -> str:
    """What a process is called; empty when it is no more."""
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


def wait_until(true: object, limit_s: float = 30.0) -> bool:
    """Whether `true()` came true in time."""
    end = time.monotonic() + limit_s
    while time.monotonic() < end:
        if true():  # type: ignore[operator]
            return True
        time.sleep(0.05)
    return False
