"""CPUs and NUMA nodes of the host. Section `cpus`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from nodegate.probe import readings as read
from nodegate.unknown import Known

_LIST = re.compile(r"[0-9]{1,6}(?:-[0-9]{1,6})?(?:,[0-9]{1,6}(?:-[0-9]{1,6})?)*")
_MOST = 1 << 16


@dataclass(frozen=True)
class Cpus:
    """The CPUs that are there and those that work, by number. `smt` is the kernel's word: on, off, notsupported."""

    present: Known[frozenset[int]]
    online: Known[frozenset[int]]
    smt: Known[str]
    cores: Known[int]  # that are online
    numa_nodes: Known[frozenset[int]]


def parse(found: Mapping[str, object]) -> Cpus:
    """The data of section `cpus`."""
    lists = {name: read.mapped(read.text(found, name), numbers_in) for name in ("present", "online", "numa_nodes")}
    return read.filled(Cpus, found, **lists)


def numbers_in(written: str) -> Known[frozenset[int]]:
    """The numbers of a list as the kernel writes it: "0-111,224"."""
    if not _LIST.fullmatch(written.strip()):
        return read.wrong("a list of numbers", written)
    found: set[int] = set()
    for each in written.strip().split(","):
        first, _, last = each.partition("-")
        if not int(first) <= int(last or first) < _MOST:
            return read.wrong("a list of numbers", written)
        found.update(range(int(first), int(last or first) + 1))
    return frozenset(found)
