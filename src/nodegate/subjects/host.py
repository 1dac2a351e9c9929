"""What jobs need of the host: limits that they inherit, sizes and mounts, in the units of the limits."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import replace

from nodegate.probe.environment import UNLIMITED, ResourceLimits
from nodegate.probe.host import BlockedProcess
from nodegate.probe.mounts import Mount, split
from nodegate.probe.readings import mapped
from nodegate.records import part
from nodegate.records.finding import AT_LEAST, EQUAL, AnyLimit
from nodegate.records.part import Part, software
from nodegate.records.verdict import Verdict
from nodegate.unknown import Known, Unknown, Why, both
from nodegate.verdicts import Verdicts

GIB = 1 << 30
SHARED_MEMORY = "/dev/shm"  # noqa: S108 - judged, not written
SYSTEM_FOLDERS = ("/", "/tmp", "/var/log")  # noqa: S108 - judged, not written
Pair = tuple[float, float]


def gibibytes(size: Known[int]) -> Known[float]:
    """Bytes as GiB, to a tenth."""
    return mapped(size, lambda known: round(known / GIB, 1))


def installed_gib(size: Known[int]) -> Known[int]:
    """The installed GiB that a kernel which keeps 1-2 % for itself would show like this: up to the next DIMM size."""
    if isinstance(size, Unknown):
        return size
    gib = size / GIB
    step = 64 if gib >= 512 else 16 if gib >= 64 else 1
    return math.ceil(gib / step) * step


def pair_in_gib(pair: Known[tuple[int, int]]) -> Known[Pair]:
    """A soft and a hard limit in bytes as GiB; unlimited stays unlimited."""

    def in_gib(size: float) -> float:
        return UNLIMITED if size == UNLIMITED else size / GIB

    return mapped(pair, lambda known: (in_gib(known[0]), in_gib(known[1])))


def percent(part: Known[int], whole: Known[int]) -> Known[float]:
    """A part of a whole in percent, to a tenth; unknown where it cannot be a part of it."""
    return both(part, whole, _percent)


def _percent(part: int, whole: int) -> Known[float]:
    if not 0 <= part <= whole:
        return Unknown(Why.IMPLAUSIBLE, f"{part} of {whole}")
    return round(100 * part / whole, 1) if whole > 0 else Unknown(Why.FAILED, "the total reads as 0")


def surely(reading: Known[float], error: float, of: float = 0.0) -> Known[float]:
    """How far from `of` a reading is for certain, given its error."""
    return mapped(reading, lambda known: round(max(abs(known - of) - error, 0.0), 3))


def asked_mounts(asked: Iterable[str]) -> dict[str, bool]:
    """The mounts that the inventory lists, and whether each must be writable: "/data:ro" need not.

    "/lustre:write=/lustre/nodegate" must, and says where a file is written.
    """
    return {path.removesuffix(":ro"): not path.endswith(":ro") for path, _ in map(split, asked)}


def has_slurmd(limits: ResourceLimits) -> bool:
    """Whether slurmd runs, as far as is known: reasons other than "missing" mean that it does."""
    readings = (limits.slurmd_open_files, limits.slurmd_processes, limits.slurmd_locked_memory_bytes)
    return not all(isinstance(reading, Unknown) and reading.why is Why.MISSING for reading in readings)


def judge_limit(
    verdicts: Verdicts, *, slurmd: bool, what: str, found: Known[Pair], limit: AnyLimit, command: str
) -> None:
    """A resource limit: the soft one must suffice; where only the hard one does, a job can still raise it (warn)."""
    whose, where = part.setting("login"), "/etc/security/limits.d"
    if slurmd:
        whose, where = part.service("slurmd"), "slurmd.service (Limit*=)"
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


_LEADING = re.compile(r"\d{1,6}(?:\.\d{1,6}){0,4}")


def parts(version: str) -> tuple[int, ...]:
    """The numbers that a version begins with: "5.15.0-119-generic" gives (5, 15, 0); none gives ()."""
    match = _LEADING.match(version.strip().lstrip("v"))
    return tuple(int(part) for part in match[0].split(".")) if match else ()


def older(version: str, than: str) -> bool:
    """Whether a version is older; missing parts count as zero."""
    left, right = parts(version), parts(than)
    length = max(len(left), len(right))
    return left + (0,) * (length - len(left)) < right + (0,) * (length - len(right))


def judge_version(
    verdicts: Verdicts,
    *,
    whose: Part,
    version: Known[str],
    limit: AnyLimit | None,
    remedy: str,
    otherwise: Verdict = Verdict.FAIL,
) -> None:
    """A version that must not be older than the limit; without a limit it only has to be known."""
    if isinstance(version, Unknown) or not parts(version):
        reason = version if isinstance(version, Unknown) else f"{version!r} is not a version"
        verdicts.unknown(part=whose, quantity="version", reason=reason)
        return
    bad = limit is not None and older(version, str(limit.value))
    verdicts.found(
        otherwise if bad else Verdict.PASS,
        part=whose,
        action=remedy,
        quantity="version",
        observed=version,
        limit=replace(limit, direction=AT_LEAST) if limit else None,
    )


_DMA_BUF_SINCE = "5.12"  # Linux 5.12: RDMA takes memory regions from dma-buf
_BACKPORTS = re.compile(r"\.el[78]")  # 4.18 of RHEL 8 has the RDMA code of later kernels, by its minor release


def judge_dma_buf(
    verdicts: Verdicts,
    kernel: Known[str],
    *,
    why: str = "nvidia_peermem not loaded",
    action: str = "modprobe nvidia_peermem, and load it at boot",
) -> None:
    """Whether the kernel lets NICs use the memory that the open kernel module exports; `why` it has to."""
    whose = software("GPUDirect RDMA")
    if isinstance(kernel, Unknown) or not parts(kernel):
        reason = kernel if isinstance(kernel, Unknown) else f"{kernel!r} is not a version"
        verdicts.unknown(part=whose, quantity="kernel version", reason=reason)
    elif not older(kernel, _DMA_BUF_SINCE):
        verdicts.passed(part=whose, text="the open kernel module exports GPU memory by dma-buf")
    else:
        unsure = bool(_BACKPORTS.search(kernel))
        verdicts.found(
            Verdict.NOT_JUDGED if unsure else Verdict.FAIL,
            part=whose,
            text=f"{why}, and Linux {kernel} is older than dma-buf for RDMA ({_DMA_BUF_SINCE})",
            note="the distribution may have backported it to this kernel" if unsure else "",
            action=action,
            quantity="kernel version",
            observed=kernel,
            code="old kernel",
        )
