"""PCIe links: which devices they matter for, and whether a narrow one is a fault, the slot or the platform's design."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from nodegate.unknown import Unknown, value_or
from nodegate.verdict import Limit

if TYPE_CHECKING:
    from collections.abc import Iterable

    from nodegate.probe.gpu import Gpus
    from nodegate.probe.host import Host
    from nodegate.probe.pci import Pci, PciDevice
    from nodegate.unknown import Known

_NVIDIA_NETWORKING = 0x15B3
_RDMA_DRIVERS = frozenset({"efa", "ionic", "irdma"})
_BROADCOM_RDMA_LANES = 16  # bnxt_en also drives management NICs: those have fewer lanes
_VIRTUAL_VENDORS = ("qemu", "amazon ec2", "vmware", "microsoft corporation", "google", "xen", "innotek", "openstack")
_VIRTUAL_PRODUCTS = ("virtual", "kvm", "compute engine", "hvm")


def is_rdma_nic(device: PciDevice) -> bool:
    """A NIC that carries RDMA. Management NICs (1G, 10G) are none: they may be as narrow as they like."""
    if not device.is_nic:
        return False
    if device.vendor == _NVIDIA_NETWORKING or device.driver in _RDMA_DRIVERS:
        return True
    return device.driver == "bnxt_en" and device.width_max == _BROADCOM_RDMA_LANES


def rdma_nics(pci: Pci) -> tuple[PciDevice, ...]:
    """The RDMA NICs in address order."""
    return tuple(device for device in pci.nics if is_rdma_nic(device))


def judged(pci: Pci) -> tuple[PciDevice, ...]:
    """The devices whose links jobs rest on: GPUs and RDMA NICs."""
    return (*pci.gpus, *rdma_nics(pci))


def subject(device: PciDevice) -> str:
    """How a finding names a PCIe device."""
    kind = "GPU" if device.is_gpu else "NVSwitch" if device.is_nvswitch else "NIC" if device.is_nic else "bridge"
    return f"{kind} {device.address}"


def has_no_link(device: PciDevice) -> bool:
    """A virtual function or an emulated device: it states no width of its own, present or possible."""
    return device.width is None and device.width_max is None


def peers(devices: Iterable[PciDevice]) -> dict[str, tuple[PciDevice, ...]]:
    """The devices by model (vendor:device): what all of a model have in common is design, what one has is a fault."""
    found: defaultdict[str, list[PciDevice]] = defaultdict(list)
    for device in devices:
        found[device.pci_id].append(device)
    return {pci_id: tuple(group) for pci_id, group in found.items()}


def slot_speed(pci: Pci, device: PciDevice) -> float | None:
    """The highest speed, in GT/s, of the port that the device hangs on; None when it is not known."""
    above = pci.path(device)
    speed = above[0].speed_max_gts if above else None
    return None if isinstance(speed, Unknown) else speed


def is_virtual(host: Host) -> bool:
    """A virtual machine, as its DMI strings say. Bare metal of a cloud does not say so and is none."""
    vendor = "" if isinstance(host.vendor, Unknown) else host.vendor.lower()
    product = "" if isinstance(host.product, Unknown) else host.product.lower()
    if "metal" in product:
        return False
    return vendor.startswith(_VIRTUAL_VENDORS) or any(word in product for word in _VIRTUAL_PRODUCTS)


def lanes(width: Known[int | None]) -> Known[int]:
    """The lanes in use; a device that could have a link and has none uses 0."""
    return 0 if width is None else width


def own_limit(width_max: Known[int | None]) -> Limit | Unknown:
    """The device's own word as a limit."""
    return width_max if isinstance(width_max, Unknown) else Limit(width_max or 0, "lanes", "its own maximum")


def on_the_way(pci: Pci) -> tuple[PciDevice, ...]:
    """GPUs, RDMA NICs, NVSwitches and the bridges above them, each once."""
    found: dict[str, PciDevice] = {}
    for device in (*judged(pci), *pci.nvswitches):
        for each in (device, *pci.path(device)):
            found.setdefault(each.address, each)
    return tuple(found.values())


def working(gpus: Gpus) -> frozenset[str]:
    """The addresses of the GPUs that work now: in use, or with their SM clock at its highest."""
    return frozenset(
        gpu.address
        for gpu in gpus.devices
        if not isinstance(gpu.address, Unknown)
        and (value_or(gpu.utilization_percent, 0) > 0 or value_or(gpu.sm_clock_mhz, -1) == gpu.sm_clock_max_mhz)
    )


def hops(pci: Pci) -> tuple[tuple[PciDevice, PciDevice], ...]:
    """Each bridge above a GPU or RDMA NIC once, with the widest device below it."""
    found: dict[str, tuple[PciDevice, PciDevice]] = {}
    for device in sorted(judged(pci), key=lambda each: -least(each.width)):
        for bridge in pci.path(device):
            found.setdefault(bridge.address, (device, bridge))
    return tuple(found.values())


def least(*widths: Known[int | None]) -> int:
    """The smallest of the widths that are known."""
    return min((width for width in widths if isinstance(width, int)), default=0)
