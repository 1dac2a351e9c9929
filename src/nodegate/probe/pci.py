"""PCIe devices from sysfs: GPUs, NVSwitches, NICs and the bridges above them. Section `pci`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

from nodegate.probe import plausible
from nodegate.probe import readings as read
from nodegate.unknown import Known, Unknown, value_or

T = TypeVar("T")
_AER = ("correctable", "nonfatal", "fatal")
_NO_LINK_WIDTHS = (0, 63, 255)
_WIDTHS = (1, 2, 4, 8, 12, 16, 32)  # PCI Express Base Specification, Link Capabilities register
_SPEED = re.compile(r"([0-9]{1,3}(?:\.[0-9]{1,3})?) ?GT/s\b.*")
_CONFIG = re.compile(r"[0-9a-fA-F]{2,}")
_KINDS = re.compile(r"^\w+\s+([0-9]{1,20})\s*$", re.MULTILINE)
_TOTAL = re.compile(r"^TOTAL_ERR_(?:COR|NONFATAL|FATAL)\s+([0-9]{1,20})\s*$", re.MULTILINE)


@dataclass(frozen=True)
class AerCounters:
    """Advanced Error Reporting totals since boot (`aer_dev_*`): TOTAL_ERR_COR, _NONFATAL, _FATAL."""

    correctable: Known[int]
    nonfatal: Known[int]
    fatal: Known[int]


@dataclass(frozen=True)
class PciDevice:
    """One device. Widths are lanes, speeds GT/s; a width of 0, 63 or 255 and speed "Unknown" mean: no link (None)."""

    address: str  # "0000:1b:00.0"
    class_code: int  # 0x030200
    vendor: int  # 0x10de
    device: int
    revision: Known[int]
    width: Known[int | None]
    width_max: Known[int | None]
    speed_gts: Known[float | None]
    speed_max_gts: Known[float | None]
    numa_node: Known[int]
    driver: str  # "" when none is bound
    parent: str  # address of the bridge above; "" at the root
    answers: Known[bool]  # False: config space reads all ff, the device has fallen off the bus
    acs: Known[int]  # the ACS control word; Unknown(NOT_SUPPORTED) where the device has no ACS
    aer: AerCounters

    @property
    def pci_id(self) -> str:
        """vendor:device as lspci -n writes it."""
        return f"{self.vendor:04x}:{self.device:04x}"

    @property
    def is_gpu(self) -> bool:
        """A display or 3D controller of NVIDIA."""
        return self.vendor == 0x10DE and self.class_code >> 16 == 0x03

    @property
    def is_nvswitch(self) -> bool:
        """An NVSwitch: an NVIDIA bridge that is not a PCI bridge (class 0x0680)."""
        return self.vendor == 0x10DE and self.class_code >> 8 == 0x0680

    @property
    def is_nic(self) -> bool:
        """A network or InfiniBand controller."""
        return self.class_code >> 16 == 0x02

    @property
    def is_bridge(self) -> bool:
        """A PCI-to-PCI bridge: root port, switch port."""
        return self.class_code >> 8 == 0x0604


@dataclass(frozen=True, eq=False)
class Pci:
    """All PCIe devices that matter, by address. Two are never equal: what follows from one is found once."""

    devices: tuple[PciDevice, ...]

    def __getitem__(self, address: str) -> PciDevice:
        """The device at an address; KeyError if the probe did not see it."""
        return self._by_address[address]

    @cached_property
    def _by_address(self) -> Mapping[str, PciDevice]:
        return {device.address: device for device in reversed(self.devices)}

    def path(self, device: PciDevice) -> tuple[PciDevice, ...]:
        """The bridges above a device, nearest first, up to the root port."""
        known = self._by_address
        above: list[PciDevice] = []
        parent = known.get(device.parent)
        while parent is not None and parent not in above:
            above.append(parent)
            parent = known.get(parent.parent)
        return tuple(above)

    @cached_property
    def gpus(self) -> tuple[PciDevice, ...]:
        """The GPUs in address order."""
        return tuple(device for device in self.devices if device.is_gpu)

    @cached_property
    def nvswitches(self) -> tuple[PciDevice, ...]:
        """The NVSwitches in address order."""
        return tuple(device for device in self.devices if device.is_nvswitch)

    @cached_property
    def nics(self) -> tuple[PciDevice, ...]:
        """The network and InfiniBand controllers in address order."""
        return tuple(device for device in self.devices if device.is_nic)


def parse(data: object) -> Pci:
    """The data of section `pci`: devices in address order.

    Raises:
        CannotMeasure: it is not a list of devices, or a device has no usable address, class or vendor.
    """
    listed = _needed(data if isinstance(data, list) else read.wrong("a list of devices", data))
    devices = [_device(entry) for entry in listed[: read.MAX_ITEMS]]
    return Pci(tuple(sorted(devices, key=lambda device: device.address)))


def width_in(written: str) -> Known[int | None]:
    """Lanes as sysfs writes them; None if there is no link."""
    lanes = read.integer_in(written)
    if isinstance(lanes, Unknown) or lanes in _WIDTHS:
        return lanes
    return None if lanes in _NO_LINK_WIDTHS else read.wrong("lanes of a PCIe link", written)


def speed_in(written: str) -> Known[float | None]:
    """GT/s from "16 GT/s", "16.0 GT/s PCIe" or "16GT/s"; None for "Unknown": there is no link."""
    if match := _SPEED.fullmatch(written.strip()):
        return float(match[1])
    return None if written.strip().lower().startswith("unknown") else read.wrong("a speed in GT/s", written)


def _device(entry: object) -> PciDevice:
    data = _needed(read.record(entry))
    address = _needed(read.mapped(read.text(data, "address"), read.address_in))
    # Without these the device is unknown: a missing GPU would not be noticed, nor the bridges above it be judged.
    class_code = _needed(read.hexadecimal(data, "class", 24), address)
    vendor, device = (_needed(read.hexadecimal(data, key, 16), address) for key in ("vendor", "device"))
    return PciDevice(
        address=address,
        class_code=class_code,
        vendor=vendor,
        device=device,
        revision=read.hexadecimal(data, "revision", 8),
        width=read.mapped(read.text(data, "current_link_width"), width_in),
        width_max=read.mapped(read.text(data, "max_link_width"), width_in),
        speed_gts=read.mapped(read.text(data, "current_link_speed"), speed_in),
        speed_max_gts=read.mapped(read.text(data, "max_link_speed"), speed_in),
        numa_node=read.counted(data, "numa_node"),
        driver=value_or(read.text(data, "driver"), ""),
        parent=_needed(_parent(data), address),
        answers=read.mapped(read.text(data, "config"), _answers),
        acs=read.hexadecimal(data, "acs", 16),
        aer=AerCounters(*(read.mapped(read.body(data, f"aer_dev_{each}"), _total_in) for each in _AER)),
    )


def _needed(reading: Known[T], address: str = "list") -> T:
    return read.needed(reading, f"PCI device {address} cannot be read", "run lspci -D on the node by hand")


def _parent(data: Mapping[str, object]) -> Known[str]:
    """The address of the bridge above; "" at the root."""
    written = read.text(data, "parent")
    if isinstance(written, Unknown):
        return "" if written.is_absent else written
    return read.address_in(written) if written else ""


def _answers(config: str) -> Known[bool]:
    if not _CONFIG.fullmatch(config):
        return read.wrong("config space in hexadecimal", config)
    return config.strip("fF") != ""


def _total_in(written: str) -> Known[int]:
    """The TOTAL line: the kernel's count of messages, of which each counts for one kind of error or more."""
    match = _TOTAL.search(written)
    if match is None:
        return read.wrong("a TOTAL line", written)
    return plausible.at_least(int(match[1]), max(map(int, _KINDS.findall(written)), default=0), "errors of one kind")
