"""Kernel messages with their time, from whatever source the node gave. Section `kernel_log`."""

from __future__ import annotations

from dataclasses import dataclass

from nodegate.unknown import Known


@dataclass(frozen=True)
class KernelLine:
    """One message without its prefix. `epoch_s` is unknown where the prefix has no time or only seconds since boot
    and the boot time is unknown."""

    text: str
    epoch_s: Known[float]


@dataclass(frozen=True)
class KernelLog:
    """The interesting kernel messages, oldest first.

    `since_epoch_s` is how far back the log reaches: before it nothing is known. `boot_epoch_s` is the start of the
    present boot; a message before it belongs to an earlier one. `dropped` lines did not fit the size limit.
    """

    source: str
    lines: tuple[KernelLine, ...]
    since_epoch_s: Known[float]
    boot_epoch_s: Known[float]
    dropped: int
