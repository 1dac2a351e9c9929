"""One root per GPU and incident: what only follows is reported with it, what has its own cause stays a finding."""

import tracemalloc

import pytest
from fleet.machine import Machine
from support.judging import judge_one

from nodegate.kernel_log.gpu_faults import faults_of
from nodegate.kernel_log.window import LogWindow
from nodegate.probe.kernel_log import KernelLine
from nodegate.profile import Profile
from nodegate.records.verdict import Verdict

GPU = "NVRM: Xid (PCI:0000:3d:00): "
OTHER_GPU = "NVRM: Xid (PCI:0000:4e:00): "
LOST = "79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."


def findings(*lines):
    """PCI address and code of each finding; lines are given with their age in seconds."""
    machine = Machine.hgx_h100()
    for ago_s, line in lines:
        machine.kernel(line, ago_s=ago_s)
    record = judge_one("kernel_log.xid", machine, profile=Profile.BOOTCHECK)
    return [(each.part.pci, each.code) for each in record.findings if each.verdict is not Verdict.PASS]


FOLLOW = (
    (LOST, ("119, Timeout after 6s", "120, GSP error", "45, channel 0x8", "62, 0x1", "109, CTX SWITCH TIMEOUT"), 79),
    ("48, DBE", ("171, DRAM", "94, Contained", "63, Row Remapper", "45, channel 0x8", "43, channel 0x8"), 48),
    ("95, Uncontained: LTC TAG", ("94, Contained", "63, Row Remapper", "31, MMU Fault"), 95),
    ("94, Contained", ("63, Row Remapper", "45, channel 0x8"), 94),
    ("140, unrecovered", ("45, channel 0x8",), 140),
    ("13, Graphics SM Warp Exception", ("43, channel 0x8", "45, caused by previous Xid 13"), 13),
)


@pytest.mark.parametrize(("root", "others", "code"), FOLLOW)
def test_what_follows_is_reported_with_its_root(root, others, code):
    lines = [(600.0, GPU + root)] + [(599.0 - number, GPU + other) for number, other in enumerate(others)]
    assert findings(*lines) == [("0000:3d:00.0", str(code))]


def test_lines_of_one_memory_error_may_come_before_their_root():
    lines = ((600.0, GPU + "94, Contained"), (599.5, GPU + "63, Row Remapper"), (599.0, GPU + "48, DBE"))
    assert findings(*lines) == [("0000:3d:00.0", "48")]


OWN = (
    ((600.0, GPU + "48, DBE"), (599.0, GPU + "64, Row Remapper Error"), "64"),
    ((600.0, GPU + LOST), (599.0, OTHER_GPU + "119, Timeout after 6s"), "119"),
    ((4200.0, GPU + "48, DBE"), (600.0, GPU + "31, MMU Fault"), "31"),
)


@pytest.mark.parametrize(("first", "other", "code"), OWN, ids=["a failed row remap", "another GPU", "an hour later"])
def test_what_has_a_root_of_its_own_stays_a_finding(first, other, code):
    assert [found for _, found in findings(first, other)][1:] == [code]


def test_a_reset_settles_what_came_before_it_and_nothing_after():
    none = "154, GPU recovery action changed from 0x1 (GPU Reset Required) to 0x0 (None)"
    machine = Machine.hgx_h100()
    for ago_s, line in ((900.0, "62, halted"), (600.0, none), (300.0, "119, Timeout after 6s")):
        machine.kernel(GPU + line, ago_s=ago_s)
    record = judge_one("kernel_log.xid", machine, profile=Profile.BOOTCHECK)
    assert {each.code: each.verdict for each in record.findings} == {"62": Verdict.WARN, "119": Verdict.FAIL}


def test_a_burst_is_one_fault_with_a_count_and_is_read_line_by_line():
    kinds, lines = 29, 40_000
    texts = [f"NVRM: Xid (PCI:0000:9b:00): 95, pid={n}, name=python3, Uncontained: LTC TAG ({n})" for n in range(kinds)]
    window = LogWindow(now_s=100_000.0, boot_s=0.0, window_h=24, profile=Profile.DELIVERY)
    tracemalloc.start()
    (fault,) = faults_of((KernelLine(texts[n % kinds], n / 1000) for n in range(lines)), window, {})
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (fault.rule.code, fault.count) == (95, lines)
    assert (fault.first.epoch_s, fault.last.epoch_s) == (0.0, (lines - 1) / 1000)
    assert peak_bytes < 1 << 20
