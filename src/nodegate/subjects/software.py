"""Versions compared part by part: 5.15 is newer than 5.5, whatever the letters say."""

import re
from dataclasses import replace

from nodegate.records.finding import AT_LEAST, AnyLimit
from nodegate.records.part import Part, software
from nodegate.records.verdict import Verdict
from nodegate.unknown import Known, Unknown
from nodegate.verdicts import Verdicts

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
