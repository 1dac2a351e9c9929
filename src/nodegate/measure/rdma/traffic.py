"""How a site's jobs use its fabric: traffic class, service level and GID index, by the inventory; and NICs by kind."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nodegate.errors import CannotMeasure

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nodegate.facts import NodeFacts
    from nodegate.node import Node

AMAZON = 0x1D0F
ROCE_V2 = "RoCE v2"
_CLASS_LINE = re.compile(r"(?P<device>[\w.-]{1,60})/tc/(?P<port>[0-9]{1,3})/traffic_class:(?P<text>.{1,80})")
READ_CLASSES = "cd /sys/class/infiniband && grep -H . */tc/*/traffic_class 2>/dev/null"


@dataclass(frozen=True)
class Traffic:
    """What perftest is given for the fabric; None: its own choice."""

    tclass: int | None = None
    sl: int | None = None
    gid_index: int | None = None

    def words(self, *, routed: bool) -> tuple[str, ...]:
        """The options of perftest; a traffic class is part of the header that only routed packets have (RoCE)."""
        tclass = (f"--tclass={self.tclass}",) if routed and self.tclass is not None else ()
        return (*tclass, *(("-S", str(self.sl)) if self.sl is not None else ()))


def traffic_of(node: Node) -> Traffic:
    """What the inventory says: nodegate_rdma_tclass, _sl and _gid_index, else NCCL's own settings for its jobs.

    Raises:
        UsageError: a value is not a number, or too large.
    """
    own = node.settings
    return Traffic(
        own.rdma_tclass if own.rdma_tclass is not None else _of_nccl(node, "NCCL_IB_TC", 255),
        own.rdma_sl if own.rdma_sl is not None else _of_nccl(node, "NCCL_IB_SL", 15),
        own.rdma_gid_index if own.rdma_gid_index is not None else _of_nccl(node, "NCCL_IB_GID_INDEX", 1023),
    )


def _of_nccl(node: Node, name: str, most: int) -> int | None:
    """NCCL's own setting for its jobs; it takes a negative one for its own choice."""
    value = node.settings.nccl_env.get(name)
    if value is None:
        return None
    text = str(value).strip()
    if isinstance(value, bool) or not re.fullmatch(r"-?[0-9]{1,6}", text, re.ASCII) or int(text) > most:
        raise node.wrong(f"{name} must be a number from 0 to {most}, not {text[:40]!r}")
    return int(text) if int(text) >= 0 else None


def ipv6_gid_index(gids: Mapping[int, tuple[str, str]]) -> int | None:
    """The first RoCE v2 GID that is an IPv6 address by which other subnets can be reached: none of the link alone."""
    for index in sorted(gids):
        gid, kind = gids[index]
        if kind == ROCE_V2 and (address := _address(gid)) is not None and not address.is_link_local:
            return index
    return None


def _address(gid: str) -> ipaddress.IPv6Address | None:
    try:
        return ipaddress.IPv6Address(gid)
    except ValueError:
        return None


def parse_classes(written: str) -> Mapping[tuple[str, int], str]:
    """The output of `READ_CLASSES`: the class that the node itself forces on a port, as its driver writes it."""
    found = (_CLASS_LINE.fullmatch(line.strip()) for line in written.splitlines())
    return {(match["device"], int(match["port"])): match["text"].strip() for match in found if match}


def is_efa(facts: NodeFacts, device: str, address: str) -> bool:
    """Whether a device is Amazon's EFA, which has reliable datagrams of its own (SRD) and no RC."""
    if device.startswith(("efa", "rdmap")):
        return True
    try:
        return any(each.address == address and each.vendor == AMAZON for each in facts.pci.devices)
    except CannotMeasure:
        return False


def is_bond(device: str, netdev: str = "") -> bool:
    """Whether a device is two ports in one, each of which carries a part of the queue pairs."""
    return "bond" in device or netdev.startswith("bond")
