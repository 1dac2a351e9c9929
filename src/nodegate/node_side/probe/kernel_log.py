"""Section `kernel_log`: kernel messages about hardware, drivers, links, memory or storage (`kernel_lines` says which).

With them every message of level warning and above, if the source names levels (files do not).

Sources in the order of their content: the journal (all boots it has), /dev/kmsg (this boot, as far as the ring
reaches), dmesg, log files. The first one with kernel messages is used; the results of the others are in `tried`.
"""

import functools
import os
import re
import time
from datetime import datetime
from typing import Callable, Dict, List, Optional, Tuple

from nodegate.node_side.probe import child, commands, files, reading, system
from nodegate.node_side.probe.kernel_lines import ERR, WARNING, Kept

FILE_TAIL_BYTES = 8 << 20
MOST_LEVELLED = 20_000  # lines of the journal whose level is looked up
LOG_FILES = ("/var/log/kern.log", "/var/log/messages", "/var/log/syslog")

_ISO = re.compile(r"(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d)[.,]?(\d*)\s?(Z|[+-]\d\d:?\d\d)")
_SINCE_BOOT = re.compile(r"\[\s*(\d+\.\d+)\]")
_SYSLOG = re.compile(r"([A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d) ")
_OF_KERNEL = re.compile(r"\skernel(?:\[\d+\])?:")
_RECORD = re.compile(r"(\d+),\d+,(\d+),[^;]*;(.*)", re.DOTALL)
_LEVEL = re.compile(r"<(\d+)>")
_OTHER_BOOT = re.compile(r"-- (?:Boot [0-9a-f]{32}|Reboot) --")  # journalctl's line between two boots
# journald's own message when the kernel's ring buffer ran over before it could read it
_MISSED_ID = "MESSAGE_ID=e9bf28e6e834481bb6f48f548ad13606"
_MISSED = re.compile(r" systemd-journald(?:\[\d+\])?: Missed (\d{1,9}) kernel messages")
_ESCAPE = re.compile(r"\\x([0-9a-f]{2})")


def read() -> object:
    """The data of the section.

    Raises:
        reading.CannotRead: no source had a kernel message: that is unknown, not clean.
    """
    tried: List[Dict[str, object]] = []
    sources: List[Tuple[str, Callable[[], Kept]]] = [("journal", _journal), ("kmsg", _kmsg), ("dmesg", _dmesg)]
    sources += [("file:" + path, functools.partial(_file, path)) for path in LOG_FILES]
    for source, reader in sources:
        try:
            kept = reader()
        except reading.CannotRead as error:
            tried.append(dict(error.reading, source=source))
            continue
        lost = kept.lost()
        return {
            "source": source,
            "lines": kept.lines(),
            "since_epoch_s": _stamp(kept.oldest, "the oldest line"),
            "dropped": sum(one.lines for one in lost),
            "lost": [
                {"kind": one.kind, "lines": one.lines, "until_epoch_s": _stamp(one.newest, "the line")} for one in lost
            ],
            "missed": kept.missed,
            "levels": kept.levels,
            "of_this_boot": kept.of_this_boot,
            "tried": tried,
        }
    why = "denied" if any(one["why"] == "denied" for one in tried) else "missing"
    detail = "; ".join(f"{one['source']}: {one['detail']}" for one in tried)
    raise reading.CannotRead(reading.unknown(why, detail, tried=tried))


def _journal() -> Kept:
    """Newest first, so that a long journal loses its oldest part at the time limit, and reports how far it got."""
    boot = files.plain("/proc/sys/kernel/random/boot_id").replace("-", "")
    form = ["--no-pager", "-o", "short-iso-precise"]
    this_boot = commands.run(["journalctl", *form, "-n", "1", "_TRANSPORT=kernel", "_BOOT_ID=" + boot], limit_s=3.0)
    if all(not line or line.startswith("-- ") for line in this_boot.stdout.splitlines()):  # "-- No entries --"
        said = this_boot.stderr.strip().replace("\n", " ")[-200:]
        why = "denied" if "not seeing messages" in said or "permission" in said.lower() else "missing"
        detail = "no kernel message of this boot in the journal" + (": " + said if said else "")
        raise reading.CannotRead(reading.unknown(why, detail))
    kept = Kept(newest_first=True)
    levels = _levels(form, kept)
    try:
        wanted = ["_TRANSPORT=kernel", "+", _MISSED_ID]
        for line in commands.lines(["journalctl", *form, "-r", *wanted], limit_s=child.remaining_s() * 0.8):
            missed = _MISSED.search(line)
            if missed:
                kept.missed += int(missed.group(1)) if kept.boot_ends is None else 0
            elif not line.startswith("-- "):
                kept.offer(line, levels.get(line))
            elif kept.boot_ends is None and _OTHER_BOOT.match(line):
                kept.boot_ends = kept.seen
    except reading.CannotRead as error:
        if error.reading["why"] != "timeout" or not kept.seen:
            raise
    kept.of_this_boot = kept.lines_of_this_boot()  # all of them, if the journal has but one boot: that is this one
    return _not_empty(kept, "journal")  # vacuumed since the start


def _levels(form: List[str], kept: Kept) -> Dict[str, int]:
    """The newest lines of level warning and above, as the journal writes them: no form of its lines names the level."""
    found: Dict[str, int] = {}
    for level, wanted in ((ERR, f"0..{ERR}"), (WARNING, f"{WARNING}..{WARNING}")):
        argv = ["journalctl", *form, "-r", "-p", wanted, "_TRANSPORT=kernel"]
        seen = 0
        try:
            for line in commands.lines(argv, limit_s=child.remaining_s() * 0.2):
                seen += 1
                if seen <= MOST_LEVELLED:
                    found.setdefault(line, level)
                else:
                    kept.leave_out(line, level)
        except reading.CannotRead:
            return found
    kept.levels = True
    return found


def _kmsg() -> Kept:
    kept = Kept(newest_first=False, levels=True)
    child.note("/dev/kmsg")
    try:
        fd = os.open(files.rooted("/dev/kmsg"), os.O_RDONLY | os.O_NONBLOCK)
    except OSError as error:
        raise reading.CannotRead(files.os_failure(error, "/dev/kmsg")) from None
    try:
        for record in _records(fd, kept):
            match = _RECORD.match(record)
            if match:
                text = _ESCAPE.sub(_unescaped, match.group(3))
                kept.offer(f"[{int(match.group(2)) / 1e6:12.6f}] {text}", int(match.group(1)) & 7)
    finally:
        os.close(fd)
    return _not_empty(kept, "/dev/kmsg")


def _records(fd: int, kept: Kept) -> "List[str]":
    """The records of the ring, each without its continuation lines (" KEY=value"); gaps are counted in `kept`."""
    ring = bytearray()
    while child.remaining_s() > 0:
        try:
            chunk = os.read(fd, 8192)
        except BlockingIOError:  # the end of the ring
            break
        except BrokenPipeError:  # overwritten during the read: the next read continues after the gap
            kept.missed += 1
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


def _dmesg() -> Kept:
    """With the level before each line (-r), where this dmesg has that option."""
    try:
        return _dmesg_lines(["dmesg", "-r"])
    except reading.CannotRead:
        return _dmesg_lines(["dmesg"])


def _dmesg_lines(argv: List[str]) -> Kept:
    kept = Kept(newest_first=False)
    for line in commands.lines(argv, limit_s=3.0):
        match = _LEVEL.match(line)
        kept.levels = kept.levels or match is not None
        kept.offer(line[match.end() :] if match else line, int(match.group(1)) & 7 if match else None)
    return _not_empty(kept, "dmesg")


def _file(path: str) -> Kept:
    tail = files.text(path, FILE_TAIL_BYTES, from_end=True)
    if not isinstance(tail, str):
        raise reading.CannotRead(tail)
    kept = Kept(newest_first=False)
    lines = tail.split("\n")
    for line in lines[1:] if len(tail) >= FILE_TAIL_BYTES else lines:
        if " kernel" in line and _OF_KERNEL.search(line):
            kept.offer(line)
    return _not_empty(kept, path)


def _not_empty(kept: Kept, subject: str) -> Kept:
    if kept.seen:
        return kept
    raise reading.CannotRead(reading.unknown("missing", f"{subject}: it has no kernel message"))


def _stamp(line: str, which: str) -> object:
    try:
        since = _stamp_s(_LEVEL.sub("", line, 1))
    except (ValueError, OverflowError):  # a date that does not exist
        since = None
    return reading.unknown("failed", "no readable time stamp in " + which) if since is None else since


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
