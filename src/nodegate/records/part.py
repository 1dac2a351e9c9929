"""A part: one thing of a node that can be named, replaced or set, by one identity and one notation.

A GPU is one thing, whatever fact a finding came from: NVML knows its index, PCIe its address, the kernel log either.
A check names the part by what it has at hand; `Parts.complete` adds the rest.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import lru_cache

from nodegate.words.catalogue import term


class Kind(str, Enum):
    """What sort of thing a part is."""

    NODE = "node"
    GPU = "gpu"
    NIC = "nic"
    PORT = "port"  # of a NIC: one cable end
    NVSWITCH = "nvswitch"
    NVLINK = "nvlink"  # of a GPU or an NVSwitch
    BRIDGE = "bridge"
    DISK = "disk"
    MEMORY = "memory"  # of the host: a DIMM, or all of it
    CPU = "cpu"
    HOST = "host"  # the machine apart from its devices: clock, mounts, kernel log, limits
    SERVICE = "service"
    SETTING = "setting"
    SOFTWARE = "software"
    TOOL = "tool"
    COLLECTIVE = "collective"  # a measurement over several parts of the node, or over several nodes


_PREFIX = {
    Kind.GPU: "GPU",
    Kind.NIC: "NIC",
    Kind.PORT: "port",
    Kind.NVSWITCH: "NVSwitch",
    Kind.NVLINK: "NVLink",
    Kind.BRIDGE: "bridge",
}
_KERNEL_KINDS = {"memory": Kind.MEMORY, "memory module": Kind.MEMORY, "CPU": Kind.CPU, "kernel": Kind.SOFTWARE}
_ADDRESS = re.compile(
    r"(?:(?P<domain>[0-9a-f]{4,8}):)?(?P<bus>[0-9a-f]{2}):(?P<device>[0-9a-f]{2})(?P<function>\.[0-7])?"
)
_MOST_KNOWN = 1024  # calls whose answers are kept: every check names the same parts of a node
_DISK = re.compile(r"nvme\d{1,6}|(?:[shv]|xv)d[a-z]{1,4}")


@dataclass(frozen=True, slots=True)
class Part:
    """One part of one node, by every name that it has.

    Args:
        kind: what sort of thing it is.
        name: the name in use: "mlx5_2", "nvidia-fabricmanager", "/dev/shm"; empty where the index or address is it.
        index: of a GPU by NVML, of a port or an NVLink; None where there is none.
        pci: PCI address ("0000:3d:00.0").
        serial: serial number of a part that can be replaced.
        uuid: of a GPU.
        netdev: network interface of a NIC.
        of: the part that this one belongs to: the NIC of a port, the GPU of an NVLink.
        above: PCI addresses of the bridges above the part, nearest first.
    """

    kind: Kind
    name: str = ""
    index: int | None = None
    pci: str = ""
    serial: str = ""
    uuid: str = ""
    netdev: str = ""
    of: Part | None = None
    above: tuple[str, ...] = field(default=(), repr=False)

    def __post_init__(self) -> None:
        """Refuse what no machine has.

        Raises:
            ValueError: it is a part of a part of a part.
        """
        if self.of is not None and self.of.of is not None:
            raise ValueError(f"{self.name or self.kind.value}: a part of a part of a part")

    def __hash__(self) -> int:
        """Of what nearly always differs: parts are looked up a thousand times a node."""
        return hash((self.name, self.index, self.pci, self.of))

    @property
    def short(self) -> str:
        """The short form: "GPU 3", "mlx5_2 port 1", "NVSwitch 0000:07:00.0"."""
        own = self.name
        if not own:
            prefix = _PREFIX.get(self.kind) or self.kind.value
            number = self.pci if self.index is None else str(self.index)
            own = f"{prefix} {number}" if number else prefix
        return f"{self.of.short} {own}" if self.of is not None else own

    @property
    def said(self) -> str:
        """The short form; a name of ours ("kernel log") in the language that is spoken."""
        return term(self.short)

    @property
    def label(self) -> str:
        """The long form, once a line: "GPU 3 (0000:3d:00.0, S/N 1650003000003)"."""
        whole = self.of or self
        details = [whole.pci] if whole.pci and whole.pci not in self.short else []
        details += [whole.netdev] if whole.netdev and whole.netdev != whole.name else []
        details += [f"S/N {whole.serial}"] if whole.serial else []
        return f"{self.said} ({', '.join(details)})" if details else self.said

    @property
    def key(self) -> str:
        """Stable over runs, and moves with the board: serial number or UUID, else the address, else the name."""
        own = self.serial or self.uuid or self.pci or self.short
        return own if self.of is None else f"{self.of.key}/{self.name or self.index}"

    def is_called(self, name: str) -> bool:
        """Whether people may mean this part by a name: any form of it, of one of its devices, or its address."""
        names = (self.short, self.label, self.name, self.pci, self.serial, self.uuid, self.netdev)
        return name in names or (self.of is not None and self.of.is_called(name))

    def rests_on(self, other: Part) -> bool:
        """Whether what is wrong with the other part can be what is wrong with this one.

        True of the part itself, of the NIC or GPU that it belongs to, of a part of its own, and of a bridge above it.
        """
        mine, its = self.of or self, other.of or other
        if mine.key == its.key:
            return self.of is None or other.of is None or self.key == other.key
        return other.kind is Kind.BRIDGE and other.pci in mine.above


NODE = Part(Kind.NODE, "node")
MEMORY = Part(Kind.MEMORY, "memory")


@lru_cache(maxsize=_MOST_KNOWN)
def gpu(index: int | None = None, *, address: str = "", serial: str = "", uuid: str = "") -> Part:
    """A GPU, by what is known of it."""
    return Part(Kind.GPU, index=index, pci=pci_address(address), serial=serial, uuid=uuid)


@lru_cache(maxsize=_MOST_KNOWN)
def nic(name: str = "", *, address: str = "", netdev: str = "") -> Part:
    """A NIC, by its RDMA device ("mlx5_2"), PCI address or network interface."""
    return Part(Kind.NIC, name, pci=pci_address(address), netdev=netdev)


@lru_cache(maxsize=_MOST_KNOWN)
def named(device: str) -> Part:
    """The part that a measurement calls so: "GPU 3", "mlx5_2", "mlx5_2:2" for its port 2; the node for no name."""
    word, _, index = device.partition(" ")
    if word == "GPU" and index.isdecimal():
        return gpu(int(index))
    name, _, number = device.partition(":")
    if number.isdecimal():
        return port(nic(name), int(number))
    return nic(device) if device else NODE


def from_kernel(kind: str, device: str) -> Part:
    """The part that a kernel line names.

    Args:
        kind: what the line's rule calls it: "GPU", "NIC", "disk", "PCIe device".
        device: its name in the line: "0000:5c:00.0 ibp92s0", "mlx5_3", "nvme0"; empty for none.
    """
    first, _, more = device.partition(" ")
    address = pci_address(first) if _ADDRESS.fullmatch(first.lower()) else ""
    if kind.startswith("NIC"):
        return nic("" if address else first, address=address, netdev=more)
    if kind.startswith("GPU"):
        named_gpu = gpu(int(first)) if first.isdecimal() else software("driver")
        return gpu(address=address) if address else named_gpu
    if kind == "NVSwitch":
        return nvswitch(device)
    if "disk" in kind and device:  # "nvme0" of "nvme0n1p2", "sda" of "sda2"
        match = _DISK.match(device)
        return Part(Kind.DISK, f"disk {match[0] if match else device}")
    if kind == "memory" and not device:
        return MEMORY
    return Part(_KERNEL_KINDS.get(kind, Kind.HOST), f"{kind} {address or device}".strip(), pci=address)


def port(of: Part, number: int) -> Part:
    """A port of a NIC: one cable end."""
    return Part(Kind.PORT, index=number, of=of)


def nvlink(of: Part, number: int) -> Part:
    """An NVLink of a GPU or NVSwitch."""
    return Part(Kind.NVLINK, index=number, of=of)


def nvswitch(name: str = "", *, address: str = "") -> Part:
    """An NVSwitch."""
    return Part(Kind.NVSWITCH, name, pci=pci_address(address))


@lru_cache(maxsize=_MOST_KNOWN)
def bridge(address: str) -> Part:
    """A PCIe bridge or switch port."""
    return Part(Kind.BRIDGE, pci=pci_address(address))


def host(name: str = "host") -> Part:
    """The machine apart from its devices, or what of it is meant: "clock", "kernel log"."""
    return Part(Kind.HOST, name)


def service(name: str) -> Part:
    """A service: "nvidia-fabricmanager"."""
    return Part(Kind.SERVICE, name)


def setting(name: str) -> Part:
    """Something that is set, by the file or the name that sets it: "/etc/nccl.conf", "/dev/shm"."""
    return Part(Kind.SETTING, name)


def software(name: str) -> Part:
    """Installed software: "driver", "NCCL"."""
    return Part(Kind.SOFTWARE, name)


def tool(name: str) -> Part:
    """A program that measures: "nvbandwidth"."""
    return Part(Kind.TOOL, name)


def collective(name: str) -> Part:
    """A measurement over several parts of the node, or several nodes: "all_reduce"."""
    return Part(Kind.COLLECTIVE, name)


@lru_cache(maxsize=_MOST_KNOWN)
def pci_address(text: str) -> str:
    """One spelling of a PCI address: "00000000:3D:00.0", "0000:3d:00" and "3d:00.0" are "0000:3d:00.0".

    A text that is no address is kept as it is.
    """
    match = _ADDRESS.fullmatch(text.lower())
    if match is None:
        return text
    domain = match["domain"] or "0000"
    short = domain[-4:] if len(domain) == 8 and domain.startswith("0000") else domain
    return f"{short}:{match['bus']}:{match['device']}{match['function'] or '.0'}"


class Parts:
    """The parts of one node, listed once from its facts, with all their names."""

    def __init__(self, parts: Iterable[Part] = ()) -> None:
        self._parts = tuple(parts)
        self._by_name: dict[tuple[Kind, str], Part] = {}
        self._completed: dict[Part, Part] = {}  # every check names the same parts in the same few ways
        bearers = Counter((part.kind, name) for part in self._parts for name in _names(part))
        for part in self._parts:
            for name in _names(part):
                # GPUs of one board share its serial number, and some cards report zeros: it tells none apart
                if bearers[part.kind, name] == 1 or not name.startswith(("S/N ", "UUID ")):
                    self._by_name.setdefault((part.kind, name), part)
            if part.netdev:  # a kernel line may name a NIC by its interface alone
                self._by_name.setdefault((part.kind, f"name {part.netdev}"), part)

    def __iter__(self) -> Iterator[Part]:
        return iter(self._parts)

    def complete(self, part: Part) -> Part:
        """The part with all its names; one that the node's facts do not list stays as it is."""
        whole = self._completed.get(part)
        if whole is None:
            whole = self._completed[part] = self._complete(part)
        return whole

    def _complete(self, part: Part) -> Part:
        if part.of is not None:
            return replace(part, of=self.complete(part.of))
        for name in _names(part):
            known = self._by_name.get((part.kind, name))
            if known is not None:
                return known if known.name or not part.name else replace(known, name=part.name)
        if part.kind not in (Kind.BRIDGE, Kind.HOST) or not part.pci:
            return part
        # a kernel line may call a GPU or NIC a PCIe device: one address is one device
        return next((known for known in self._parts if known.pci == part.pci), part)


NO_PARTS = Parts()


def _names(part: Part) -> Iterator[str]:
    """Every name of a part that tells it apart, the surest first."""
    for word, value in (("S/N", part.serial), ("UUID", part.uuid), ("PCI", part.pci), ("name", part.name)):
        if value:
            yield f"{word} {value}"
    if part.index is not None:
        yield f"index {part.index}"
    if part.netdev:
        yield f"netdev {part.netdev}"
