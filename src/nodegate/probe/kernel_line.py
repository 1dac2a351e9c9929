"""One kernel message without its prefix: every form that dmesg, the journal, syslog, /dev/kmsg and pstore write."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING

from nodegate.text import shown
from nodegate.unknown import Known, Unknown, Why

if TYPE_CHECKING:
    from re import Match

MAX_LINE = 2000  # characters
_DAY_S = 86400.0
_MONTH = "Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec"
_MONTHS = {name: number for number, name in enumerate(_MONTH.split("|"), 1)}

_KMSG = re.compile(r"([0-9]{1,6}),[0-9]{1,20},([0-9]{1,18}),[^;]{0,40};")
_KMSG_TAG = re.compile(r" (SUBSYSTEM|DEVICE)=")
_LEVELS = ("emerg", "alert", "crit", "err", "warn", "notice", "info", "debug")
_DECODED = re.compile(rf"[a-z0-9]{{3,8}} *:({'|'.join(_LEVELS)}) *: ?")
_PRIORITY = re.compile(r"<([0-9]{1,3})>")
_SINCE_BOOT = re.compile(r"\[ *([0-9]{1,12}\.[0-9]{1,9})\](?: ?\[ *[TC][0-9]{1,10}\])? ?")
_ISO = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})[T ]([0-9]{2}):([0-9]{2}):([0-9]{2})(?:[.,]([0-9]{1,9}))?"
    r" ?(Z|[+-][0-9]{2}:?[0-9]{2})?\s+"
)
_DMESG_T = re.compile(
    rf"\[(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) ({_MONTH}) {{1,2}}([0-9]{{1,2}})"
    r" ([0-9]{2}):([0-9]{2}):([0-9]{2}) ([0-9]{4})\] ?"
)
_SYSLOG = re.compile(rf"({_MONTH}) {{1,2}}([0-9]{{1,2}}) ([0-9]{{2}}):([0-9]{{2}}):([0-9]{{2}}) (?=kernel: |\S+ \S+: )")
_FORWARDED = re.compile(rf"kernel: (?=(?:{_MONTH}) )")  # a forwarder put its own prefix before the whole line
_HOST_PROGRAM = re.compile(r"[\w.-]{1,255} (?=[^\s:\[]{1,60}(?:\[[0-9]{1,10}\])?: )")
_FUTURE_GRACE_S = 120.0
# The time is followed by "host kernel: "; a driver's own identifier ("host NVRM[12]: ") is text. The journal has
# "host unknown: " if a message came by /dev/kmsg and names no program.
_HOST_KERNEL = re.compile(r"(?:[\w.-]{1,255} )?kernel(?:\[[0-9]{1,10}\])?: ?|[\w.-]{1,255} unknown: ")
_HOST_NVRM = re.compile(r"(?:[\w.-]{1,255} )?NVRM(?:\[[0-9]{1,10}\])?: ?")


@dataclass(frozen=True)
class KernelLine:
    """One message without its prefix.

    `epoch_s` is unknown if the prefix has no time, or only seconds since boot while the boot time is unknown. `level`
    is the kernel's, 0 (emerg) to 7 (debug); None where the line names none.
    """

    text: str
    epoch_s: Known[float]
    level: int | None = None


def parse_line(line: str, *, now_epoch_s: float, boot_epoch_s: Known[float], names_host: bool = False) -> KernelLine:
    """One line of any source; `names_host`: every line names its host and program (the journal).

    Times without a zone (dmesg -T, syslog) are taken as UTC; a date without a year is the newest one that is not in
    the future, with one day of tolerance for the zone.
    """
    rest = line[:MAX_LINE].rstrip("\r\n")
    if _KMSG_TAG.match(rest):
        return KernelLine("", Unknown(Why.MISSING, "a tag of the message above"))
    when: Known[float] = Unknown(Why.MISSING, "the line has no time")
    level, rest = _level(rest)
    rest = _after(_FORWARDED, rest)
    if match := _ISO.match(rest):
        when, rest = _iso_time(match), rest[match.end() :]
    elif match := _DMESG_T.match(rest):
        when, rest = _dmesg_time(match), rest[match.end() :]
    elif match := _SYSLOG.match(rest):
        when, rest, names_host = _syslog_time(match, now_epoch_s), rest[match.end() :], True
    elif match := _KMSG.match(rest):
        when, rest = _since_boot(float(match[2]) / 1e6, boot_epoch_s, now_epoch_s), rest[match.end() :]
        level = int(match[1]) & 7
    if match := _HOST_KERNEL.match(rest):
        rest, names_host = rest[match.end() :], False  # the rest is the kernel's own text
    if match := _SINCE_BOOT.match(rest):
        when = when if not isinstance(when, Unknown) else _since_boot(float(match[1]), boot_epoch_s, now_epoch_s)
        rest = rest[match.end() :]
    if match := _HOST_NVRM.match(rest):
        rest = "NVRM: " + rest[match.end() :]
    elif names_host:
        rest = _after(_HOST_PROGRAM, rest)
    return KernelLine(shown(rest.rstrip(), MAX_LINE), when, level)


def _level(line: str) -> tuple[int | None, str]:
    """The level before the line, if one is there, and the rest."""
    level = None
    if match := _DECODED.match(line):
        level, line = _LEVELS.index(match[1]), line[match.end() :]
    if match := _PRIORITY.match(line):
        level, line = int(match[1]) & 7, line[match.end() :]
    return level, line


def _after(prefix: re.Pattern[str], line: str) -> str:
    match = prefix.match(line)
    return line[match.end() :] if match else line


def _since_boot(seconds: float, boot_epoch_s: Known[float], now_epoch_s: float) -> Known[float]:
    if isinstance(boot_epoch_s, Unknown):
        return boot_epoch_s
    if boot_epoch_s + seconds > now_epoch_s + _FUTURE_GRACE_S:
        return Unknown(Why.FAILED, "more seconds since boot than the node's uptime: the line is from another boot")
    return boot_epoch_s + seconds


def _epoch(year: int, month: int, day: int, clock: tuple[str, str, str]) -> Known[float]:
    hour, minute, second = (int(part) for part in clock)
    try:
        day_start = datetime(year, month, day, tzinfo=timezone.utc)
        return (day_start + timedelta(hours=hour, minutes=minute, seconds=second)).timestamp()
    except (ValueError, OverflowError):
        return Unknown(Why.FAILED, "the line's date does not exist")


def _iso_time(match: Match[str]) -> Known[float]:
    year, month, day, hour, minute, second, fraction, zone = match.groups()
    whole = _epoch(int(year), int(month), int(day), (hour, minute, second))
    if isinstance(whole, Unknown):
        return whole
    return whole + float(f"0.{fraction or 0}") - _zone_s(zone)


def _zone_s(zone: str | None) -> float:
    if not zone or zone == "Z":
        return 0.0
    seconds = int(zone[1:3]) * 3600.0 + int(zone[-2:]) * 60.0
    return -seconds if zone[0] == "-" else seconds


def _dmesg_time(match: Match[str]) -> Known[float]:
    month, day, hour, minute, second, year = match.groups()
    return _epoch(int(year), _MONTHS[month], int(day), (hour, minute, second))


def _syslog_time(match: Match[str], now_epoch_s: float) -> Known[float]:
    month, day, *clock = match.groups()
    try:
        this_year = datetime.fromtimestamp(now_epoch_s, timezone.utc).year
    except (ValueError, OverflowError, OSError):
        return Unknown(Why.FAILED, "the node's clock is not a valid date")
    # 29 February may be up to eight years ago.
    for year in range(this_year + 1, max(this_year - 9, 0), -1):
        when = _epoch(year, _MONTHS[month], int(day), (clock[0], clock[1], clock[2]))
        if not isinstance(when, Unknown) and when <= now_epoch_s + _DAY_S:
            return when
    return Unknown(Why.FAILED, "the line's date does not exist")
