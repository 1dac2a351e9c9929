"""Which GPUs a node has, by PCIe, the driver and NVML together: lost, unbound and merely hidden are told apart."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from nodegate.rules.gpus import lost_reason
from nodegate.unknown import Unknown, Why

if TYPE_CHECKING:
    from nodegate.probe.driver import Driver, DriverGpu
    from nodegate.probe.gpu import Gpu, Gpus
    from nodegate.probe.pci import Pci, PciDevice

_REVISION_OF_NOTHING = 0xFF
_REFUSED = frozenset({"EPERM", "EACCES"})


class Standing(str, Enum):
    """How a GPU stands with this node and this login."""

    ANSWERS = "answers"
    LOST = "lost"  # fallen off the bus, or NVML cannot open it
    UNBOUND = "unbound"  # on PCIe, and the NVIDIA driver does not drive it
    HIDDEN = "hidden"  # healthy as far as can be seen, and kept from this login or container
    UNCLEAR = "unclear"


@dataclass(frozen=True)
class Presence:
    """One GPU: how a finding names it, how it stands, and by what."""

    subject: str
    standing: Standing
    reason: str = ""


def presence(pci: Pci, driver: Driver, gpus: Gpus) -> tuple[Presence, ...]:
    """Every GPU that PCIe or NVML lists, in PCIe address order.

    A login's device cgroup makes /dev/nvidiaN answer EPERM, and NVML then leaves healthy GPUs out: a count by NVML
    alone would call them lost.
    """
    by_address = _by_address(pci, gpus)
    whole = not isinstance(gpus.count, Unknown)
    found = [_of_device(device, by_address.pop(device.address, None), driver, whole=whole) for device in pci.gpus]
    nameless = [gpu for gpu in gpus.devices if not _address(gpu, pci, gpus)]
    return (*found, *(_off_bus(gpu) for gpu in (*by_address.values(), *nameless)))


def answers_on_bus(device: PciDevice) -> bool | Unknown:
    """Whether a PCIe device answers: revision ff or a configuration space of ff is what an absent device reads as."""
    if device.revision == _REVISION_OF_NOTHING:
        return False
    return device.answers


def _by_address(pci: Pci, gpus: Gpus) -> dict[str, Gpu]:
    named = ((_address(gpu, pci, gpus), gpu) for gpu in gpus.devices)
    return {address: gpu for address, gpu in named if address}


def _address(gpu: Gpu, pci: Pci, gpus: Gpus) -> str:
    """Its PCIe address. NVML counts in bus order: where it lists as many GPUs as PCIe, the index gives the address.

    So it does where the number of GPUs is unknown, for nvidia-smi told of nothing but the lost ones.
    """
    if not isinstance(gpu.address, Unknown):
        return gpu.address
    as_many = isinstance(gpus.count, Unknown) or len(gpus.devices) == len(pci.gpus)
    if as_many and gpu.index < len(pci.gpus):
        return sorted(device.address for device in pci.gpus)[gpu.index]
    return ""


def _of_device(device: PciDevice, gpu: Gpu | None, driver: Driver, *, whole: bool) -> Presence:
    """How a GPU of PCIe stands. `whole`: NVML or nvidia-smi told of every GPU that it knows."""
    entry = _driver_entry(device, driver)
    subject = _subject(device, gpu, entry)
    if answers_on_bus(device) is False:
        return Presence(subject, Standing.LOST, "PCIe configuration space reads all ff")
    if gpu is not None:
        return _by_nvml(subject, lost_reason(gpu))
    if entry is not None and entry.excluded is True:
        return Presence(subject, Standing.UNBOUND, "the driver's settings exclude it (NVreg_ExcludedGpus)")
    if device.driver != "nvidia":
        return Presence(subject, Standing.UNBOUND, f"bound to {device.driver}" if device.driver else "no driver bound")
    if reason := _hidden(device, driver, entry):
        return Presence(subject, Standing.HIDDEN, reason)
    lost = Presence(subject, Standing.LOST, "PCIe and the driver list it, NVML does not")
    return lost if whole else Presence(subject, Standing.UNCLEAR, "nvidia-smi stopped at a lost GPU, told of no other")


def _by_nvml(subject: str, lost: Unknown | None) -> Presence:
    """How NVML's own answer for a GPU that it lists is to be read."""
    if lost is None:
        return Presence(subject, Standing.ANSWERS)
    if lost.why is Why.DENIED:
        return Presence(subject, Standing.HIDDEN, f"NVML may not open it: {lost}")
    if lost.why in (Why.TIMEOUT, Why.HUNG):
        return Presence(subject, Standing.UNCLEAR, f"NVML gave no answer: {lost}")
    return Presence(subject, Standing.LOST, f"NVML cannot read it: {lost}")


def _hidden(device: PciDevice, driver: Driver, entry: DriverGpu | None) -> str:
    """Why NVML may leave out a GPU that is healthy, or empty."""
    refused = sorted(node for node, state in driver.device_nodes.items() if state in _REFUSED)
    if refused:
        return f"{', '.join('/dev/' + node for node in refused)} refused with {driver.device_nodes[refused[0]]}"
    if isinstance(driver.gpus, Unknown):
        return ""
    if entry is None:
        return f"the driver is bound to {device.address} and /proc/driver/nvidia does not show it: a container"
    if len(driver.device_nodes) < len(driver.gpus):
        return f"{len(driver.device_nodes)} device nodes /dev/nvidiaN for {len(driver.gpus)} GPUs of the driver"
    return ""


def _off_bus(gpu: Gpu) -> Presence:
    lost = lost_reason(gpu)
    if lost is None:
        return Presence(gpu.subject, Standing.UNCLEAR, "NVML lists it, /sys/bus/pci does not")
    return _by_nvml(gpu.subject, lost)


def _driver_entry(device: PciDevice, driver: Driver) -> DriverGpu | None:
    entries = () if isinstance(driver.gpus, Unknown) else driver.gpus
    return next((entry for entry in entries if entry.address == device.address), None)


def _subject(device: PciDevice, gpu: Gpu | None, entry: DriverGpu | None) -> str:
    """Index, address and serial by NVML where it knows them; else the UUID that the driver's file keeps."""
    if gpu is not None and gpu.lost is None and not isinstance(gpu.address, Unknown):
        return gpu.subject
    uuid = "" if entry is None or isinstance(entry.uuid, Unknown) or "?" in entry.uuid else entry.uuid
    label = ", ".join(part for part in (device.address, uuid) if part)
    return f"GPU {gpu.index} ({label})" if gpu is not None else f"GPU at {label}"
