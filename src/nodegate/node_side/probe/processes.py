"""The processes of the node, from one pass over /proc."""

import os
from typing import Dict, Iterator, List, NamedTuple, Set, Tuple

from nodegate.node_side.probe import files


class Process(NamedTuple):
    """One process; `is_ours` if it belongs to the probe itself."""

    pid: int
    comm: str
    state: str
    uid: int
    is_ours: bool


class _Stat(NamedTuple):
    comm: str
    state: str
    parent: int


def listed() -> List[Process]:
    """All visible processes, in the order of their numbers."""
    stats = dict(_stats())
    ours = _below(stats, os.getppid()) if not files.ROOT else set()
    return [Process(pid, stat.comm, stat.state, _uid(pid), pid in ours) for pid, stat in sorted(stats.items())]


def _stats() -> Iterator[Tuple[int, _Stat]]:
    for name in files.entries("/proc"):
        if not name.isdigit():
            continue
        before, _, after = files.plain(f"/proc/{name}/stat").rpartition(")")
        fields = after.split()
        if len(fields) > 1 and fields[1].isdigit():
            yield int(name), _Stat(before.partition("(")[2], fields[0], int(fields[1]))


def _below(stats: Dict[int, _Stat], top: int) -> Set[int]:
    """A process and all its descendants: the probe's first process is the parent of the child that runs this."""
    found: Set[int] = set()
    new = {top}
    while new:
        found |= new
        new = {pid for pid, stat in stats.items() if stat.parent in new} - found
    return found


def _uid(pid: int) -> int:
    try:
        return os.stat(files.rooted(f"/proc/{pid}")).st_uid
    except OSError:
        return -1
