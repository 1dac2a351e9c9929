"""The kernel log section: which source is used, what is kept, and that no readable log is never a clean log."""

import time

import pytest
from support.payload import run_probe

from lab.nodes.tree import NodeTree
from nodegate.node_side.probe import kernel_log
from nodegate.node_side.probe.kernel_lines import MOST_OF_A_WRITER, Kept, kind_of

XID = "NVRM: Xid (PCI:0000:9b:00): 79, pid=1234, name=python, GPU has fallen off the bus."

INTERESTING = (
    "md/raid1:md0: Disk failure on sda1, disabling device.",
    "md127: Disk failure on sdb2, disabling device.",
    "efa 0000:9f:00.0: Admin queue is closed",
    XID,
    "NVRM: GPU 0000:9b:00.0: GPU has fallen off the bus.",
    "nvidia-nvswitch3: SXid (PCI:0000:05:00.0): 20034, Fatal, Link 30 LTSSM Fault Up",
    "mlx5_core 0000:9c:00.0: 252.056 Gb/s available PCIe bandwidth, limited by 32.0 GT/s PCIe x8 link at 0000:97:01.0",
    "pcieport 0000:00:01.0: AER: Corrected error received: 0000:1b:00.0",
    "Out of memory: Killed process 1234 (python) total-vm:1kB",
    "INFO: task nvidia-smi:991 blocked for more than 120 seconds.",
    "watchdog: BUG: soft lockup - CPU#3 stuck for 26s!",
    "mce: [Hardware Error]: Machine check events logged",
    "EDAC MC0: 1 CE memory read error on CPU_SrcID#0_MC#0",
    "igb 0000:01:00.0 eno1: igb: eno1 NIC Link is Down",
    "blk_update_request: I/O error, dev nvme0n1, sector 123",
    "EXT4-fs (sda1): Remounting filesystem read-only",
    "pt_main_thread[2536443]: segfault at 0 ip 00007f error 4 in libnccl.so.2[7f+1]",
    "VFS: file-max limit 2466177 reached",
    "DMAR: [DMA Write] Request device [9b:00.0] fault addr 0",
    "CPU12: Package temperature above threshold, cpu clock throttled",
    "megaraid_sas 0000:18:00.0: 4711 (s/0x0020/FATAL) - Controller encountered an error and was reset",
    "mpt3sas_cm0: fault_state(0x5854)!",
    "ice 0000:b1:00.0: Failed to set up the link, error -5",
    "NVRM: nvAssertOkFailedNoLog: Assertion failed: Reset required [NV_ERR_RESET_REQUIRED] (0x00000062)",
    "mlx5_core 0000:5c:00.0: mlx5_load_one:1404:(pid 902): handle_hca_cap failed",
    "acme 0000:5c:00.0: the mailbox timed out",
)
DULL = (
    "Command line: BOOT_IMAGE=/vmlinuz root=UUID=1 ro quiet panic=1",
    "iommu: Default domain type: Translated",
    "Speculative Return Stack Overflow: IBPB-extending microcode not applied!",
    "thermal_sys: Registered thermal governor 'step_wise'",
    "audit: type=1400 audit(1763712900.1:12): apparmor=STATUS",
)


@pytest.fixture
def tree(tmp_path):
    tree = NodeTree(tmp_path)
    tree.file("/proc/sys/kernel/random/boot_id", "60a9032e-d869-4b77-9dcc-f96d5b0df3ac\n")
    return tree


def read(tree, **options):
    return run_probe(sections=["kernel_log"], root=tree.root, **options)


def log_of(tree, **options):
    return dict(read(tree, **options).data("kernel_log"))


def journal(tree, lines, *, errors=(), warnings=(), before="", after=""):
    """A journalctl that holds these lines, oldest first, and answers the questions that the probe asks."""
    for name, some in (("/lines", lines), ("/errors", errors), ("/warnings", warnings)):
        tree.file(name, "\n".join(some) + "\n" if some else "")
    levels = " ".join(
        f'*" -r -p {level} "*) /usr/bin/tac {tree.path(name)}; exit 0;;'
        for level, name in (("0..3", "/errors"), ("4..4", "/warnings"))
    )
    before = f'{before}\ncase "$*" in {levels} esac'
    file = tree.path("/lines")
    newest_first, newest = f'*" -r"*) /usr/bin/tac {file};;', f'*"-n 1"*) /usr/bin/tail -n 1 {file};;'
    tree.program("/usr/bin/journalctl", f'{before}\ncase "$*" in {newest_first} {newest} esac\n{after}\n')


@pytest.mark.parametrize("line", INTERESTING)
def test_lines_that_speak_of_trouble_are_kept(line):
    assert kind_of(line)


@pytest.mark.parametrize("line", DULL)
def test_lines_of_an_ordinary_boot_are_not(line):
    assert not kind_of(line)


def test_the_journal_comes_first_and_gives_its_lines_oldest_first(tree):
    stamps = [f"2025-11-2{day}T08:15:00.250000+0100 node7 kernel: " for day in (0, 1)]
    journal(tree, [stamps[0] + "booted", stamps[0] + "mlx5_core: Link down", stamps[1] + XID])
    tree.file("/dev/kmsg", f"4,1,5,-;{XID}\n")
    log = log_of(tree)
    assert (log["source"], log["lines"]) == ("journal", [stamps[0] + "mlx5_core: Link down", stamps[1] + XID])
    assert log["since_epoch_s"] == pytest.approx(1763622900.25)
    assert (log["dropped"], log["tried"]) == (0, [])


@pytest.mark.parametrize("between", ["-- Boot 60a9032ed8694b779dccf96d5b0df3ac --", "-- Reboot --", None])
def test_the_journal_says_which_lines_are_of_this_boot_whatever_their_stamps_say(tree, between):
    earlier, slow_clock, now = (f"2025-11-{day}T08:15:00.000000+0000 node7 kernel: {XID}" for day in (21, 18, 22))
    journal(tree, [earlier, *([between] if between else []), slow_clock, now])
    log = log_of(tree)
    assert (log["lines"], log["of_this_boot"]) == ([earlier, slow_clock, now], 2 if between else 3)


@pytest.mark.parametrize(
    ("journalctl", "detail"),
    [
        ("echo 'No journal files were found.' >&2; exit 1", "No journal files"),
        ('case "$*" in *"-n 1"*) echo "2025-11-21T08:15:00+0000 node7 kernel: emptied";; esac', "no kernel message"),
    ],
)
def test_a_journal_without_this_boot_is_passed_over(tree, journalctl, detail):
    tree.program("/usr/bin/journalctl", f"{journalctl}\n")
    tree.file("/dev/kmsg", f"6,1,5000000,-;{XID}\n SUBSYSTEM=pci\n6,2,6000000,-;usb 1-1: new device\n")
    log = log_of(tree)
    assert (log["source"], log["of_this_boot"]) == ("kmsg", None)
    assert log["lines"] == [f"[    5.000000] {XID}"]
    assert log["since_epoch_s"] == pytest.approx(time.time() - 86400.5 + 5, abs=30)
    assert [(one["source"], one["why"]) for one in log["tried"]] == [("journal", "missing")]
    assert detail in log["tried"][0]["detail"]


def test_a_journal_that_hides_the_system_from_this_login_is_denied(tree):
    hint = "Hint: You are currently not seeing messages from other users and the system."
    tree.program("/usr/bin/journalctl", f"echo '{hint}' >&2; echo '-- No entries --'\n")
    assert read(tree).section("kernel_log")["why"] == "denied"


def test_a_journal_that_is_longer_than_its_time_keeps_the_newest_and_says_how_far_it_got(tree):
    lines = [f"2025-11-21T08:{minute:02d}:00.000000+0000 node7 kernel: {XID}" for minute in range(10)]
    journal(tree, lines, after='case "$*" in *" -r"*) exec /bin/sleep 60;; esac')
    log = log_of(tree, limits_s={"kernel_log": 5.0})
    assert (log["source"], log["lines"]) == ("journal", lines)
    assert log["since_epoch_s"] == pytest.approx(1763712000.0)


def test_a_message_of_two_lines_hides_not_how_far_the_journal_reaches(tree):
    stamps = [f"2025-11-21T08:{minute:02d}:00.000000+0000 node7 kernel: " for minute in (0, 1)]
    journal(tree, [" " * len(stamps[0]) + "second line", stamps[0] + "first line", stamps[1] + XID])  # read backwards
    log = log_of(tree)
    assert log["lines"] == [stamps[1] + XID]
    assert log["since_epoch_s"] == pytest.approx(1763712000.0)


def test_only_the_newest_lines_stay_within_the_limits(tree):
    lines = [f"2025-11-21T08:00:00.000000+0000 node7 kernel: NVRM: line {number}" for number in range(2500)]
    journal(tree, lines)
    log = log_of(tree)
    assert 600 < len(log["lines"]) <= 800
    assert log["lines"] == lines[-len(log["lines"]) :]
    assert log["dropped"] == 2500 - len(log["lines"])
    assert log["lost"] == [{"kind": "nvidia", "lines": log["dropped"], "until_epoch_s": 1763712000.0}]


@pytest.mark.parametrize("newest_first", [True, False])
def test_one_kind_of_lines_takes_no_room_from_another(newest_first):
    """The first fault of each GPU and code stays, however many lines come after it, and the order is kept."""
    others = [XID.replace("79, pid=1234", f"13, pid={number}") for number in range(3000)]
    lines = [f"[{number:5d}.0] {line}" for number, line in enumerate([XID, *others, *["mlx5: Link up"] * 3000])]
    kept = Kept(newest_first)
    for line in reversed(lines) if newest_first else lines:
        kept.offer(line)
    assert kept.lines() == sorted(kept.lines())
    assert kept.lines()[0] == lines[0]
    assert {line for line in kept.lines() if "Xid" in line} >= {lines[0], lines[1], lines[3000]}
    assert kept.lines()[-1] == lines[-1]
    assert [(lost.kind, lost.lines) for lost in kept.lost()] == [("network", 2200)]
    assert kept.lost()[0].newest == lines[-801]


def test_more_kinds_of_xids_than_fit_are_counted():
    kept = Kept(newest_first=True)
    for number in range(300):
        kept.offer(XID.replace("0000:9b", f"{number:04x}:9b"))
    assert [(lost.kind, lost.lines) for lost in kept.lost()] == [("xid", 172)]
    assert "008" in kept.lost()[0].newest


def test_what_the_journal_missed_in_this_boot_is_counted(tree):
    own = "2025-11-21T08:15:00.000000+0000 node7 systemd-journald[412]: Missed {} kernel messages"
    line = f"2025-11-21T08:15:00.000000+0000 node7 kernel: {XID}"
    journal(tree, [line, own.format(7), "-- Boot 60a9032ed8694b779dccf96d5b0df3ac --", own.format(23), line])
    log = log_of(tree)
    assert (log["missed"], log["lines"], log["of_this_boot"]) == (23, [line, line], 1)


def test_what_was_overwritten_in_the_ring_while_it_was_read_is_counted(monkeypatch):
    answers: list[bytes | OSError] = [b"4,1,5,-;mlx5\n", BrokenPipeError(), b"4,9,9,-;mlx5\n", BlockingIOError()]

    def read(fd, size):
        answer = answers.pop(0)
        if isinstance(answer, OSError):
            raise answer
        return answer

    monkeypatch.setattr(kernel_log.os, "read", read)
    kept = Kept(newest_first=False)
    assert len(kernel_log._records(0, kept)) == 2
    assert kept.missed == 1


def test_the_ring_buffer_is_bounded_and_escaped_bytes_cannot_forge_a_line(tree):
    forged = "6,1000,1000000000,-;NVRM: name=a\\x0aNVRM: Xid\\x1b[31m\n"
    tree.file("/dev/kmsg", "".join(f"6,{n},{n}000000,-;NVRM: {n} {'x' * 1500}\n" for n in range(1000)) + forged)
    log = log_of(tree)
    assert sum(len(line) for line in log["lines"]) <= 300_000
    assert max(len(line) for line in log["lines"]) == 1000
    assert log["lines"][-2].startswith("[  999.000000] NVRM: 999 ")
    assert [line for line in log["lines"] if "Xid" in line] == ["[ 1000.000000] NVRM: name=a NVRM: Xid [31m"]
    assert log["lost"][0]["kind"] == "nvidia"


UNKNOWN = "acme_fpga 0000:81:00.0: watchdog expired, engine 3"
PREFIX = "2025-11-21T08:{:02d}:00.000000+0000 node7 kernel: "


def test_a_warning_of_an_unknown_driver_arrives_from_the_journal_with_its_level(tree):
    lines = [PREFIX.format(0) + "usb 1-1: new device", PREFIX.format(1) + UNKNOWN, PREFIX.format(2) + "acme: gone"]
    journal(tree, lines, errors=lines[2:], warnings=lines[1:2])
    log = log_of(tree)
    assert log["lines"] == ["<4>" + lines[1], "<3>" + lines[2]]
    assert (log["levels"], log["dropped"]) == (True, 0)


def test_a_journal_that_does_not_tell_levels_in_time_says_so(tree):
    lines = [PREFIX.format(0) + XID, PREFIX.format(1) + UNKNOWN]
    journal(tree, lines, before='case "$*" in *" -p "*) echo "unknown option" >&2; exit 1;; esac')
    log = log_of(tree)
    assert (log["lines"], log["levels"]) == (lines[:1], False)


@pytest.mark.parametrize(("priority", "sent"), [(4, True), (28, True), (5, False), (30, False)])
def test_a_warning_of_an_unknown_driver_arrives_from_the_ring(tree, priority, sent):
    tree.file("/dev/kmsg", f"6,1,1,-;booted\n{priority},2,5000000,-;{UNKNOWN}\n")
    log = log_of(tree)
    assert log["lines"] == ([f"<{priority & 7}>[    5.000000] {UNKNOWN}"] if sent else [])
    assert log["levels"] is True


def test_dmesg_gives_the_levels_if_it_can(tree):
    tree.program("/usr/bin/dmesg", f'[ "$1" = -r ] && echo "<6>[    1.0] boot" && echo "<4>[    5.0] {UNKNOWN}"')
    log = log_of(tree)
    assert (log["source"], log["lines"], log["levels"]) == ("dmesg", [f"<4>[    5.0] {UNKNOWN}"], True)
    tree.program("/usr/bin/dmesg", f'[ "$1" = -r ] && exit 1; echo "[    4.0] {XID}"; echo "[    5.0] {UNKNOWN}"')
    log = log_of(tree)
    assert (log["source"], log["lines"], log["levels"]) == ("dmesg", [f"[    4.0] {XID}"], False)


@pytest.mark.parametrize("newest_first", [True, False])
def test_a_firewall_that_logs_every_packet_hides_no_warning_of_a_driver(newest_first):
    noise = ("[UFW BLOCK] IN=eth0 OUT= MAC=02:00", "ACPI Exception: AE_NOT_EXIST, Evaluating _PMM", "audit: rate limit")
    lines = [f"[{number:5d}.0] {noise[number % 3]}" for number in range(6000)]
    lines[3] = f"[    3.0] {UNKNOWN}"
    kept = Kept(newest_first)
    for line in reversed(lines) if newest_first else lines:
        kept.offer(line, 4)
    assert kept.lines()[0] == "<4>" + lines[3]
    assert len(kept.lines()) == 1 + 3 * MOST_OF_A_WRITER
    assert {lost.kind: lost.lines for lost in kept.lost()} == {"firmware": 4000 - 80, "warning": 1999 - 40}
    assert {lost.newest for lost in kept.lost()} == {"<4>" + lines[-3 * 40 - 1], "<4>" + lines[-3 * 40 - 3]}


def test_however_many_writers_warn_the_lines_stay_bounded_and_the_rest_is_counted():
    kept = Kept(newest_first=True)
    for number in range(5000):
        kept.offer(f"[{number:5d}.0] driver_{'x' * (number % 500)} says {'y' * 400}", 4)
    assert sum(len(line) for line in kept.lines()) < 33 * 4000
    (lost,) = kept.lost()
    assert (lost.kind, lost.lines + len(kept.lines())) == ("warning", 5000)


@pytest.mark.parametrize("file", ["/var/log/kern.log", "/var/log/messages"])
def test_dmesg_and_then_files_are_the_last_resort(tree, file):
    tree.program("/usr/bin/dmesg", "echo 'dmesg: read kernel buffer failed: Operation not permitted' >&2; exit 1\n")
    written_s = time.time() - 86400
    classic = time.strftime("%b %e %H:%M:%S", time.localtime(written_s))
    stamp, since_s = (classic, written_s) if "messages" in file else ("2025-11-21T08:15:00.5+00:00", 1763712900.5)
    tree.file(file, f"{stamp} node7 kernel: [    1.0] {XID}\n2025 x sshd: mlx5\n")
    log = log_of(tree)
    assert log["source"] == f"file:{file}"
    assert len(log["lines"]) == 1
    assert log["since_epoch_s"] == pytest.approx(since_s, abs=2)
    tried = [("journal", "missing"), ("kmsg", "missing"), ("dmesg", "denied")]
    assert [(one["source"], one["why"]) for one in log["tried"]][:3] == tried


@pytest.mark.parametrize(
    ("stamp", "now", "then"),
    [
        ("Mar 24 08:15:00", "2027-03-04", "2026-03-24 08:15:00"),
        ("Dec 31 23:59:59", "2027-01-01", "2026-12-31 23:59:59"),
        ("Jan  1 00:00:00", "2026-12-31", "2027-01-01 00:00:00"),
        ("Feb 29 08:15:00", "2103-12-31", "2096-02-29 08:15:00"),
        ("Feb 29 08:15:00", "2027-03-04", "2024-02-29 08:15:00"),
        ("Feb 30 08:15:00", "2027-03-04", None),
    ],
)
def test_a_stamp_without_a_year_is_the_newest_that_lies_not_over_a_day_ahead(stamp, now, then):
    found = kernel_log.without_year_s(stamp, time.mktime(time.strptime(now, "%Y-%m-%d")))
    assert found == (None if then is None else time.mktime(time.strptime(then, "%Y-%m-%d %H:%M:%S")))


def test_an_oldest_line_of_a_date_that_does_not_exist_costs_no_message(tree):
    journal(tree, [f"2025-13-41T08:00:00.000000+0000 node7 kernel: {XID}"])
    log = log_of(tree)
    assert len(log["lines"]) == 1
    assert log["since_epoch_s"]["why"] == "failed"


def test_no_readable_log_is_an_answer_of_its_own_never_an_empty_log(tree):
    tree.program("/usr/bin/dmesg", "echo 'Operation not permitted' >&2; exit 1\n")
    section = read(tree).section("kernel_log")
    assert section["why"] == "denied"
    for source in ("journal", "kmsg", "dmesg", "file:/var/log/kern.log"):
        assert source in section["detail"]
