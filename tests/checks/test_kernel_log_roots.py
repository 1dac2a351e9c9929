"""One root per GPU and incident: what only follows is reported with it, what has its own cause stays a finding."""

import pytest
from fleet.machine import Machine
from support.judging import judge_one

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


@pytest.mark.parametrize(
    ("root", "others", "code"),
    [
        (
            LOST,
            ("119, Timeout after 6s", "120, GSP error", "45, channel 0x8", "62, 0x1", "109, CTX SWITCH TIMEOUT"),
            79,
        ),
        ("48, DBE", ("171, DRAM", "94, Contained", "63, Row Remapper", "45, channel 0x8", "43, channel 0x8"), 48),
        ("95, Uncontained: LTC TAG", ("94, Contained", "63, Row Remapper", "31, MMU Fault"), 95),
        ("94, Contained", ("63, Row Remapper", "45, channel 0x8"), 94),
        ("140, unrecovered", ("45, channel 0x8",), 140),
        ("13, Graphics SM Warp Exception", ("43, channel 0x8", "45, caused by previous Xid 13"), 13),
    ],
)
def test_what_follows_is_reported_with_its_root(root, others, code):
    lines = [(600.0, GPU + root)] + [(599.0 - number, GPU + other) for number, other in enumerate(others)]
    assert findings(*lines) == [("0000:3d:00.0", str(code))]


def test_lines_of_one_memory_error_may_come_before_their_root():
    lines = ((600.0, GPU + "94, Contained"), (599.5, GPU + "63, Row Remapper"), (599.0, GPU + "48, DBE"))
    assert findings(*lines) == [("0000:3d:00.0", "48")]


def test_a_failed_row_remap_stands_for_itself():
    lines = ((600.0, GPU + "48, DBE"), (599.0, GPU + "64, Row Remapper Error"))
    assert findings(*lines) == [("0000:3d:00.0", "48"), ("0000:3d:00.0", "64")]


def test_another_gpu_has_its_own_root():
    lines = ((600.0, GPU + LOST), (599.0, OTHER_GPU + "119, Timeout after 6s"))
    assert findings(*lines) == [("0000:3d:00.0", "79"), ("0000:4e:00.0", "119")]


def test_an_hour_later_is_another_incident():
    lines = ((4200.0, GPU + "48, DBE"), (600.0, GPU + "31, MMU Fault"))
    assert findings(*lines) == [("0000:3d:00.0", "48"), ("0000:3d:00.0", "31")]


def test_a_reset_settles_what_came_before_it_and_nothing_after():
    none = "154, GPU recovery action changed from 0x1 (GPU Reset Required) to 0x0 (None)"
    machine = Machine.hgx_h100()
    for ago_s, line in ((900.0, "62, halted"), (600.0, none), (300.0, "119, Timeout after 6s")):
        machine.kernel(GPU + line, ago_s=ago_s)
    record = judge_one("kernel_log.xid", machine, profile=Profile.BOOTCHECK)
    assert {each.code: each.verdict for each in record.findings} == {"62": Verdict.WARN, "119": Verdict.FAIL}
