"""InfiniBand and RoCE adapters, and plain network devices, from sysfs. Sections `infiniband` and `netdev`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

from nodegate.probe import plausible
from nodegate.probe import readings as read
from nodegate.records import part
from nodegate.records.part import Part
from nodegate.unknown import Known, Unknown, value_or

T = TypeVar("T")
_RATE = re.compile(r"([0-9]{1,5}(?:\.[0-9]{1,3})?) Gb/sec(?: \(([0-9]{1,2})X(?: \w+)?\))?")
_STATE = re.compile(r"[0-9]{1,3}: *(\S.*)")
_ZERO_GIDS = ("0000:0000:0000:0000:0000:0000:0000:0000", "fe80:0000:0000:0000:0000:0000:0000:0000", "::", "")


@dataclass(frozen=True)
class RdmaPort:
    """One port. `state` and `phys_state` are the kernel's words ("ACTIVE", "LinkUp"); `rate_gbps` Gb/s of all lanes.

    `counters` are absolute values since the driver was loaded: only a difference over a window means anything, and a
    legacy counter at its full scale (link_downed 255) does not count any further.
    """

    device: str
    port: int
    state: Known[str]
    phys_state: Known[str]
    rate_gbps: Known[float]
    lanes: Known[int]
    link_layer: Known[str]  # InfiniBand | Ethernet
    sm_lid: Known[int]
    netdev: str
    counters: Mapping[str, Known[int]]
    hw_counters: Mapping[str, Known[int]]
    gids: Mapping[int, tuple[str, str]]  # index -> (gid, type): zero gids left out

    @property
    def part(self) -> Part:
        """The port as a part of its adapter."""
        return part.port(part.nic(self.device), self.port)


@dataclass(frozen=True)
class RdmaDevice:
    """One RDMA adapter."""

    name: str
    firmware: Known[str]
    hca_type: Known[str]
    node_guid: Known[str]
    address: str  # PCI address; "" for a software device
    ports: tuple[RdmaPort, ...]


@dataclass(frozen=True)
class Rdma:
    """All RDMA adapters of the node."""

    devices: tuple[RdmaDevice, ...]

    @property
    def ports(self) -> tuple[RdmaPort, ...]:
        """Every port of every adapter."""
        return tuple(port for device in self.devices for port in device.ports)


@dataclass(frozen=True)
class NetDevice:
    """One physical network device."""

    name: str
    carrier: Known[bool]
    mtu: Known[int]
    carrier_changes: Known[int]
    address: str  # PCI address; "" if it is not a PCI device


def parse(adapters: Mapping[str, object]) -> Rdma:
    """The data of section `infiniband`, in the order of the adapters' names.

    Raises:
        CannotMeasure: an adapter or its ports cannot be read.
    """
    return Rdma(tuple(_adapter(name, adapters[name]) for name in sorted(adapters, key=_natural)))


def parse_netdevs(found: Mapping[str, object]) -> Mapping[str, NetDevice]:
    """The data of section `netdev`: physical network devices by name.

    Raises:
        CannotMeasure: a device is not an object.
    """
    return {name: _netdev(name, found[name]) for name in sorted(found, key=_natural)}


def rate_in(written: str) -> tuple[Known[float], Known[int]]:
    """Gb/s and lanes from "400 Gb/sec (4X NDR)"."""
    match = _RATE.fullmatch(written.strip())
    if match is None:
        return read.wrong("a rate in Gb/sec", written), read.wrong("a rate with its lanes", written)
    return float(match[1]), int(match[2]) if match[2] else read.wrong("a rate with its lanes", written)


def state_in(written: str) -> str:
    """The word of "4: ACTIVE"; text in another form is unchanged."""
    match = _STATE.fullmatch(written.strip())
    return match[1] if match else written.strip()


def _needed(reading: Known[T], what: str) -> T:
    return read.needed(reading, f"{what} cannot be read", "check /sys/class/infiniband and /sys/class/net")


def _natural(name: str) -> list[tuple[int, str]]:
    """mlx5_2 before mlx5_10."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.findall(r"[0-9]{1,18}|[^0-9]+", name)]


def _adapter(name: str, entry: object) -> RdmaDevice:
    data = _needed(read.record(entry), f"RDMA adapter {name}")
    ports = _needed(read.mapping(data, "ports"), f"the ports of RDMA adapter {name}")
    made = tuple(_port(name, number, ports[number]) for number in sorted(ports, key=_natural))
    firmware = read.text(data, "fw_ver")
    return read.filled(RdmaDevice, data, name=name, firmware=firmware, address=_address(data), ports=made)


def _port(device: str, number: str, entry: object) -> RdmaPort:
    data = _needed(read.record(entry), f"port {number} of {device}")
    port = _needed(read.integer_in(number), f"port {number} of {device}")
    rate_text = read.text(data, "rate")
    rate, lanes = (rate_text, rate_text) if isinstance(rate_text, Unknown) else rate_in(rate_text)
    return read.filled(
        RdmaPort,
        data,
        device=device,
        port=port,
        **{name: read.mapped(read.text(data, name), state_in) for name in ("state", "phys_state")},
        rate_gbps=rate,
        lanes=lanes,
        sm_lid=read.hexadecimal(data, "sm_lid"),
        netdev=value_or(read.text(data, "netdev"), ""),
        counters=_counters(data, "counters"),
        hw_counters=_counters(data, "hw_counters"),
        gids=_gids(data),
    )


def _counters(data: Mapping[str, object], key: str) -> Mapping[str, Known[int]]:
    found = value_or(read.mapping(data, key), {})
    return {name: plausible.counter(read.counted(found, name)) for name in found}


def _gids(data: Mapping[str, object]) -> Mapping[int, tuple[str, str]]:
    gids, types = value_or(read.mapping(data, "gids"), {}), value_or(read.mapping(data, "gid_types"), {})
    found: dict[int, tuple[str, str]] = {}
    for place in gids:
        index, gid = read.integer_in(place), value_or(read.text(gids, place), "")
        if not isinstance(index, Unknown) and gid not in _ZERO_GIDS:
            found[index] = (gid, value_or(read.text(types, place), ""))
    return found


def _address(data: Mapping[str, object]) -> str:
    return value_or(read.mapped(read.text(data, "pci"), read.address_in), "")


def _netdev(name: str, entry: object) -> NetDevice:
    data = _needed(read.record(entry), f"network device {name}")
    carrier = read.mapped(read.counted(data, "carrier"), read.switch)
    changes = plausible.counter(read.counted(data, "carrier_changes"))
    return NetDevice(name, carrier, read.counted(data, "mtu"), changes, _address(data))
