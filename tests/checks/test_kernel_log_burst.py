"""A burst of the same Xid is one fault with a count, and costs no memory."""

import tracemalloc

from nodegate.kernel_log.gpu_faults import faults_of
from nodegate.kernel_log.window import LogWindow
from nodegate.probe.kernel_log import KernelLine
from nodegate.profile import Profile

KINDS, LINES = 29, 40_000
MEBIBYTE = 1 << 20


def test_a_burst_is_read_line_by_line():
    texts = [f"NVRM: Xid (PCI:0000:9b:00): 95, pid={n}, name=python3, Uncontained: LTC TAG ({n})" for n in range(KINDS)]
    window = LogWindow(now_s=100_000.0, boot_s=0.0, window_h=24, profile=Profile.DELIVERY)
    tracemalloc.start()
    (fault,) = faults_of((KernelLine(texts[n % KINDS], n / 1000) for n in range(LINES)), window, {})
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (fault.rule.code, fault.count) == (95, LINES)
    assert (fault.first.epoch_s, fault.last.epoch_s) == (0.0, (LINES - 1) / 1000)
    assert peak_bytes < MEBIBYTE
