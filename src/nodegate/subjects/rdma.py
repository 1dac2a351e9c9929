"""Rails: the RDMA ports that carry jobs, told apart from storage, management and unused ports."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from typing import NoReturn, TypeVar

from nodegate.baseline.baseline import Baseline
from nodegate.probe.pci import Pci
from nodegate.probe.rdma import Rdma, RdmaDevice, RdmaPort
from nodegate.records.finding import AnyLimit, Limit, LimitKind, LimitValue
from nodegate.records.part import Part
from nodegate.subjects.pcie import rdma_nics
from nodegate.unknown import Known, Unknown, Why
from nodegate.verdicts import Verdicts

T = TypeVar("T", bound=LimitValue)
ACTIVE = "ACTIVE"
ROCE_V1 = "RoCE v1 only"
_ROCE_V2, _IPV4 = "RoCE v2", ":ffff:"
_LAYERS = ("InfiniBand", "Ethernet")
_NO_ADDRESS = Unknown(Why.FAILED, "an adapter with a model has one, only software devices have none")


def rails(rdma: Rdma, *, rate: AnyLimit | None, layer: AnyLimit | None) -> tuple[RdmaPort, ...]:
    """The ports of the adapters that carry jobs, slow and broken ones included.

    Ports are grouped by adapter model and link layer. The largest group with a port at the rate are the rails, for a
    slow one among them must not drop out; other models at that rate belong to them when layer and lanes are the same.
    Without a rate the largest group counts. The second port of a board that is down while the first is up is unused.
    """
    groups: defaultdict[tuple[str, str], list[RdmaPort]] = defaultdict(list)
    for device, port in _ports(rdma):
        if layer is None or port.link_layer == layer.value:
            groups[str(device.hca_type), str(port.link_layer)].append(port)
    by_size = sorted(groups.values(), key=lambda group: (-len(group), str(group[0].rate_gbps)))
    at_rate = [group for group in by_size if rate and any(port.rate_gbps == rate.value for port in group)]
    alike = [group for group in at_rate if _design(group) == _design(at_rate[0])]
    unused = _second_ports(rdma)
    return tuple(port for group in alike or by_size[:1] for port in group if port.part not in unused)


def majority(readings: Iterable[Known[T]]) -> Limit[T] | None:
    """What more than half of the rails of this node have; None when nothing is, or there is only one."""
    known = [reading for reading in readings if not isinstance(reading, Unknown)]
    if len(known) < 2:
        return None
    value, count = Counter(known).most_common(1)[0]
    if 2 * count <= len(known):
        return None
    return Limit(value, "", f"{count} of {len(known)} rails of this node", kind=LimitKind.NODE)


def end_without_rails(pci: Pci, baseline: Baseline, verdicts: Verdicts) -> NoReturn:
    """End the check of a node without a rail: by design where the platform has none, or nobody says that it has."""
    limit = baseline.find_number("rdma.rails")
    if limit and limit.value == 0:
        verdicts.by_design("no RDMA rail", witness=limit.source)
    if limit is None and not rdma_nics(pci):
        verdicts.by_design("no RDMA adapter", witness="PCIe lists no RDMA NIC")
    verdicts.not_done("no rail is listed: see rdma.rails")


def roce_gid(port: RdmaPort) -> Known[str]:
    """Which GID of a RoCE port jobs use, with its place in the table: "RoCE v2 with IPv4 at 3"."""
    if not port.gids:
        return Unknown(Why.MISSING, "the port lists none")
    if not all(kind for _, kind in port.gids.values()):
        return Unknown(Why.FAILED, "the type of a GID could not be read")
    second = {index: gid for index, (gid, kind) in sorted(port.gids.items()) if kind == _ROCE_V2}
    routed = [index for index, gid in second.items() if _IPV4 in gid]
    if routed:
        return f"{_ROCE_V2} with IPv4 at {routed[0]}"
    return f"{_ROCE_V2} without IPv4 at {min(second)}" if second else ROCE_V1


def gid_index(port: RdmaPort) -> Known[int]:
    """The lowest place of a RoCE v2 GID with IPv4 in the table of a port; unknown where it has none."""
    places = [index for index, (gid, kind) in port.gids.items() if kind == _ROCE_V2 and _IPV4 in gid]
    return min(places) if places else Unknown(Why.MISSING, "no GID of RoCE v2 with an IPv4 address")


def is_active(port: RdmaPort) -> bool:
    """Whether the port is known to be in service."""
    return port.state == ACTIVE


def _ports(rdma: Rdma) -> list[tuple[RdmaDevice, RdmaPort]]:
    """Every port of a real adapter: software devices (rxe, siw) have no PCI address."""
    return [(device, port) for device in rdma.devices if device.address for port in device.ports]


def unplaced(rdma: Rdma) -> Iterator[tuple[RdmaPort, str, Unknown]]:
    """The ports of which it is not known whether they are rails: what could not be read of them, and why."""
    for device in rdma.devices:
        for port in device.ports:
            if isinstance(port.link_layer, Unknown):
                yield port, "link layer", port.link_layer
            elif port.link_layer not in _LAYERS:
                yield port, "link layer", Unknown(Why.FAILED, "it is neither InfiniBand nor Ethernet")
            elif not device.address and not isinstance(device.hca_type, Unknown) and device.hca_type:
                yield port, "PCI address", _NO_ADDRESS


def _design(group: list[RdmaPort]) -> tuple[str, int | None]:
    """The link layer of a group and the lanes that most of its ports have."""
    lanes = Counter(port.lanes for port in group if isinstance(port.lanes, int))
    return str(group[0].link_layer), lanes.most_common(1)[0][0] if lanes else None


def _second_ports(rdma: Rdma) -> frozenset[Part]:
    boards: defaultdict[str, list[RdmaPort]] = defaultdict(list)
    for device, port in _ports(rdma):
        boards[device.address.rpartition(".")[0]].append(port)
    return frozenset(
        port.part
        for ports in boards.values()
        if any(is_active(port) for port in ports)
        for port in ports
        if port.state == "DOWN"
    )
