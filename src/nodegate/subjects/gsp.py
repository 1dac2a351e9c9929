"""Whether a GPU runs its GSP firmware, as NVML and as the driver's own file report it."""

from collections import Counter
from collections.abc import Iterable

from nodegate.probe.driver import DriverGpu
from nodegate.probe.gpu import Gpu
from nodegate.subjects.gpu import NORMAL_ABSENCE
from nodegate.unknown import Known, Unknown, Why


def state(gpu: Gpu) -> Known[str]:
    """`on` or `off` by NVML. A GPU or driver without GSP firmware runs without it: that is `off`."""
    if not isinstance(gpu.gsp_enabled, Unknown):
        return "on" if gpu.gsp_enabled else "off"
    if not isinstance(gpu.gsp_firmware, Unknown):
        return "on"
    return "off" if gpu.gsp_firmware.why in NORMAL_ABSENCE else gpu.gsp_firmware


def state_by_driver(entry: DriverGpu) -> str | None:
    """`on` or `off` by the line `GPU Firmware:` (`N/A` is off); None where the driver has no such line."""
    if not isinstance(entry.gsp_firmware, Unknown):
        return "on"
    return "off" if entry.gsp_firmware.why is Why.NOT_SUPPORTED else None


def firmware_version(gpu: Gpu) -> Known[str]:
    """The running firmware's version."""
    return gpu.gsp_firmware


def most_common(states: Iterable[Known[str]]) -> Known[str]:
    """The state that most GPUs have; with as many of either, `on`, which is the driver's default."""
    counts = Counter(each for each in states if not isinstance(each, Unknown))
    if not counts:
        return Unknown(Why.MISSING, "no GPU of this node reports it")
    return max(sorted(counts, reverse=True), key=counts.__getitem__)
