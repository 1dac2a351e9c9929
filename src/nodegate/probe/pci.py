"""PCIe devices from sysfs: GPUs, NVSwitches, NICs and the bridges above them. Section `pci`."""

from __future__ import annotations

from dataclasses import dataclass

from nodegate.unknown import Known


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
    subsystem: Known[str]  # "10de:16c1"
    revision: Known[int]
    width: Known[int | None]
    width_max: Known[int | None]
    speed_gts: Known[float | None]
    speed_max_gts: Known[float | None]
    numa_node: Known[int]
    power_state: Known[str]  # D0, D3hot, D3cold, unknown, error
    driver: str  # "" when none is bound
    parent: str  # address of the bridge above; "" at the root
    answers: Known[bool]  # False: config space reads all ff, the device has fallen off the bus
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
        """An NVSwitch: a bridge of NVIDIA's that is no PCI bridge (class 0x0680)."""
        return self.vendor == 0x10DE and self.class_code >> 8 == 0x0680

    @property
    def is_nic(self) -> bool:
        """A network or InfiniBand controller."""
        return self.class_code >> 16 == 0x02

    @property
    def is_bridge(self) -> bool:
        """A PCI-to-PCI bridge: root port, switch port."""
        return self.class_code >> 8 == 0x0604


@dataclass(frozen=True)
class Pci:
    """All PCIe devices that matter, by address."""

    devices: tuple[PciDevice, ...]

    def __getitem__(self, address: str) -> PciDevice:
        """The device at an address; KeyError when the probe did not see it."""
        for device in self.devices:
            if device.address == address:
                return device
        raise KeyError(address)

    def path(self, device: PciDevice) -> tuple[PciDevice, ...]:
        """The bridges above a device, nearest first, up to the root port."""
        known = {other.address: other for other in self.devices}
        above: list[PciDevice] = []
        parent = known.get(device.parent)
        while parent is not None and parent not in above:
            above.append(parent)
            parent = known.get(parent.parent)
        return tuple(above)

    @property
    def gpus(self) -> tuple[PciDevice, ...]:
        """The GPUs in address order."""
        return tuple(device for device in self.devices if device.is_gpu)

    @property
    def nvswitches(self) -> tuple[PciDevice, ...]:
        """The NVSwitches in address order."""
        return tuple(device for device in self.devices if device.is_nvswitch)

    @property
    def nics(self) -> tuple[PciDevice, ...]:
        """The network and InfiniBand controllers in address order."""
        return tuple(device for device in self.devices if device.is_nic)
