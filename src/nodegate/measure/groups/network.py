"""The networks by which the ranks of MPI meet: those of the inventory's addresses, and no other.

Open MPI takes each interface that is up. Nodes with Docker, libvirt or a CNI all have one of the same address, over
which no other node answers, and a launch waits there for ever. Source: open-mpi/ompi issues 4963 and 6377.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Network, collapse_addresses, ip_address, ip_interface

MOST_NETWORKS = 16  # more are said as the one that holds them all
_WORDS = re.compile(r"(\S{1,40}) (\S{1,80})")


@dataclass(frozen=True)
class Door:
    """Where a node is reached: the interface that has its address, and the network there."""

    interface: str
    network: str


def door(address: str, said: Mapping[str, Sequence[str]]) -> Door | None:
    """The interface with a node's address; None if it cannot be known.

    Args:
        address: what the inventory says: an address or a name.
        said: what the node says: `address` lines "eth0 10.0.0.1/24", what its name `means`, where it was `reached`.
    """
    doors = {}
    for line in said.get("address", ()):
        words = _WORDS.fullmatch(line)
        try:
            interface = ip_interface(words[2]) if words else None
        except ValueError:
            continue
        if words and interface and not interface.ip.is_loopback:
            doors[interface.ip] = Door(words[1].partition("@")[0], str(interface.network))
    for candidate in (address, *said.get("means", ()), *said.get("reached", ())):
        try:
            found = doors.get(ip_address(candidate.partition("%")[0]))
        except ValueError:
            continue
        if found:
            return found
    return None


def networks(doors: Sequence[Door | None]) -> str:
    """The networks of a launch as Open MPI takes them, "10.0.0.0/24,10.0.1.0/24"; empty if one is not known.

    It knows networks of IPv4 only: with another one, interfaces by their names.
    """
    known = [each for each in doors if each]
    if len(known) < len(doors):
        return ""
    if any(":" in each.network for each in known):
        return ",".join(sorted({each.interface for each in known}))
    found = list(collapse_addresses(IPv4Network(each.network) for each in known))
    return ",".join(map(str, found if len(found) <= MOST_NETWORKS else [_around(found)]))


def _around(found: Sequence[IPv4Network]) -> IPv4Network:
    """The smallest network that holds them all."""
    around = found[0]
    while not all(each.subnet_of(around) for each in found):
        around = around.supernet()
    return around
