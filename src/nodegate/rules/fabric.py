"""Where an NVLink fabric is to be expected, and which GPUs are members of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nodegate.rules.gpus import NORMAL_ABSENCE
from nodegate.unknown import Known, Unknown

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from nodegate.baseline.baseline import Baseline
    from nodegate.probe.gpu import Gpu, GpuFabric
    from nodegate.probe.pci import Pci
    from nodegate.verdicts import Verdicts

UNIT = "nvidia-fabricmanager"
_NOT_SUPPORTED = 0  # nvml.h, NVML_GPU_FABRIC_STATE_NOT_SUPPORTED


def demand_fabric(pci: Pci, baseline: Baseline, verdicts: Verdicts) -> None:
    """End the check where no fabric manager is needed: the site says so, or nothing says it is and no NVSwitch is seen.

    Raises:
        NotJudged: this node needs none.
    """
    required = baseline.find("fabric.required")
    if required is not None and required.value is False:
        verdicts.skip(f"this platform runs no fabric manager ({required.source})")
    if required is None and not pci.nvswitches:
        verdicts.skip("PCIe lists no NVSwitch: no fabric manager is needed")


def members(gpus: Sequence[Gpu], verdicts: Verdicts) -> Iterator[tuple[Gpu, GpuFabric]]:
    """The GPUs whose fabric state is to be judged.

    Cards without a fabric (and A100, whose driver tells none) say "not supported", all of a node alike: that ends the
    check. One that says so among others that do not is judged with them.

    Raises:
        NotJudged: no GPU of this node tells a fabric state.
    """
    told = [gpu for gpu in gpus if not _absent(gpu.fabric)]
    if gpus and not told:
        verdicts.skip("no GPU of this node tells a fabric state")
    for gpu in gpus:
        if isinstance(gpu.fabric, Unknown):
            verdicts.unknown(subject=gpu.subject, what="fabric state", reason=gpu.fabric)
        elif gpu.fabric.state != _NOT_SUPPORTED or told:
            yield gpu, gpu.fabric


def _absent(fabric: Known[GpuFabric]) -> bool:
    reading = fabric if isinstance(fabric, Unknown) else fabric.state
    return reading == _NOT_SUPPORTED or (isinstance(reading, Unknown) and reading.why in NORMAL_ABSENCE)
