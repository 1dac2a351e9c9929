"""GPUs: which a node has, which of them respond, how hot they may get; and what most of its boards are."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import TypeVar

from nodegate.kernel_log.window import is_before_boot
from nodegate.knowledge.xid_lines import ADDRESS, FELL_OFF_THE_BUS, GpuEvent, gpu_events, serials
from nodegate.knowledge.xid_lines import address_of as address_of_line
from nodegate.node_side.probe.system import is_mps, is_resident
from nodegate.probe.driver import Driver, DriverGpu
from nodegate.probe.gpu import Gpu, Gpus
from nodegate.probe.jobs import Jobs, Owner
from nodegate.probe.kernel_log import KernelLog
from nodegate.probe.pci import Pci, PciDevice
from nodegate.probe.readings import mapped
from nodegate.records import part
from nodegate.records.finding import AnyLimit, Limit, LimitKind, NumberLimit
from nodegate.records.part import Part
from nodegate.unknown import Known, Unknown, Why, both, value_or
from nodegate.verdicts import Verdicts

V = TypeVar("V", bool, int, float, str)
NORMAL_ABSENCE = frozenset({Why.NOT_SUPPORTED, Why.MISSING})
MEBIBYTE = 1 << 20
ON_OFF: Mapping[int, str] = {True: "on", False: "off"}
_SEE_LOST = "see the findings of gpu.lost"


def answering(gpus: Gpus, verdicts: Verdicts) -> tuple[Gpu, ...]:
    """The GPUs that NVML can read; each other one leaves an `error`, for nothing is known of it here.

    Raises:
        CannotMeasure: NVML lists no GPU at all.
    """
    if not gpus.devices:
        verdicts.cannot("NVML lists no GPU", next_step=_SEE_LOST, blocked_by="gpu.lost")
    lost = [(gpu, reason) for gpu in gpus.devices if (reason := lost_reason(gpu)) is not None]
    for gpu, why in lost:
        verdicts.unknown(part=gpu.part, quantity="its state", reason=why, action=_SEE_LOST, blocked_by="gpu.lost")
    gone = {gpu.index for gpu, _ in lost}
    return tuple(gpu for gpu in gpus.devices if gpu.index not in gone)


def lost_reason(gpu: Gpu) -> Unknown | None:
    """Why NVML cannot read this GPU: no handle, or a handle whose every call says that the GPU is lost."""
    if gpu.lost is not None:
        return gpu.lost
    basic = (gpu.uuid, gpu.temperature_c, gpu.memory_used_bytes, gpu.power_w)
    return next((each for each in basic if isinstance(each, Unknown) and each.why is Why.LOST), None)


def named(reading: Known[int], names: Mapping[int, str]) -> Known[str]:
    """A code or switch in words; one that has no word keeps its number."""
    return mapped(reading, lambda code: names.get(code, f"unknown ({code})"))


def on_off(reading: Known[bool]) -> Known[str]:
    """A switch as people read it."""
    return named(reading, ON_OFF)


def worded(limit: AnyLimit, names: Mapping[int, str]) -> AnyLimit:
    """A limit whose code or switch is given in words, to stand beside a `named` reading."""
    code = limit.value
    return replace(limit, value=names.get(code, f"unknown ({code})")) if isinstance(code, int) else limit


def mebibytes(reading: Known[int]) -> Known[int]:
    """Bytes as whole MiB, rounded up."""
    return mapped(reading, lambda size: -(-size // MEBIBYTE))


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

    part: Part
    standing: Standing
    reason: str = ""


def presence(pci: Pci, driver: Driver, gpus: Gpus) -> tuple[Presence, ...]:
    """Every GPU that PCIe or NVML lists, in PCIe address order.

    A login's device cgroup makes /dev/nvidiaN answer EPERM, and NVML then leaves healthy GPUs out: a count by NVML
    alone would call them lost.
    """
    addressed = [(address_of(gpu, pci, gpus), gpu) for gpu in gpus.devices]
    by_address = {address: gpu for address, gpu in addressed if address}
    whole = not isinstance(gpus.count, Unknown)
    found = [_of_device(device, by_address.pop(device.address, None), driver, whole=whole) for device in pci.gpus]
    nameless = [gpu for address, gpu in addressed if not address]
    for gpu in (*by_address.values(), *nameless):
        unseen = Presence(gpu.part, Standing.UNCLEAR, "NVML lists it, /sys/bus/pci does not")
        lost = lost_reason(gpu)
        found.append(unseen if lost is None else _by_nvml(gpu.part, lost))
    return tuple(found)


def answers_on_bus(device: PciDevice) -> bool | Unknown:
    """Whether a PCIe device responds: revision ff or a configuration space of ff is what an absent device reads as."""
    return False if device.revision == _REVISION_OF_NOTHING else device.answers


def address_of(gpu: Gpu, pci: Pci, gpus: Gpus) -> str:
    """Its PCIe address. NVML counts in bus order: where it lists as many GPUs as PCIe, the index gives the address.

    So it does where the number of GPUs is unknown, for nvidia-smi then listed nothing but the lost ones.
    """
    if not isinstance(gpu.address, Unknown):
        return gpu.address
    as_many = isinstance(gpus.count, Unknown) or len(gpus.devices) == len(pci.gpus)
    if as_many and gpu.index < len(pci.gpus):
        return sorted(device.address for device in pci.gpus)[gpu.index]
    return ""


def _of_device(device: PciDevice, gpu: Gpu | None, driver: Driver, *, whole: bool) -> Presence:
    """How a GPU of PCIe stands. `whole`: NVML or nvidia-smi listed every GPU that it knows."""
    entries = value_or(driver.gpus, ())
    entry = next((each for each in entries if each.address == device.address), None)
    whose = _part(device, gpu, entry)
    if answers_on_bus(device) is False:
        return Presence(whose, Standing.LOST, "its PCIe configuration space reads all ff")
    if gpu is not None:
        return _by_nvml(whose, lost_reason(gpu))
    if entry is not None and entry.excluded is True:
        return Presence(whose, Standing.UNBOUND, "the driver's settings exclude it (NVreg_ExcludedGpus)")
    if device.driver != "nvidia":
        return Presence(whose, Standing.UNBOUND, f"bound to {device.driver}" if device.driver else "no driver bound")
    if reason := _hidden(driver, entry):
        return Presence(whose, Standing.HIDDEN, reason)
    lost = Presence(whose, Standing.LOST, "PCIe and the driver list it, NVML does not")
    return lost if whole else Presence(whose, Standing.UNCLEAR, "nvidia-smi stopped at a lost GPU and listed no others")


def _by_nvml(whose: Part, lost: Unknown | None) -> Presence:
    """How NVML's own answer for a GPU that it lists is to be read."""
    if lost is None:
        return Presence(whose, Standing.ANSWERS)
    if lost.why is Why.DENIED:
        return Presence(whose, Standing.HIDDEN, f"NVML may not open it: {lost}")
    if lost.why in (Why.TIMEOUT, Why.HUNG):
        return Presence(whose, Standing.UNCLEAR, f"NVML gave no answer: {lost}")
    return Presence(whose, Standing.LOST, f"NVML cannot read it: {lost}")


def _hidden(driver: Driver, entry: DriverGpu | None) -> str:
    """Why NVML may leave out a GPU that is healthy, or empty."""
    refused = sorted(node for node, state in driver.device_nodes.items() if state in _REFUSED)
    if refused:
        return f"{', '.join('/dev/' + node for node in refused)} refused with {driver.device_nodes[refused[0]]}"
    if isinstance(driver.gpus, Unknown):
        return ""
    if entry is None:
        return "the driver is bound to it, but /proc/driver/nvidia does not list it: a container"
    if len(driver.device_nodes) < len(driver.gpus):
        return f"{len(driver.device_nodes)} device nodes /dev/nvidiaN for {len(driver.gpus)} GPUs of the driver"
    return ""


def _part(device: PciDevice, gpu: Gpu | None, entry: DriverGpu | None) -> Part:
    """Index, address and serial by NVML where it knows them; else the UUID that the driver's file keeps."""
    if gpu is not None and gpu.lost is None and not isinstance(gpu.address, Unknown):
        return gpu.part
    uuid = "" if entry is None or isinstance(entry.uuid, Unknown) or "?" in entry.uuid else entry.uuid
    return part.gpu(gpu.index if gpu is not None else None, address=device.address, uuid=uuid)


_REFUSED_AT_START = re.compile(rf"NVRM: The NVIDIA GPU {ADDRESS}\b.*fallen off the bus")


def off_bus(log: KernelLog) -> tuple[Part, ...]:
    """Every GPU that the log's lines of the present boot report as lost, in address order, with its board's number.

    A line without a time counts: it cannot be shown to be old.
    """
    lines = [line for line in log.lines if not is_before_boot(line.epoch_s, log.boot_epoch_s)]
    events = (event for event in gpu_events(lines) if isinstance(event, GpuEvent) and event.code == FELL_OFF_THE_BUS)
    refused = (match for line in lines if (match := _REFUSED_AT_START.search(line.text)))
    lost = {event.address for event in events if event.address} | {address_of_line(match) for match in refused}
    known = serials(lines)
    return tuple(part.gpu(address=address, serial=known.get(address, "")) for address in sorted(lost))


def margin_c(gpu: Gpu) -> Known[int]:
    """Degrees left: T.Limit where the device has it, else its slowdown temperature less the present one."""
    own = gpu.temperature_margin_c
    if not isinstance(own, Unknown) or own.why not in NORMAL_ABSENCE:
        return own
    return both(gpu.temperature_slowdown_c, gpu.temperature_c, lambda slowdown, now: slowdown - now)


def memory_limit_c(gpu: Gpu, usual: NumberLimit) -> NumberLimit:
    """How hot the memory of a GPU may be: by its own word where it has one, else what boards with HBM allow."""
    own = gpu.memory_temperature_limit_c
    return usual if isinstance(own, Unknown) else Limit(own, "°C", "the board's own limit", kind=LimitKind.DEVICE)


_HOUR_S, _LEAST_HOURS = 3600.0, 24.0  # a burst after boot is no rate


def corrected_allowed(per_hour: NumberLimit, uptime: Known[float]) -> NumberLimit | Unknown:
    """The corrected errors that a limit per hour allows since boot."""
    if isinstance(uptime, Unknown):
        return uptime
    hours = max(uptime / _HOUR_S, _LEAST_HOURS)
    source = f"{per_hour.value:g} an hour over {hours:.0f} h since boot; {per_hour.source}"
    return replace(per_hour, value=round(per_hour.value * hours), unit="errors", source=source)


def usual(readings: Iterable[Known[V]], unit: str = "") -> Limit[V] | None:
    """What most of them are, as a limit; of two that are as frequent the first; None where none is known."""
    counts = Counter(each for each in readings if not isinstance(each, Unknown))
    most = next((value for value, _ in counts.most_common(1)), None)
    return None if most is None else Limit(most, unit, "most GPUs of this node", kind=LimitKind.NODE)


def has_number(number: str) -> bool:
    """Whether it says anything: some cards without a serial number report zeros."""
    return bool(number.strip("0"))


def id_on_bus(gpu: Gpu, pci: Pci) -> str | None:
    """The model that PCIe lists at the GPU's address; None where it lists nothing there."""
    at = {device.address: device.pci_id for device in pci.gpus}
    return None if isinstance(gpu.address, Unknown) else at.get(gpu.address)


def gsp_state(gpu: Gpu) -> Known[str]:
    """`on` or `off` by NVML. A GPU or driver without GSP firmware runs without it: that is `off`."""
    if not isinstance(gpu.gsp_enabled, Unknown):
        return "on" if gpu.gsp_enabled else "off"
    if not isinstance(gpu.gsp_firmware, Unknown):
        return "on"
    return "off" if gpu.gsp_firmware.why in NORMAL_ABSENCE else gpu.gsp_firmware


def gsp_by_driver(entry: DriverGpu) -> str | None:
    """`on` or `off` by the line `GPU Firmware:` (`N/A` is off); None where the driver has no such line."""
    if not isinstance(entry.gsp_firmware, Unknown):
        return "on"
    return "off" if entry.gsp_firmware.why is Why.NOT_SUPPORTED else None


def usual_gsp(states: Iterable[Known[str]]) -> Known[str]:
    """The state that most GPUs have; with as many of either, `on`, which is the driver's default."""
    counts = Counter(each for each in states if not isinstance(each, Unknown))
    if not counts:
        return Unknown(Why.MISSING, "no GPU of this node reports it")
    return max(sorted(counts, reverse=True), key=counts.__getitem__)


def owners(gpu: Gpu, jobs: Jobs) -> dict[int, Owner]:
    """The owner of each process on this GPU by its number, without NVIDIA's own daemons."""
    found = () if isinstance(gpu.processes, Unknown) else gpu.processes
    by_mps = any(each.kind == "mps" or is_mps(each.name) for each in found)
    sliced = not isinstance(jobs.shared_gpus, Unknown) and gpu.uuid in jobs.shared_gpus
    pids = [each.pid for each in found if not is_resident(each.name)]
    return jobs.owners(pids, shared=gpu.mig_enabled is True or by_mps or sliced)
