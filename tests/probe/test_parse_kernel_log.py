"""Kernel messages lose their prefix and gain their time, whatever wrote them."""

import pytest
from fleet.machine import EPOCH_S

from nodegate.errors import CannotMeasure
from nodegate.probe.kernel_log import parse, parse_line
from nodegate.unknown import Unknown, Why

BOOT_S = EPOCH_S - 1_000_000.0
XID = "NVRM: Xid (PCI:0000:9b:00): 79, pid=1234, name=python, GPU has fallen off the bus."
LINK = "mlx5_core 0000:3b:00.0 ib0: Link down"


@pytest.mark.parametrize(
    ("line", "text", "epoch_s"),
    [
        (f"[12345.678901] {XID}", XID, BOOT_S + 12345.678901),
        (f"[12345.678901] [  T1234] {LINK}", LINK, BOOT_S + 12345.678901),
        (f"[Sun Feb 23 16:24:18 2025] {XID}", XID, 1740327858.0),
        (f"2025-01-21T04:41:44,285060+00:00 {LINK}", LINK, 1737434504.28506),
        (f"kern  :warn  : 2025-01-21T04:41:44,285060+00:00 {XID}", XID, 1737434504.28506),
        (f"2026-11-21T08:15:00.123456+0000 gpu0001 kernel: {XID}", XID, EPOCH_S + 0.123456),
        (f"2026-11-21T03:45:00-04:30 gpu0001 kernel: [99.5] {LINK}", LINK, EPOCH_S),
        ("2026-11-21T08:15:00+0000 gpu0001 NVRM[77]: Xid (PCI:0000:9b:00): 31",
         "NVRM: Xid (PCI:0000:9b:00): 31", EPOCH_S),
        (f"2026-11-21T08:15:00+0000 gpu0001 unknown: {LINK}", LINK, EPOCH_S),
        (f"Nov 21 08:14:59 gpu0001 kernel: [12345.6] {XID}", XID, EPOCH_S - 1),
        (f"Nov 21 08:14:59 kernel: {LINK}", LINK, EPOCH_S - 1),
        (f"kernel: Nov 21 08:14:59 kernel: {LINK}", LINK, EPOCH_S - 1),
        ("Nov  1 08:15:00 gpu0001 systemd-networkd[2385]: ib1: Lost carrier",
         "systemd-networkd[2385]: ib1: Lost carrier", EPOCH_S - 20 * 86400),
        (f"6,3973,227996636,-;{XID}", XID, BOOT_S + 227.996636),
        (f"4,3973,227996636,c,caller=T77;{XID}", XID, BOOT_S + 227.996636),
        (f"<4>[   12.3] {XID}", XID, BOOT_S + 12.3),
        # the other outputs of journalctl: short-precise, short-full, short-unix, short-monotonic
        (f"Nov 21 08:14:59.250000 gpu0001 kernel: {XID}", XID, EPOCH_S - 1),
        (f"Sat 2026-11-21 08:15:00 UTC gpu0001 kernel: {XID}", XID, EPOCH_S),
        (f"1795248900.500000 gpu0001 kernel: {LINK}", LINK, 1795248900.5),
        (f"[12345.678901] gpu0001 kernel: {LINK}", LINK, BOOT_S + 12345.678901),
        # a year in a syslog, a forwarded message of RFC 5424, a zone in dmesg -T, a time in brackets
        (f"Nov 21 2026 08:15:00 gpu0001 kernel: {LINK}", LINK, EPOCH_S),
        (f"2026 Nov 21 08:15:00 gpu0001 kernel: {LINK}", LINK, EPOCH_S),
        (f"<3>1 2026-11-21T08:15:00Z gpu0001 kernel - - - {XID}", XID, EPOCH_S),
        (f"[Sat Nov 21 08:15:00 CST 2026] {LINK}", LINK, EPOCH_S),
        (f"gpu0001: kern:     err: [2026-11-21T08:15:00Z]: {XID}", XID, EPOCH_S),
        # dmesg -H and dates in Chinese, whose months are numbers
        (f"[Nov21 08:15] {XID}", XID, EPOCH_S),
        (f"[六 11月 21 08:15:00 2026] {XID}", XID, EPOCH_S),
        (f"11月 21 08:14:59 gpu0001 kernel: {LINK}", LINK, EPOCH_S - 1),
        # what other programs put before the line
        (f"gpu0001: [12345.678901] {XID}", XID, BOOT_S + 12345.678901),
        (f"gpu0001 | [Sat Nov 21 08:15:00 2026] {XID}", XID, EPOCH_S),
        (f"/var/log/kern.log.1:77:Nov 21 08:14:59 gpu0001 kernel: {XID}", XID, EPOCH_S - 1),
    ],
)  # fmt: skip
def test_every_prefix(line, text, epoch_s):
    found = parse_line(line, now_epoch_s=EPOCH_S, boot_epoch_s=BOOT_S)
    assert found.text == text
    assert found.epoch_s == pytest.approx(epoch_s, abs=1e-5)


@pytest.mark.parametrize(
    ("line", "text"),
    [
        *(  # what looks like a prefix
            (f"2025-01-21T04:41:44,285060+00:00 {text}", text)
            for text in (XID, LINK, "nvme nvme0: I/O 12 QID 3 timeout", "CPU 3: Machine Check Exception")
        ),
        (" SUBSYSTEM=pci", ""),  # a tag of the message above
        ("[1.0] a\x1b[31mb", "a?[31mb"),
    ],
)
def test_a_message_stays_whole(line, text):
    assert parse_line(line, now_epoch_s=EPOCH_S, boot_epoch_s=BOOT_S).text == text


@pytest.mark.parametrize(
    "prefix",
    [
        "",
        "[  +0.000844] ",
        "[Sa Mär 21 08:15:00 2026] ",
        "sept. 21 08:15:00 gpu0001 kernel: ",
        "21 Aug, 08:15:00 h kernel: ",
        "[2000000.5] ",  # more seconds than the node is up: of another boot
    ],
)
def test_a_prefix_whose_time_cannot_be_read_is_put_aside_and_the_time_is_unknown(prefix):
    found = parse_line(prefix + LINK, now_epoch_s=EPOCH_S, boot_epoch_s=BOOT_S)
    assert found.text == LINK
    assert isinstance(found.epoch_s, Unknown)


def test_without_boot_time_seconds_since_boot_say_nothing():
    unknown = Unknown(Why.DENIED, "/proc/uptime")
    assert parse_line(f"[1.5] {XID}", now_epoch_s=EPOCH_S, boot_epoch_s=unknown).epoch_s == unknown


@pytest.mark.parametrize(
    ("date", "epoch_s"),
    [
        ("Dec 24 10:00:00", 1766570400.0),  # 2025
        ("Nov 21 20:00:00", EPOCH_S + 11.75 * 3600),  # a host east of us: within a day of grace
        ("Feb 29 10:00:00", 1709200800.0),  # 2024
    ],
)
def test_a_date_without_year_is_the_newest_that_is_not_in_the_future(date, epoch_s):
    line = f"{date} host kernel: {XID}"
    assert parse_line(line, now_epoch_s=EPOCH_S, boot_epoch_s=BOOT_S).epoch_s == epoch_s


@pytest.mark.parametrize(
    "line", ["[Sun Feb 31 16:24:18 2025] x", "2025-13-01T00:00:00+0000 x", "Feb 30 10:00:00 h kernel: x"]
)
def test_a_date_that_does_not_exist_is_unknown(line):
    found = parse_line(line, now_epoch_s=EPOCH_S, boot_epoch_s=BOOT_S)
    assert (found.text, found.epoch_s) == ("x", Unknown(Why.FAILED, "the line's date does not exist"))


def test_a_line_of_this_boot_that_is_stamped_before_it_was_written_before_the_clock_was_set():
    lines = [f"2026-11-{day}T08:15:00+0000 gpu0001 kernel: {XID}" for day in (17, 18, 21)]
    data = {"source": "journal", "lines": lines, "dropped": 0, "of_this_boot": 2}
    found = parse(data, epoch_s=EPOCH_S, uptime_s=600.0)
    assert [line.epoch_s for line in found.lines] == [EPOCH_S - 4 * 86400, EPOCH_S - 600, EPOCH_S]
    unsaid = parse({**data, "of_this_boot": None}, epoch_s=EPOCH_S, uptime_s=600.0)
    assert unsaid.lines[1].epoch_s == EPOCH_S - 3 * 86400


@pytest.mark.parametrize(
    ("more", "said"), [({"dropped": -1}, "expected how many lines were left out"), ({}, "the node sent no dropped")]
)
def test_how_many_lines_were_left_out_must_be_known(more, said):
    with pytest.raises(CannotMeasure, match=said):
        parse({"lines": [], **more}, epoch_s=EPOCH_S, uptime_s=1.0)


def test_lines_that_are_no_text_count_as_left_out():
    assert parse({"lines": ["[1.0] a", 7], "dropped": 3}, epoch_s=EPOCH_S, uptime_s=9.0).dropped == 4
