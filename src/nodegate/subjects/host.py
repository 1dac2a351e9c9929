"""What jobs need of the host: limits that they inherit, sizes and mounts, in the units of the limits."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace

from nodegate.probe.environment import UNLIMITED, ResourceLimits
from nodegate.probe.host import BlockedProcess
from nodegate.probe.mounts import Mount
from nodegate.records import part
from nodegate.records.finding import AT_LEAST, EQUAL, AnyLimit
from nodegate.records.verdict import Verdict
from nodegate.unknown import Known, Unknown, Why
from nodegate.verdicts import Verdicts

GIB = 1 << 30
SHARED_MEMORY = "/dev/shm"  # noqa: S108 - judged, not written
SYSTEM_FOLDERS = ("/", "/tmp", "/var/log")  # noqa: S108 - judged, not written
Pair = tuple[float, float]


def gibibytes(size: Known[int]) -> Known[float]:
    """Bytes as GiB, to a tenth."""
    return size if isinstance(size, Unknown) else round(size / GIB, 1)


def installed_gib(size: Known[int]) -> Known[int]:
    """The installed GiB that a kernel which keeps 1-2 % for itself would show like this: up to the next DIMM size."""
    if isinstance(size, Unknown):
        return size
    gib = size / GIB
    step = 64 if gib >= 512 else 16 if gib >= 64 else 1
    return math.ceil(gib / step) * step


def pair_in_gib(pair: Known[tuple[int, int]]) -> Known[Pair]:
    """A soft and a hard limit in bytes as GiB; unlimited stays unlimited."""
    if isinstance(pair, Unknown):
        return pair
    soft, hard = (UNLIMITED if value == UNLIMITED else value / GIB for value in pair)
    return soft, hard


def percent(part: Known[int], whole: Known[int]) -> Known[float]:
    """A part of a whole in percent, to a tenth; unknown where it cannot be a part of it."""
    if isinstance(part, Unknown) or isinstance(whole, Unknown):
        return part if isinstance(part, Unknown) else whole if isinstance(whole, Unknown) else Unknown(Why.FAILED)
    if not 0 <= part <= whole:
        return Unknown(Why.IMPLAUSIBLE, f"{part} of {whole}")
    return round(100 * part / whole, 1) if whole > 0 else Unknown(Why.FAILED, "the total reads as 0")


def magnitude(reading: Known[float]) -> Known[float]:
    """How far from zero."""
    return reading if isinstance(reading, Unknown) else abs(reading)


def surely(reading: Known[float], error: float, of: float = 0.0) -> Known[float]:
    """How far from `of` a reading is for certain, given its error."""
    return reading if isinstance(reading, Unknown) else round(max(abs(reading - of) - error, 0.0), 3)


def asked_mounts(asked: Iterable[str]) -> dict[str, bool]:
    """The mounts that the inventory lists, and whether each must be writable: "/data:ro" need not."""
    found = {name: not name.endswith(":ro") for name in asked}
    return {name.removesuffix(":ro"): writable for name, writable in found.items()}


def has_slurmd(limits: ResourceLimits) -> bool:
    """Whether slurmd runs, as far as is known: reasons other than "missing" mean that it does."""
    readings = (limits.slurmd_open_files, limits.slurmd_processes, limits.slurmd_locked_memory_bytes)
    return not all(isinstance(reading, Unknown) and reading.why is Why.MISSING for reading in readings)


def judge_limit(
    verdicts: Verdicts, *, slurmd: bool, what: str, found: Known[Pair], limit: AnyLimit, command: str
) -> None:
    """A resource limit: the soft one must suffice; where only the hard one does, a job can still raise it (warn)."""
    whose, where = (
        (part.service("slurmd"), "slurmd.service (Limit*=)")
        if slurmd
        else (part.setting("login"), "/etc/security/limits.d")
    )
    if isinstance(found, Unknown):
        verdicts.unknown(part=whose, quantity=f"limit on {what}", reason=found)
        return
    soft, hard = found
    raisable = _enough(hard, limit)
    unit = limit.unit if limit.unit == "GiB" else ""
    direction = EQUAL if limit.value == "unlimited" else AT_LEAST
    verdicts.found(
        Verdict.PASS if _enough(soft, limit) else Verdict.WARN if raisable else Verdict.FAIL,
        part=whose,
        text=f"{what} {_shown(soft, unit)}",
        note=f"hard limit {_shown(hard, unit)}",
        action=f"raise it in {where}" + (f"; a job can do so itself with {command}" if raisable else ""),
        quantity=what,
        observed="unlimited" if soft == UNLIMITED else soft,
        unit="" if soft == UNLIMITED else unit,
        limit=replace(limit, unit=unit if direction else "", direction=direction),
    )


def waits_in_gpu_driver(process: BlockedProcess) -> bool:
    """Whether a blocked process is the GPU driver's own or waits in it."""
    names_of_driver = ("nvidia", "nv_", "os_acquire", "rm_", "uvm_")
    return process.waits_in.startswith(names_of_driver) or process.name.startswith(("nvidia", "nv-", "nv_"))


def hangs(mount: Mount) -> bool:
    """Whether reading its usage took longer than it may."""
    return isinstance(mount.size_bytes, Unknown) and mount.size_bytes.why in (Why.HUNG, Why.TIMEOUT)


def how_it_hangs(mount: Mount) -> str:
    """What of a hung mount did not return, and in which time."""
    return mount.size_bytes.detail if isinstance(mount.size_bytes, Unknown) else ""


def _enough(value: float, limit: AnyLimit) -> bool:
    if value == UNLIMITED:
        return True
    return isinstance(limit.value, (int, float)) and value >= limit.value


def _shown(value: float, unit: str) -> str:
    if value == UNLIMITED:
        return "unlimited"
    if unit == "GiB" and value < 1:
        return f"{value * 1024:.4g} MiB" if value * 1024 >= 1 else f"{value * 1024 * 1024:.4g} KiB"
    return f"{value:.10g} {unit}".rstrip()
