"""The GPU boards of a node beside each other: what most of them are, and which carry the same number."""

from collections import Counter
from collections.abc import Iterable
from typing import TypeVar

from nodegate.probe.gpu import Gpu
from nodegate.probe.pci import Pci
from nodegate.records.finding import Limit, LimitKind
from nodegate.unknown import Known, Unknown

V = TypeVar("V", bool, int, float, str)


def usual(readings: Iterable[Known[V]], unit: str = "") -> Limit[V] | None:
    """What most of them are, as a limit; of two that are as frequent the first; None where none is known."""
    counts = Counter(each for each in readings if not isinstance(each, Unknown))
    most = next((value for value, _ in counts.most_common(1)), None)
    return None if most is None else Limit(most, unit, "most GPUs of this node", kind=LimitKind.NODE)


def part_number(gpu: Gpu) -> Known[str]:
    """The board's."""
    return gpu.part_number


def vbios(gpu: Gpu) -> Known[str]:
    """The version of its VBIOS."""
    return gpu.vbios


def uuid(gpu: Gpu) -> Known[str]:
    """The GPU's own number."""
    return gpu.uuid


def serial(gpu: Gpu) -> Known[str]:
    """The number of its board."""
    return gpu.serial


def has_number(number: str) -> bool:
    """Whether it says anything: some cards without a serial number report zeros."""
    return bool(number.strip("0"))


def id_on_bus(gpu: Gpu, pci: Pci) -> str | None:
    """The model that PCIe lists at the GPU's address; None where it lists nothing there."""
    at = {device.address: device.pci_id for device in pci.gpus}
    return None if isinstance(gpu.address, Unknown) else at.get(gpu.address)
