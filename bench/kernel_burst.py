"""How long a burst of Xids takes to read and fold, and how much memory: python bench/kernel_burst.py [LINES]."""

from __future__ import annotations

import resource
import sys
import time
from typing import TYPE_CHECKING

from nodegate.kernel_log.gpu_faults import faults_of
from nodegate.kernel_log.window import LogWindow
from nodegate.probe.kernel_log import parse_line
from nodegate.profile import Profile

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nodegate.probe.kernel_log import KernelLine

KINDS = 29
NOW_S = 1_795_000_000.0
UP_S = 86400.0


def lines(count: int) -> Iterator[KernelLine]:
    """Uncontained memory errors of one GPU, a thousand a second, as dmesg prints them."""
    for number in range(count):
        kind = number % KINDS
        text = f"Uncontained: LTC TAG (0x{kind:x},0x{kind % 4:x}). RST: Yes, D-RST: No"
        line = f"[{3600 + number / 1000:12.6f}] NVRM: Xid (PCI:0000:9b:00): 95, pid={4000 + kind}, name=python3, {text}"
        yield parse_line(line, now_epoch_s=NOW_S, boot_epoch_s=NOW_S - UP_S)


def main() -> None:
    count = int(sys.argv[1] if len(sys.argv) > 1 else "800000")
    window = LogWindow(now_s=NOW_S, boot_s=NOW_S - UP_S, window_h=24.0, profile=Profile.DELIVERY)
    started = time.perf_counter()
    faults = faults_of(lines(count), window, {})
    took_s = time.perf_counter() - started
    peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{count} lines of {KINDS} kinds: {len(faults)} fault, {took_s:.1f} s, {peak_mib:.0f} MiB at most")
    print(faults[0].message)


if __name__ == "__main__":
    main()
