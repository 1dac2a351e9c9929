"""What a GPU that does not report a reading means: nothing where its kind has none, a gap where it should have one."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from nodegate.probe.gpu import Gpu, Gpus
from nodegate.records.verdict import Verdict
from nodegate.subjects.fabric import health_mask
from nodegate.subjects.gpu import margin_c
from nodegate.unknown import Known, Unknown

if TYPE_CHECKING:
    from nodegate.baseline.baseline import Baseline  # the burn's program has no PyYAML

from nodegate.records.finding import AnyLimit

_EXPECTED = re.compile(r"([a-z_]+)(?:>=([0-9]+))?")

# What the limit `gpu.reports` of a platform may name.
READINGS: Mapping[str, Callable[[Gpu], Known[object]]] = {
    "ecc_errors": lambda gpu: gpu.ecc.volatile_uncorrected,
    "ecc_errors_corrected": lambda gpu: gpu.ecc.volatile_corrected,
    "ecc_errors_lifetime": lambda gpu: gpu.ecc.aggregate_uncorrected,
    "ecc_errors_sram": lambda gpu: gpu.ecc.aggregate_sram_uncorrected,
    "ecc_pending": lambda gpu: gpu.ecc_pending,
    "sram_threshold": lambda gpu: gpu.sram_threshold_exceeded,
    "remapped_rows": lambda gpu: gpu.remap,
    "spare_rows": lambda gpu: gpu.spent_banks,
    "retired_pages": lambda gpu: gpu.retired_double_bit,
    "inforom": lambda gpu: gpu.inforom_valid,
    "recovery_action": lambda gpu: gpu.recovery_action,
    "compute_mode": lambda gpu: gpu.compute_mode,
    "mig": lambda gpu: gpu.mig_enabled,
    "power_limit": lambda gpu: gpu.power_limit_w,
    "power_limit_enforced": lambda gpu: gpu.power_limit_enforced_w,
    "margin_to_slowdown": margin_c,
    "memory_temperature": lambda gpu: gpu.memory_temperature_c,
    "event_reasons": lambda gpu: gpu.event_reasons,
    "violation_thermal": lambda gpu: gpu.thermal_violation_s,
    "violation_board_limit": lambda gpu: gpu.board_limit_violation_s,
    "violation_reliability": lambda gpu: gpu.reliability_violation_s,
    "application_clocks": lambda gpu: gpu.sm_clock_app_mhz,
    "application_memory_clocks": lambda gpu: gpu.memory_clock_app_mhz,
    "pcie_replays": lambda gpu: gpu.pcie_replays,
    "power_draw": lambda gpu: gpu.power_w,
    "serial_number": lambda gpu: gpu.serial,
    "part_number": lambda gpu: gpu.part_number,
    "vbios": lambda gpu: gpu.vbios,
    "processes": lambda gpu: gpu.processes,
    "fabric": lambda gpu: gpu.fabric,
    "fabric_health": lambda gpu: gpu.fabric if isinstance(gpu.fabric, Unknown) else health_mask(gpu.fabric),
    "fabric_summary": lambda gpu: gpu.fabric if isinstance(gpu.fabric, Unknown) else gpu.fabric.health_summary,
}


def absence(reading: str, gpu: Gpu, gpus: Gpus, baseline: Baseline) -> Verdict:
    """The verdict on a GPU that does not report this reading, one of READINGS.

    `error` where another GPU of its node reports it, or where the platform says that its boards do; with nvidia-smi
    instead of NVML the second is `not-judged`, for it shows less. A GPU cut by MIG keeps some readings to itself.
    """
    read = READINGS[reading]
    if gpu.mig_enabled is True or not isinstance(read(gpu), Unknown):
        return Verdict.SKIP
    others = (each for each in gpus.devices if each.lost is None and each.mig_enabled is not True)
    if any(not isinstance(read(each), Unknown) for each in others):
        return Verdict.ERROR
    if reading not in expected(gpus, baseline):
        return Verdict.SKIP
    return Verdict.ERROR if gpus.source == "nvml" else Verdict.NOT_JUDGED


def expected(gpus: Gpus, baseline: Baseline) -> frozenset[str]:
    """The readings that every board of the platform reports under this driver: `gpu.reports`."""
    limit = baseline.find("gpu.reports")
    driver = gpus.driver_version
    release = 0 if isinstance(driver, Unknown) else int(next(iter(re.findall(r"^[0-9]{1,4}", driver)), "0"))
    words = filter(None, map(_EXPECTED.fullmatch, words_of(limit)))  # such as `inforom`, `sram_threshold>=550`
    return frozenset(word[1] for word in words if release >= int(word[2] or 0))


def words_of(limit: AnyLimit | None) -> frozenset[str]:
    """The words of a limit that is a list of them in one text; none without a limit."""
    return frozenset(str(limit.value).split()) if limit is not None else frozenset()
