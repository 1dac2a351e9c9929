"""The RDMA ports of a node that are measured, their GIDs, and how a site's jobs use its fabric: by facts, inventory."""

import ipaddress
import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from nodegate.baseline.expected import overrides
from nodegate.errors import CannotMeasure
from nodegate.facts import NodeFacts, known_or_none
from nodegate.node import Node
from nodegate.probe.pci import Pci, PciDevice
from nodegate.probe.rdma import RdmaPort
from nodegate.subjects.rdma import is_active, rails
from nodegate.unknown import value_or

ROCE, ROCE_V2 = "Ethernet", "RoCE v2"
# Every GID in use and its type, as "mlx5_0/ports/1/gids/3:0000:...": empty rows of the type table answer EINVAL.
READ_GIDS = "cd /sys/class/infiniband && grep -H '[1-9a-f]' */ports/*/gids/* */ports/*/gid_attrs/types/* 2>/dev/null"
_GID_LINE = re.compile(
    r"(?P<device>[\w.-]{1,60})/ports/(?P<port>[0-9]{1,3})/(?P<kind>gids|gid_attrs/types)/(?P<index>[0-9]{1,4}):(?P<text>.+)"
)
_STEP = "name the rails of this node in the inventory (nodegate_nics: a list) if it carries jobs"
_SETUP = "see the findings of rdma.rails and rdma.port_state"

Gids = dict[int, tuple[str, str]]  # index -> (gid, type)


@dataclass(frozen=True)
class Rail:
    """A port that is measured. `gid_index` is None on InfiniBand, and on RoCE until one is found.

    `gpu` is the GPU that is nearest on PCIe, as its index among the node's GPUs and its address; None if unknown.
    """

    device: str
    port: int
    layer: str
    rate_gbps: float | None
    address: str
    gid_index: int | None = None
    gpu: tuple[int, str] | None = None

    @property
    def name(self) -> str:
        """The device of its metrics: "mlx5_0", the same name on every node."""
        return self.device if self.port == 1 else f"{self.device}:{self.port}"


def rails_in_service(node: Node, facts: NodeFacts) -> tuple[Rail, ...]:
    """The ports that carry jobs and are ACTIVE.

    The inventory may name them (nodegate_nics: a list of devices), or set rate and link layer (nodegate_limits);
    otherwise they are the largest group of equal adapters.

    Raises:
        CannotMeasure: there is none.
    """
    known = {device.name: device.address for device in facts.rdma.devices}
    active = [port for port in _chosen(node, facts) if is_active(port)]
    if not active:
        raise CannotMeasure("no RDMA port that carries jobs is in service", next_step=_SETUP)
    return tuple(
        Rail(
            port.device,
            port.port,
            layer=str(port.link_layer),
            rate_gbps=value_or(port.rate_gbps, None),
            address=known[port.device],
            gid_index=gid_index(port.gids) if port.link_layer == ROCE else None,
        )
        for port in active
    )


def fabric(found: Sequence[Rail]) -> str:
    """What two nodes must have in common to be paired: link layer and rate of most of their rails."""
    layer, rate = Counter((rail.layer, rail.rate_gbps) for rail in found).most_common(1)[0][0]
    return f"{rate:g} Gb/s {layer}" if rate else layer


def gid_index(gids: Mapping[int, tuple[str, str]], *, ipv6: bool = False) -> int | None:
    """The first GID that is RoCE v2 with an IPv4 address; perftest's default is 0, which is not one of these.

    With `ipv6`, where there is none, one with an IPv6 address by which other subnets can be reached: none of the link
    alone.
    """
    v2: dict[int, ipaddress.IPv6Address] = {}
    for index, (gid, _) in sorted((index, row) for index, row in gids.items() if row[1] == ROCE_V2):
        with suppress(ValueError):
            v2[index] = ipaddress.IPv6Address(gid)
    mapped = (index for index, address in v2.items() if address.ipv4_mapped)
    others = (index for index, address in v2.items() if ipv6 and not address.is_link_local)
    return next(mapped, next(others, None))


def parse_gids(written: str) -> Mapping[tuple[str, int], Gids]:
    """The output of `READ_GIDS`, by device and port."""
    found: defaultdict[tuple[str, int], Gids] = defaultdict(dict)
    for match in filter(None, map(_GID_LINE.fullmatch, map(str.strip, written.splitlines()))):
        table, index, text = found[match["device"], int(match["port"])], int(match["index"]), match["text"].strip()
        gid, kind = table.get(index, ("", ""))
        table[index] = (text, kind) if match["kind"] == "gids" else (gid, text)
    return {port: {index: pair for index, pair in table.items() if pair[0]} for port, table in found.items()}


def nearest_gpus(facts: NodeFacts, found: Sequence[Rail]) -> Mapping[str, tuple[int, str]]:
    """For each rail the GPU that shares most PCIe bridges with it, then its NUMA node; another one for each rail."""
    pci = known_or_none(lambda: facts.pci)
    if pci is None:
        return {}
    above = _above(pci)
    numa = {device.address: device.numa_node for device in pci.devices}
    used: Counter[str] = Counter()
    nearest: dict[str, tuple[int, str]] = {}
    for rail in found:
        if rail.address not in above or not pci.gpus:
            continue

        def nearness(gpu: PciDevice, own: str = rail.address) -> tuple[int, bool, int]:
            return len(above[gpu.address] & above[own]), gpu.numa_node == numa[own], -used[gpu.address]

        gpu = max(pci.gpus, key=nearness)  # of equal ones the first
        used[gpu.address] += 1
        nearest[rail.name] = pci.gpus.index(gpu), gpu.address
    return nearest


def without_gpu(node: Node, facts: NodeFacts, found: Sequence[Rail]) -> Mapping[str, CannotMeasure]:
    """The rails that are taken for storage NICs, with the reason.

    Only where the inventory names none, and as many others as there are GPUs share a PCIe switch with one.
    """
    pci = known_or_none(lambda: facts.pci)
    if pci is None:
        return {}
    above = _above(pci)
    gpus = [above[gpu.address] for gpu in pci.gpus]
    beside = {rail.name: any(above.get(rail.address, frozenset()) & gpu for gpu in gpus) for rail in found}
    near = sum(beside.values())
    if node.settings.rail_devices is not None or not gpus or near < len(gpus) or near == len(found):
        return {}
    reason = f"left out: no GPU is behind its PCIe switch, as one is with {near} others: a storage NIC"
    return {name: CannotMeasure(reason, next_step=_STEP) for name, has_gpu in beside.items() if not has_gpu}


def _above(pci: Pci) -> Mapping[str, frozenset[str]]:
    """For each device the bridges above it, by their addresses."""
    return {device.address: frozenset(bridge.address for bridge in pci.path(device)) for device in pci.devices}


def _chosen(node: Node, facts: NodeFacts) -> Sequence[RdmaPort]:
    named = node.settings.rail_devices
    if named is not None:
        return [port for port in facts.rdma.ports if port.device in named]
    limits = overrides(node, {}, {})
    return rails(facts.rdma, rate=limits.get("rdma.rate_gbps"), layer=limits.get("rdma.link_layer"))


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


def is_bond(device: str, netdev: str = "") -> bool:
    """Whether a device is two ports in one, each of which carries a part of the queue pairs."""
    return "bond" in device or netdev.startswith("bond")
