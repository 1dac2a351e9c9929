"""Section `kernel_log`: kernel messages about hardware, drivers, links, memory or storage; the newest are kept.

Sources in the order of their content: the journal (all boots it has), /dev/kmsg (this boot, as far as the ring
reaches), dmesg, log files. The first one with kernel messages is used; the results of the others are in `tried`.
"""

import os
import re
import time
from datetime import datetime
from typing import Callable, Dict, List, Optional, Tuple

from nodegate.node_side.probe import child, commands, files, reading, system

LINE_LIMIT = 1000
MOST_LINES = 2000
BYTES_LIMIT = 300_000
FILE_TAIL_BYTES = 8 << 20
LOG_FILES = ("/var/log/kern.log", "/var/log/messages", "/var/log/syslog")

INTEREST = re.compile(
    # the NVIDIA driver, NVSwitch and NVLink; GPUDirect
    r"NVRM|\bS?Xid\b|nvidia|nvswitch|nvlink|fallen off the bus|gdrdrv"
    # RDMA adapters, links that come and go
    r"|mlx5|infiniband|rdma|\befa\b|\bib[0-9]+\b|\bibp[0-9]|NETDEV WATCHDOG|port module event"
    r"|link (?:is )?(?:not ready|down|up|becomes ready)"
    # PCI Express, its error reporting, and what translates its addresses
    r"|pcieport|\bAER\b|PCIe Bus Error|PCIe link|limited by|DPC:|(?:iommu|DMAR).*\bfault|IO_PAGE_FAULT"
    # memory that ran out
    r"|out of memory|oom-kill|oom_reaper|killed process|page allocation failure|file-max limit"
    # a kernel that is stuck or broken
    r"|hung task|blocked for more than|(?:soft|hard) lockup|rcu.*stall|kernel BUG|\bOops\b|Call Trace|kernel panic"
    # the machine: memory controllers, heat, power
    r"|\bMCE\b|machine check|hardware error|\bEDAC\b|GHES|above threshold|thermal shutdown|throttl|power supply"
    # storage
    r"|I/O error|\bnvme|\bmd/raid|\bmd[0-9]+:"
    r"|remounting filesystem read-only|(?:EXT4|XFS|BTRFS)[- ].*(?:error|corrupt|shut)"
    r"|nfs: server|lustre|\bceph|libceph"
    # programs of jobs that crashed
    r"|segfault at .*(?:libnccl|libcuda|libnvidia|python|pt_main)",
    re.IGNORECASE,
)

_ISO = re.compile(r"(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d)[.,]?(\d*)\s?(Z|[+-]\d\d:?\d\d)")
_SINCE_BOOT = re.compile(r"\[\s*(\d+\.\d+)\]")
_SYSLOG = re.compile(r"([A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d) ")
_OF_KERNEL = re.compile(r"\skernel(?:\[\d+\])?:")
_RECORD = re.compile(r"\d+,\d+,(\d+),[^;]*;(.*)", re.DOTALL)
_OTHER_BOOT = re.compile(r"-- (?:Boot [0-9a-f]{32}|Reboot) --")  # journalctl's line between two boots
_ESCAPE = re.compile(r"\\x([0-9a-f]{2})")

Tried = List[Dict[str, object]]


class _Kept:
    """The newest interesting lines within the limits; the caller says in which direction time runs."""

    def __init__(self, newest_first: bool) -> None:
        self.newest_first = newest_first
        self.seen = 0  # kernel lines of any kind
        self.first: Optional[str] = None
        self.last: Optional[str] = None
        self.dropped = 0
        self.of_this_boot: Optional[int] = None  # how many of the newest ones are known to be
        self._lines: List[str] = []
        self._bytes = 0
        self._start = 0

    def offer(self, line: str) -> None:
        self.seen += 1
        if not line.startswith(" "):  # journalctl prints the other lines of a message below it, without a time stamp
            self.first = line if self.first is None else self.first
            self.last = line
        if not INTEREST.search(line):
            return
        line = line[:LINE_LIMIT]
        size = len(line.encode("utf-8", "replace"))
        if self.newest_first and (len(self._lines) >= MOST_LINES or self._bytes + size > BYTES_LIMIT):
            self._bytes = BYTES_LIMIT  # nothing older is kept once a line was left out: no gaps
            self.dropped += 1
            return
        self._lines.append(line)
        self._bytes += size
        while len(self._lines) - self._start > MOST_LINES or self._bytes > BYTES_LIMIT:
            self._bytes -= len(self._lines[self._start].encode("utf-8", "replace"))
            self._start += 1
            self.dropped += 1

    @property
    def oldest(self) -> str:
        return (self.last if self.newest_first else self.first) or ""

    def lines(self) -> List[str]:
        """Oldest first."""
        return self._lines[::-1] if self.newest_first else self._lines[self._start :]


def read() -> object:
    """The data of the section.

    Raises:
        reading.CannotRead: no source had a kernel message: that is unknown, not clean.
    """
    tried: Tried = []
    for source, reader in _sources():
        try:
            kept = reader()
        except reading.CannotRead as error:
            tried.append(dict(error.reading, source=source))
            continue
        since = _epoch_s(kept.oldest)
        return {
            "source": source,
            "lines": kept.lines(),
            "since_epoch_s": reading.unknown("failed", "no readable time stamp in the oldest line")
            if since is None
            else since,
            "dropped": kept.dropped,
            "of_this_boot": kept.of_this_boot,
            "tried": tried,
        }
    why = "denied" if any(one["why"] == "denied" for one in tried) else "missing"
    detail = "; ".join(f"{one['source']}: {one['detail']}" for one in tried)
    raise reading.CannotRead(reading.unknown(why, detail, tried=tried))


def _sources() -> List[Tuple[str, Callable[[], _Kept]]]:
    sources: List[Tuple[str, Callable[[], _Kept]]] = [("journal", _journal), ("kmsg", _kmsg), ("dmesg", _dmesg)]
    return sources + [("file:" + path, _file_reader(path)) for path in LOG_FILES]


def _journal() -> _Kept:
    """Newest first, so that a long journal loses its oldest part at the time limit, and reports how far it got."""
    boot = files.plain("/proc/sys/kernel/random/boot_id").replace("-", "")
    kernel = ["--no-pager", "-o", "short-iso-precise", "_TRANSPORT=kernel"]
    this_boot = commands.run(["journalctl", *kernel, "-n", "1", "_BOOT_ID=" + boot], limit_s=3.0)
    if all(not line or line.startswith("-- ") for line in this_boot.stdout.splitlines()):  # "-- No entries --"
        raise reading.CannotRead(_no_journal(this_boot.stderr))
    kept = _Kept(newest_first=True)
    try:
        for line in commands.lines(["journalctl", *kernel, "-r"], limit_s=child.remaining_s() * 0.8):
            if not line.startswith("-- "):
                kept.offer(line)
            elif kept.of_this_boot is None and _OTHER_BOOT.match(line):
                kept.of_this_boot = len(kept.lines())
    except reading.CannotRead as error:
        if error.reading["why"] != "timeout" or not kept.seen:
            raise
    if kept.of_this_boot is None:  # it is all of one boot, and that is this one
        kept.of_this_boot = len(kept.lines())
    return _not_empty(kept, "journal")  # vacuumed since the start


def _no_journal(complaint: str) -> reading.Reading:
    said = complaint.strip().replace("\n", " ")[-200:]
    hidden = "not seeing messages" in said or "permission" in said.lower()
    why = "denied" if hidden else "missing"
    return reading.unknown(why, "no kernel message of this boot in the journal" + (": " + said if said else ""))


def _kmsg() -> _Kept:
    kept = _Kept(newest_first=False)
    child.note("/dev/kmsg")
    try:
        fd = os.open(files.rooted("/dev/kmsg"), os.O_RDONLY | os.O_NONBLOCK)
    except OSError as error:
        raise reading.CannotRead(files.os_failure(error, "/dev/kmsg")) from None
    try:
        for record in _records(fd):
            match = _RECORD.match(record)
            if match:
                text = _ESCAPE.sub(_unescaped, match.group(2))
                kept.offer(f"[{int(match.group(1)) / 1e6:12.6f}] {text}")
    finally:
        os.close(fd)
    return _not_empty(kept, "/dev/kmsg")


def _records(fd: int) -> "List[str]":
    """The records of the ring, each without its continuation lines (" KEY=value")."""
    ring = bytearray()
    while child.remaining_s() > 0:
        try:
            chunk = os.read(fd, 8192)
        except BlockingIOError:  # the end of the ring
            break
        except BrokenPipeError:  # overwritten during the read: the next read continues after the gap
            continue
        except OSError as error:
            raise reading.CannotRead(files.os_failure(error, "/dev/kmsg")) from None
        if not chunk:
            break
        ring += chunk
    return [line for line in files.clean(bytes(ring)).split("\n") if line and not line.startswith(" ")]


def _unescaped(match: "re.Match[str]") -> str:
    character = chr(int(match.group(1), 16))
    return character if character.isprintable() else " "


def _dmesg() -> _Kept:
    kept = _Kept(newest_first=False)
    for line in commands.lines(["dmesg"], limit_s=3.0):
        kept.offer(line)
    return _not_empty(kept, "dmesg")


def _file_reader(path: str) -> Callable[[], _Kept]:
    def reader() -> _Kept:
        tail = files.tail(path, FILE_TAIL_BYTES)
        if not isinstance(tail, str):
            raise reading.CannotRead(tail)
        kept = _Kept(newest_first=False)
        lines = tail.split("\n")
        for line in lines[1:] if len(tail) >= FILE_TAIL_BYTES else lines:
            if _OF_KERNEL.search(line):
                kept.offer(line)
        return _not_empty(kept, path)

    return reader


def _not_empty(kept: _Kept, subject: str) -> _Kept:
    if kept.seen:
        return kept
    raise reading.CannotRead(reading.unknown("missing", f"{subject}: it has no kernel message"))


def _epoch_s(line: str) -> Optional[float]:
    """The time of a line from the stamp that it starts with; None when it has none, or a date that does not exist."""
    try:
        return _stamp_s(line)
    except (ValueError, OverflowError):
        return None


def _stamp_s(line: str) -> Optional[float]:
    iso, since_boot, syslog = _ISO.match(line), _SINCE_BOOT.match(line), _SYSLOG.match(line)
    if iso:
        date, clock, fraction, zone = iso.groups()
        zone = "+0000" if zone == "Z" else zone.replace(":", "")
        seconds = datetime.strptime(f"{date} {clock} {zone}", "%Y-%m-%d %H:%M:%S %z").timestamp()
        return seconds + float("0." + (fraction or "0"))
    uptime = system.uptime_s()
    if since_boot and isinstance(uptime, float):
        return time.time() - uptime + float(since_boot.group(1))
    if syslog:
        return without_year_s(syslog.group(1), time.time())
    return None


def without_year_s(stamp: str, now_s: float) -> Optional[float]:
    """The classic syslog stamp in local time: the newest one that is at most a day ahead; None: no such date."""
    year = time.localtime(now_s).tm_year
    for back in range(-1, 9):  # 29 February may be up to eight years ago
        try:
            then = time.mktime(time.strptime(f"{year - back} {stamp}", "%Y %b %d %H:%M:%S"))
        except ValueError:
            continue
        if then <= now_s + 86400:
            return then
    return None
