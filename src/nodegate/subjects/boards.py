"""The GPU boards of a node: what most of them are, their numbers, their GSP firmware, whose processes they run."""

from collections import Counter
from collections.abc import Iterable
from typing import TypeVar

from nodegate.node_side.probe.system import is_mps, is_resident
from nodegate.probe.driver import DriverGpu
from nodegate.probe.gpu import Gpu
from nodegate.probe.jobs import Jobs, Owner
from nodegate.probe.pci import Pci
from nodegate.records.finding import Limit, LimitKind
from nodegate.subjects.gpu import NORMAL_ABSENCE
from nodegate.unknown import Known, Unknown, Why

V = TypeVar("V", bool, int, float, str)


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
