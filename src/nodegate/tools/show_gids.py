"""show_gids: the GID table of RDMA ports, in its long form and in the short one without IPv4, version and device."""

from __future__ import annotations

import re
from dataclasses import dataclass

from nodegate.errors import CannotMeasure
from nodegate.probe.readings import shown

MAX_TEXT = 1 << 20
_ROW = re.compile(
    r"([\w.-]{1,60})\s+([0-9]{1,3})\s+([0-9]{1,3})\s+([0-9a-f]{4}(?::[0-9a-f]{4}){7})"
    r"(?:\s+([0-9]{1,3}(?:\.[0-9]{1,3}){3}))?(?:\s+(v[12]))?(?:\s+([\w.-]{1,60}))?"
)
_FRAME = re.compile(r"DEV\s+PORT\s.*|-[-\s]*|n_gids_found=[0-9]+")


@dataclass(frozen=True)
class Gid:
    """One row. `ipv4`, `version` ("v2" is RoCE v2) and `netdev` are "" where the table does not show them."""

    device: str
    port: int
    index: int
    gid: str
    ipv4: str
    version: str
    netdev: str


def parse(written: str) -> tuple[Gid, ...]:
    """The rows of the table.

    Raises:
        CannotMeasure: it is empty or a row is not what show_gids writes.
    """
    found = []
    for line in written[:MAX_TEXT].splitlines():
        match = _ROW.fullmatch(line.strip())
        if match:
            device, port, index, gid, ipv4, version, netdev = match.groups("")
            found.append(Gid(device, int(port), int(index), gid, ipv4, version, netdev))
        elif line.strip() and not _FRAME.fullmatch(line.strip()):
            raise _bad(f"has a row that it does not write: {shown(line.strip(), 120)}")
    if not found:
        raise _bad("shows no GID")
    return tuple(found)


def _bad(problem: str) -> CannotMeasure:
    return CannotMeasure(f"the output of show_gids {problem}", next_step="run show_gids on the node by hand")
