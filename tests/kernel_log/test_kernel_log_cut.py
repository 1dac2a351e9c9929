"""The kernel log: what is gone is never called clean.

Each log is read by the probe's own program, then judged.
"""

import time
from datetime import datetime, timezone

from fleet.machine import EPOCH_S, Machine
from support.judging import fleet_of, judge_one
from support.payload import run_probe

from lab.nodes.tree import NodeTree
from nodegate.node_side.probe.kernel_lines import Kept
from nodegate.profile import Profile
from nodegate.records.verdict import Verdict

XID = "NVRM: Xid (PCI:0000:19:00): 79, pid=1234, name=python, GPU has fallen off the bus."
LINK_UP = "mlx5_core 0000:1a:00.0 ibp26s0: Link up"
APPLICATION = "NVRM: Xid (PCI:0000:3b:00): 13, pid=77, name=python, Graphics Exception: SKEDCHECK05"
HOUR_S = 3600.0


def journal_of(folder, lines):
    """What the probe reads of a journal that has these lines, each so many seconds ago."""
    tree = NodeTree(folder)
    tree.file("/proc/sys/kernel/random/boot_id", "60a9032e-d869-4b77-9dcc-f96d5b0df3ac\n")
    stamped = [
        f"{datetime.fromtimestamp(EPOCH_S - ago_s, timezone.utc):%Y-%m-%dT%H:%M:%S.%f%z} node7 {line}"
        for ago_s, line in lines
    ]
    tree.file("/lines", "\n".join(stamped) + "\n")
    file = tree.path("/lines")
    newest_first, newest = f'*" -r"*) /usr/bin/tac {file};;', f'*"-n 1"*) /usr/bin/tail -n 1 {file};;'
    tree.program("/usr/bin/journalctl", f'case "$*" in *" -p "*) ;; {newest_first} {newest} esac\n')
    return dict(run_probe(sections=["kernel_log"], root=tree.root).data("kernel_log"))


def verdict(check, log, profile=Profile.DELIVERY):
    """What a check says of an HGX H100 node that is healthy but for this log."""
    machine = Machine.hgx_h100()
    machine.sections["kernel_log"] = log
    return judge_one(check, machine, profile=profile).verdict


def test_a_fault_is_not_displaced_by_later_lines(tmp_path):
    boot = [(12.4 * 24 * HOUR_S, f"kernel: {LINK_UP}")]
    for name, line in (("links", LINK_UP), ("programs", APPLICATION)):
        later = [(HOUR_S - number / 10, f"kernel: {line}") for number in range(5000)]
        log = journal_of(tmp_path / name, [*boot, (2 * HOUR_S, f"kernel: {XID}"), *later])
        assert verdict("kernel_log.xid", log) is Verdict.FAIL, name


def test_a_kind_of_which_lines_were_left_out_is_not_called_clean(tmp_path):
    later = [(HOUR_S - number / 10, f"kernel: {LINK_UP}") for number in range(2500)]
    log = journal_of(tmp_path, [(13 * 24 * HOUR_S, "kernel: booting"), *later])
    assert verdict("kernel_log.nic_errors", log) is Verdict.NOT_JUDGED
    assert verdict("kernel_log.xid", log) is Verdict.PASS
    assert verdict("kernel_log.reaches_back", log) is Verdict.WARN


def test_a_log_that_begins_after_the_boot_is_not_called_clean(tmp_path):
    log = journal_of(tmp_path, [(HOUR_S, "kernel: usb 1-1: new device")])
    for check in ("xid", "sxid", "gpu_driver", "pcie_errors", "nic_errors"):
        assert verdict(f"kernel_log.{check}", log) is Verdict.NOT_JUDGED, check
        assert verdict(f"kernel_log.{check}", log, Profile.BOOTCHECK) is Verdict.NOT_JUDGED, check
    assert verdict("kernel_log.reaches_back", log) is Verdict.WARN


def test_messages_that_nobody_read_are_a_gap(tmp_path):
    missed = "systemd-journald[412]: Missed 23 kernel messages"
    log = journal_of(tmp_path, [(13 * 24 * HOUR_S, "kernel: booting"), (HOUR_S, missed), (60.0, f"kernel: {LINK_UP}")])
    assert verdict("kernel_log.xid", log) is Verdict.NOT_JUDGED
    assert verdict("kernel_log.reaches_back", log) is Verdict.WARN


def test_an_error_of_an_unknown_driver_arrives_and_is_judged(tmp_path):
    tree = NodeTree(tmp_path)
    tree.file("/dev/kmsg", "6,1,1000000,-;booted\n3,2,5000000,-;acme_fpga 0000:81:00.0: watchdog expired, engine 3\n")
    log = dict(run_probe(sections=["kernel_log"], root=tree.root).data("kernel_log"))
    machines = {
        name: Machine.hgx_h100(name, number) for number, name in enumerate(("gpu01", "gpu02", "gpu03", "gpu04"), 1)
    }
    machines["gpu01"].sections["kernel_log"] = log
    record = judge_one("fleet_log.unknown_errors", machines["gpu01"], fleet=fleet_of(machines))
    assert record.verdict is Verdict.WARN
    assert "acme_fpga 0000:81:00.0: watchdog expired, engine 3" in record.message


def test_a_long_log_is_searched_quickly():
    """Every dull line is dismissed by its words; the patterns are only tried where a word is there."""
    dull = (
        'audit: type=1400 audit(1763712900.1:12): apparmor="DENIED" operation="open" profile="snap.x" pid=12 comm="x"',
        "[UFW BLOCK] IN=eth0 OUT= MAC=02:00:17:01:00:01 SRC=10.0.0.1 DST=10.0.0.2 LEN=40 TOS=0x00 PREC=0x00 TTL=240",
    )
    lines = [f"2025-11-21T08:15:00+00:00 node7 kernel: [{number:12.6f}] {dull[number % 2]}" for number in range(50_000)]
    kept, begun_s = Kept(newest_first=False), time.process_time()
    for line in lines:
        kept.offer(line)
    assert time.process_time() - begun_s < 2.5
    assert (kept.lines(), kept.seen) == ([], 50_000)
