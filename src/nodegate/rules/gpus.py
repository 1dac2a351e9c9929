"""What the GPU checks share: the GPUs that answer, and how a reading that a GPU does not have is told."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from nodegate.unknown import Known, Unknown, Why
from nodegate.verdict import Limit, Verdict

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nodegate.probe.gpu import Gpu, Gpus
    from nodegate.verdicts import Verdicts

NORMAL_ABSENCE = frozenset({Why.NOT_SUPPORTED, Why.MISSING})
_DROPPED = "NVML 26:"  # nvml.h, NVML_ERROR_DEPRECATED: driver 595 no longer has it
MEBIBYTE = 1 << 20
ON_OFF: Mapping[int, str] = {True: "on", False: "off"}
YES_NO: Mapping[int, str] = {True: "yes", False: "no"}


def answering(gpus: Gpus, verdicts: Verdicts) -> tuple[Gpu, ...]:
    """The GPUs that NVML can read; each other one leaves an `error`, for nothing is known of it here.

    Raises:
        CannotMeasure: NVML lists no GPU at all.
    """
    if not gpus.devices:
        verdicts.cannot("NVML lists no GPU", next_step="see the findings of gpu.count and gpu.bound")
    lost = {gpu.index: reason for gpu in gpus.devices if (reason := lost_reason(gpu)) is not None}
    for gpu in gpus.devices:
        if gpu.index in lost:
            remedy = "see the finding of gpu.lost"
            verdicts.unknown(subject=gpu.subject, what="its state", reason=lost[gpu.index], remedy=remedy)
    return tuple(gpu for gpu in gpus.devices if gpu.index not in lost)


def lost_reason(gpu: Gpu) -> Unknown | None:
    """Why NVML cannot read this GPU: no handle, or a handle whose every call says that the GPU is lost."""
    if gpu.lost is not None:
        return gpu.lost
    basic = (gpu.uuid, gpu.temperature_c, gpu.memory_used_bytes, gpu.power_w)
    return next((each for each in basic if isinstance(each, Unknown) and each.why is Why.LOST), None)


def lacks(verdicts: Verdicts, gpu: Gpu, what: str, reading: object) -> bool:
    """Whether this GPU or driver does not have the reading by design: then a `skip` finding says so.

    Any other reason for an unknown (denied, timed out, failed) is left to the judgement, which makes it `error`.
    """
    if not isinstance(reading, Unknown) or not (reading.why in NORMAL_ABSENCE or reading.detail.startswith(_DROPPED)):
        return False
    verdicts.found(Verdict.SKIP, subject=gpu.subject, message=f"{what} is not told here ({reading})")
    return True


def named(reading: Known[int], names: Mapping[int, str]) -> Known[str]:
    """A code or switch in words; one that has no word keeps its number."""
    return reading if isinstance(reading, Unknown) else names.get(reading, f"unknown ({reading})")


def on_off(reading: Known[bool]) -> Known[str]:
    """A switch as people read it."""
    return named(reading, ON_OFF)


def worded(limit: Limit, names: Mapping[int, str]) -> Limit:
    """A limit whose code or switch is given in words, to stand beside a `named` reading."""
    return replace(limit, value=named(limit.value, names)) if isinstance(limit.value, int) else limit


def mebibytes(reading: Known[int]) -> Known[int]:
    """Bytes as whole MiB, rounded up."""
    return reading if isinstance(reading, Unknown) else -(-reading // MEBIBYTE)
