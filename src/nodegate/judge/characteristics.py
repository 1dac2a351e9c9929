"""What a node is: versions, firmware and models, serial numbers, and the traits that set it apart from others."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from statistics import median_low

from nodegate.errors import CannotMeasure, NotApplicable
from nodegate.facts import NodeFacts, known_or_none
from nodegate.kernel_log.fleet import LogTraits, log_traits
from nodegate.node import Node
from nodegate.probe.gpu import Gpu
from nodegate.probe.readings import mapped
from nodegate.records.part import Kind, Parts
from nodegate.subjects.fabric import domain_of
from nodegate.subjects.host import installed_gib
from nodegate.subjects.rdma import is_active, roce_gid
from nodegate.subjects.upkeep import rail_traits, traits
from nodegate.unknown import Known, Unknown, Why, value_or

MAX_TEXT = 200
_MODULES = ("nvidia_uvm", "nvidia_peermem", "gdrdrv", "ib_uverbs", "ib_umad", "rdma_cm", "mlx5_ib")
_NONE = "none"  # known to be absent: a value like any other
_OF_ONE_LOT = 6  # digits of a GPU's serial number that boards of one delivery share
_SHORTEST = 10  # of a serial number that has them
_MOST_OF = 0.5  # of the GPUs of a node are of a lot, or the node is not


@dataclass(frozen=True)
class ClockSkew:
    """A node's clock minus the controller's, in seconds, and how far from the truth that may be."""

    skew_s: float
    error_s: float


@dataclass(frozen=True)
class CommonSkew:
    """By how much most nodes differ from the controller alike: `count` of `total` nodes."""

    skew_s: float
    count: int
    total: int


def clock_skew(facts: NodeFacts) -> ClockSkew | None:
    """The skew of one node; None where it is not known."""
    clock = known_or_none(lambda: facts.clock)
    if clock is None or isinstance(clock.skew_s, Unknown):
        return None
    return ClockSkew(clock.skew_s, clock.skew_error_s)


def common_skew(skews: Mapping[str, ClockSkew], limit_s: float) -> CommonSkew | None:
    """What most clocks of a run say of the controller's; None unless they outvote it.

    More than half of all clocks, the controller's included, agree with each other and, for certain, not with it. So it
    takes two nodes, and one node alone is compared with the controller only.
    """
    if len(skews) < 2:
        return None
    middle = median_low(each.skew_s for each in skews.values())
    agreeing = sum(differs(each, middle) <= limit_s < differs(each, 0.0) for each in skews.values())
    if 2 * agreeing <= len(skews) + 1:
        return None
    return CommonSkew(middle, agreeing, len(skews))


def differs(skew: ClockSkew, other_s: float) -> float:
    """How far a clock is from another one for certain, given its error."""
    return round(max(abs(skew.skew_s - other_s) - skew.error_s, 0.0), 3)


class Characteristics(Mapping[str, Known[str]]):
    """The characteristics of one node by name; `log` and `clock`: what of both only the fleet can judge.

    `domain` is the NVLink domain of several nodes that its GPUs are in; empty for none, None if it is not known.
    """

    def __init__(
        self, values: Mapping[str, Known[str]], log: LogTraits, clock: ClockSkew | None, domain: str | None = None
    ) -> None:
        self._values, self.log, self.clock, self.domain = values, log, clock, domain

    def __getitem__(self, name: str) -> Known[str]:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)


def characteristics(facts: NodeFacts) -> Characteristics:
    """The node's characteristics by name; what could not be read is Unknown and counts as no value.

    Values that differ between the devices of one node are joined: "96.00.61.00.01 + 96.00.74.00.11".
    """
    found: dict[str, Known[str]] = {}
    for read in _READERS:
        with suppress(CannotMeasure, NotApplicable):  # nothing where the node did not give the fact
            found |= read(facts)
    cut = {name: value if isinstance(value, Unknown) else value[:MAX_TEXT] for name, value in found.items()}
    gpus = known_or_none(lambda: facts.gpus)
    domain = None if gpus is None else domain_of(gpus.devices)
    return Characteristics(cut, log_traits(facts), clock_skew(facts), domain)


def _gpus(facts: NodeFacts) -> Mapping[str, Known[str]]:
    gpus = facts.gpus

    def each(read: Callable[[Gpu], Known[str]]) -> Known[str]:
        return _joined(read(gpu) for gpu in gpus.devices)

    return {
        "driver version": gpus.driver_version,
        "CUDA driver version": gpus.cuda_driver_version,
        "GPU model": each(lambda gpu: gpu.name),
        "GPU memory": each(lambda gpu: mapped(gpu.memory_total_bytes, lambda size: f"{size >> 20} MiB")),
        "GPU VBIOS": each(lambda gpu: gpu.vbios),
        "GPU InfoROM": each(lambda gpu: gpu.inforom_image),
        "GSP firmware": each(_gsp),
        "GPU virtualization": each(lambda gpu: gpu.virtualization),
        "confidential computing": mapped(gpus.confidential, lambda on: "on" if on else "off"),
    }


def _gsp(gpu: Gpu) -> Known[str]:
    if isinstance(gpu.gsp_enabled, Unknown):
        return gpu.gsp_enabled
    if not gpu.gsp_enabled:
        return "off"
    return "on" if isinstance(gpu.gsp_firmware, Unknown) else f"on ({gpu.gsp_firmware})"


def _driver(facts: NodeFacts) -> Mapping[str, Known[str]]:
    return {
        "kernel module": mapped(facts.driver.open_kernel_module, lambda is_open: "open" if is_open else "proprietary")
    }


def _services(facts: NodeFacts) -> Mapping[str, Known[str]]:
    version = facts.services.fabric_manager_version
    absent = isinstance(version, Unknown) and version.why is Why.MISSING
    return {"fabric manager version": _NONE if absent else version}


def _host(facts: NodeFacts) -> Mapping[str, Known[str]]:
    host = facts.host
    return {
        "kernel": host.kernel_release,
        "operating system": host.os_name,
        "BIOS version": host.bios_version,
        "server model": host.product,
        "CPU model": host.cpu_model,
        "memory": mapped(installed_gib(host.memory_total_bytes), lambda gib: f"{gib} GiB"),
    }


def _cpus(facts: NodeFacts) -> Mapping[str, Known[str]]:
    return {
        "CPU sockets": mapped(facts.host.cpu_sockets, str),
        "CPU cores online": mapped(facts.cpus.cores, str),
        "NUMA nodes": mapped(facts.cpus.numa_nodes, lambda nodes: str(len(nodes))),
    }


def _rdma(facts: NodeFacts) -> Mapping[str, Known[str]]:
    by_type: dict[str, list[Known[str]]] = {}
    for device in facts.rdma.devices:
        if not isinstance(device.hca_type, Unknown):
            by_type.setdefault(device.hca_type, []).append(device.firmware)
    models: dict[str, Known[str]] = {"NIC models": _joined(by_type)}
    return models | {f"NIC firmware ({hca_type})": _joined(found) for hca_type, found in sorted(by_type.items())}


def _roce(facts: NodeFacts) -> Mapping[str, Known[str]]:
    """MTU and GIDs of the RoCE ports in service, by model: what both ends of a connection have to have alike."""
    found: dict[str, list[Known[str]]] = {}
    for device in facts.rdma.devices:
        for port in device.ports if device.address else ():
            if port.link_layer != "Ethernet" or not is_active(port) or isinstance(device.hca_type, Unknown):
                continue
            found.setdefault(f"RoCE GIDs ({device.hca_type})", []).append(roce_gid(port))
            if port.netdev in facts.netdevs:
                mtu = mapped(facts.netdevs[port.netdev].mtu, str)
                found.setdefault(f"RoCE MTU ({device.hca_type})", []).append(mtu)
    return {name: _joined(values) for name, values in sorted(found.items())}


def _modules(facts: NodeFacts) -> Mapping[str, Known[str]]:
    """Which of the kernel modules that jobs rest on are loaded; nothing where none could be read."""
    loaded = facts.host.modules
    return {f"module {name}": "loaded" if name in loaded else "not loaded" for name in _MODULES if loaded}


def _disks(facts: NodeFacts) -> Mapping[str, Known[str]]:
    """The sizes of the disks that are built in: "2 x 960 GB + 8 x 3841 GB"."""
    counts: Counter[int] = Counter()
    for disk in facts.disks.devices:
        if isinstance(disk.size_bytes, Unknown):
            return {"disks": disk.size_bytes}
        counts[round(disk.size_bytes / 1e9)] += 1
    return {"disks": " + ".join(f"{count} x {size} GB" for size, count in sorted(counts.items())) or _NONE}


def _software(facts: NodeFacts) -> Mapping[str, Known[str]]:
    software, ofed = facts.software, facts.software.ofed
    absent = isinstance(ofed, Unknown) and ofed.why is Why.MISSING
    return {
        "NCCL version": mapped(software.nccl, lambda of: _joined(each.version for each in of) if of else _NONE),
        "CUDA toolkit": mapped(software.cuda, lambda of: " + ".join(sorted(set(of.values()))) or _NONE),
        "OFED version": _NONE if absent else mapped(ofed, lambda version: version.strip().rstrip(":")),
    }


def _joined(values: Iterable[Known[str]]) -> Known[str]:
    """The distinct known values; unknown when none is known."""
    every = list(values)
    known = sorted({value for value in every if not isinstance(value, Unknown)})
    if known:
        return " + ".join(known)
    return next((value for value in every if isinstance(value, Unknown)), Unknown(Why.MISSING, "no such device"))


_READERS: tuple[Callable[[NodeFacts], Mapping[str, Known[str]]], ...] = (
    _gpus,
    _driver,
    _services,
    _host,
    _cpus,
    _rdma,
    _roce,
    _modules,
    _disks,
    _software,
    traits,
    rail_traits,
)


def serials(facts: NodeFacts, parts: Parts) -> dict[str, str]:
    """Part -> serial number: the chassis, each GPU and each disk, as far as the node knows them.

    Of a GPU that is lost the kernel log may have it.
    """
    found: dict[str, str] = {}
    with suppress(CannotMeasure):
        if chassis := value_or(facts.host.serial, ""):
            found["chassis"] = chassis
    found |= {each.short: each.serial for each in parts if each.kind is Kind.GPU and each.serial}
    with suppress(CannotMeasure):
        for disk in facts.disks.devices:
            if serial := value_or(disk.serial, "").strip():
                found[f"disk {disk.name}"] = serial
    return found


def traits_of(node: Node, known: Mapping[str, Known[str]], serials: Mapping[str, str]) -> dict[str, str]:
    """The node's traits by name, places first: {"rack": "r7", "GPU VBIOS": "96.00.74", "GPU serials": "165292..."}.

    Args:
        node: the node, for what the inventory says of it.
        known: its characteristics; what could not be read sets no node apart.
        serials: part -> serial number.
    """
    places = {"rack": node.rack, "leaf": ", ".join(node.settings.leaf)}
    found = {name: place for name, place in places.items() if place}
    found |= {name: value for name, value in known.items() if not isinstance(value, Unknown)}
    lot = _lot([serial for part, serial in serials.items() if part.startswith("GPU ")])
    return found | ({"GPU serials": f"{lot}..."} if lot else {})


def _lot(serials: list[str]) -> str:
    """The first digits of most of a node's serial numbers; empty where they differ or are no numbers."""
    heads = Counter(serial[:_OF_ONE_LOT] for serial in serials if serial.isdecimal() and len(serial) >= _SHORTEST)
    head, count = heads.most_common(1)[0] if heads else ("", 0)
    return head if count > _MOST_OF * len(serials) else ""
