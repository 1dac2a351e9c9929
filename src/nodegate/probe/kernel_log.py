"""Kernel messages with their time, from the source that the node used, without their prefix. Section `kernel_log`.

The prefix is of any form that dmesg, the journal, syslog, /dev/kmsg and pstore write.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, timezone
from functools import partial
from re import Match

from nodegate.probe import plausible
from nodegate.probe import readings as read
from nodegate.probe.readings import EVIDENCE
from nodegate.text import shown
from nodegate.unknown import Known, Unknown, Why, value_or

ANY_KIND = ""
MAX_LINE = 2000  # characters
_DAY_S = 86400.0
_MONTH = "Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec"
_MONTHS = {name: number for number, name in enumerate(_MONTH.split("|"), 1)}

_DAY = "Mon|Tue|Wed|Thu|Fri|Sat|Sun"
_CLOCK = "([0-9]{2}):([0-9]{2}):([0-9]{2})"
_PROGRAM = r"kernel: |\S+ \S+: "  # what follows the time of a syslog

_KMSG = re.compile(r"([0-9]{1,6}),[0-9]{1,20},([0-9]{1,18}),[^;]{0,40};")
_KMSG_TAG = re.compile(r" (SUBSYSTEM|DEVICE)=")
_LEVELS = ("emerg", "alert", "crit", "err", "warn", "notice", "info", "debug")
_DECODED = re.compile(rf"[a-z0-9]{{3,8}} *:({'|'.join(_LEVELS)}) *: ?")
_PRIORITY = re.compile(r"<([0-9]{1,3})>")
_SINCE_BOOT = re.compile(r"\[ *([0-9]{1,12}\.[0-9]{1,9})\](?: ?\[ *[TC][0-9]{1,10}\])? ?")
# Also with a weekday and the name of a zone (journalctl -o short-full) or in brackets.
_ISO = re.compile(
    rf"\[?(?:(?:{_DAY}) )?([0-9]{{4}})-([0-9]{{2}})-([0-9]{{2}})[T ]{_CLOCK}(?:[.,]([0-9]{{1,9}}))?"
    r" ?(Z|[+-][0-9]{2}:?[0-9]{2})?(?: [A-Z]{3,5}(?= [\w.-]{1,255} \S+: ))?\]?:?\s+"
)
_DMESG_T = re.compile(rf"\[(?:{_DAY}) ({_MONTH}) {{1,2}}([0-9]{{1,2}}) {_CLOCK}(?: [A-Z]{{3,5}})? ([0-9]{{4}})\] ?")
# dmesg -H: the first line of a minute has its date, the others the seconds since the line before.
_DMESG_H = re.compile(
    rf"\[(?:({_MONTH}) ?([0-9]{{1,2}}) ([0-9]{{2}}):([0-9]{{2}})| {{0,8}}\+[0-9]{{1,8}}\.[0-9]{{6}})\] ?"
)
_SYSLOG = re.compile(
    rf"(?:([0-9]{{4}}) )?({_MONTH}) {{1,2}}([0-9]{{1,2}}) (?:([0-9]{{4}}) )?{_CLOCK}(?:\.[0-9]{{1,9}})? (?={_PROGRAM})"
)
_UNIX = re.compile(r"([0-9]{9,11}\.[0-9]{6}) (?=[\w.-]{1,255} \S+: )")  # journalctl -o short-unix
# Both in another language: months are read where they are numbers ("11月").
_ABROAD_MONTH = r"(?:([0-9]{1,2})月|[^\s\[\]:]{1,12})"
_DMESG_T_ABROAD = re.compile(
    rf"\[[^\s\[\]]{{1,12}} {{1,2}}{_ABROAD_MONTH} {{1,2}}([0-9]{{1,2}}) {_CLOCK} ([0-9]{{4}})\] ?"
)
_SYSLOG_ABROAD = re.compile(
    rf"{_ABROAD_MONTH} {{1,2}}([0-9]{{1,2}}|[^\s\[\]:]{{1,12}}) {_CLOCK} (?=(?:\S{{1,255}} )?kernel: )"
)
_FORWARDED = re.compile(rf"kernel: (?=(?:{_MONTH}) )")  # a forwarder put its own prefix before the whole line
_HOST_PROGRAM = re.compile(r"[\w.-]{1,255} (?=[^\s:\[]{1,60}(?:\[[0-9]{1,10}\])?: )")
_FUTURE_GRACE_S = 120.0
_NO_TIME = Unknown(Why.MISSING, "the line has no time")
_RELATIVE = Unknown(Why.MISSING, "the line has only the seconds since the line before it")
_ABROAD = Unknown(Why.MISSING, "the line's month is in a language that is not read")
# The time is followed by "host kernel: "; a driver's own identifier ("host NVRM[12]: ") is text. The journal has
# "host unknown: " if a message came by /dev/kmsg and names no program.
_HOST_KERNEL = re.compile(
    r"(?:[\w.-]{1,255} )?kernel(?:\[[0-9]{1,10}\])?(?:: ?| - \S{1,40} - )|[\w.-]{1,255} unknown: "
)
_HOST_NVRM = re.compile(r"(?:[\w.-]{1,255} )?NVRM(?:\[[0-9]{1,10}\])?: ?")
# What other programs put before a whole line: "gpu01: " (pdsh), "kern.log.1:12:" (grep), "> ".
_FOREIGN = re.compile(
    rf"[^\n]{{0,100}}?[\s:|>0-9](?=\[ {{0,8}}[0-9]{{1,9}}\.[0-9]{{6}}\] |\[(?:{_DAY}) (?:{_MONTH}) "
    rf"|\[?[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}[T ]{_CLOCK}|(?:{_MONTH}) {{1,2}}[0-9]{{1,2}} {_CLOCK}\S{{0,10}} \S+ kernel)"
)


@dataclass(frozen=True)
class KernelLine:
    """One message without its prefix.

    `epoch_s` is unknown if the prefix has no time, or only seconds since boot while the boot time is unknown. `level`
    is the kernel's, 0 (emerg) to 7 (debug); None where the line names none.
    """

    text: str
    epoch_s: Known[float]
    level: int | None = None


@dataclass(frozen=True)
class Lost:
    """Lines of interest that did not fit, the newest of them at `until_epoch_s`; their kind, or `ANY_KIND`."""

    kind: str
    lines: int
    until_epoch_s: Known[float]


@dataclass(frozen=True)
class KernelLog:
    """The interesting kernel messages, oldest first.

    `since_epoch_s` is how far back the log reaches: earlier messages are unknown. `boot_epoch_s` is the start of the
    present boot; a message before it belongs to an earlier one. `lost` lines did not fit the size limit, and `missed`
    messages of this boot were overwritten before they were read. `levels`: whether the lines of level warning and
    above were sent, whoever wrote them; otherwise only what known words name was. None: recorded by a release that
    did not say.
    """

    source: str
    lines: tuple[KernelLine, ...]
    since_epoch_s: Known[float]
    boot_epoch_s: Known[float]
    lost: tuple[Lost, ...] = ()
    missed: int = 0
    levels: bool | None = None

    @property
    def dropped(self) -> int:
        """How many lines did not fit."""
        return sum(lost.lines for lost in self.lost)


def parse(found: Mapping[str, object], *, epoch_s: float, uptime_s: Known[float]) -> KernelLog:
    """The data of section `kernel_log`, with the node's clock and uptime at the time of the probe.

    Raises:
        CannotMeasure: it has no list of lines, or not how many were left out.
    """
    told = read.integer(found, "dropped")
    if isinstance(told, int) and told < 0:
        told = read.wrong("how many lines were left out", told)
    lines = read.needed(read.items(found, "lines"), "kernel log cannot be read", EVIDENCE)
    dropped = read.needed(told, "kernel log cannot be read", EVIDENCE)
    boot = read.mapped(uptime_s, lambda uptime: epoch_s - uptime)
    texts = [line for line in lines if isinstance(line, str)]
    source = value_or(read.text(found, "source"), "unknown")
    parsed = partial(parse_lines, now_epoch_s=epoch_s, boot_epoch_s=boot, names_host=source == "journal")
    first_s = parsed(texts[:1])[0].epoch_s if texts[:1] and texts[0] else Unknown(Why.MISSING, "no line")
    older = max(len(texts) - value_or(read.integer(found, "of_this_boot"), 0), 0)
    return KernelLog(
        source=source,
        lines=(*parsed(texts[:older]), *(_not_before(boot, line) for line in parsed(texts[older:]))),
        since_epoch_s=read.number(found, "since_epoch_s"),
        boot_epoch_s=boot,
        lost=_lost(found, dropped + len(lines) - len(texts), first_s),
        missed=value_or(read.integer(found, "missed"), 0),
        levels=levels if isinstance(levels := found.get("levels"), bool) else None,
    )


def _lost(found: Mapping[str, object], dropped: int, first_s: Known[float]) -> tuple[Lost, ...]:
    """What did not fit, by kind.

    An older release named no kind, and left out what was older than its first line: it may be of any kind.
    """
    told = tuple(
        Lost(value_or(read.text(one, "kind"), ANY_KIND), lines, read.number(one, "until_epoch_s"))
        for one in read.listed(found, "lost")
        if (lines := value_or(read.integer(one, "lines"), 0)) > 0
    )
    rest = dropped - sum(lost.lines for lost in told)
    return (*told, Lost(ANY_KIND, rest, first_s)) if rest > 0 else told


def parse_lines(
    lines: Sequence[str], *, now_epoch_s: float, boot_epoch_s: Known[float], names_host: bool = False
) -> tuple[KernelLine, ...]:
    """Lines of any source, each without its prefix; empty ones left out."""
    made = (
        parse_line(line, now_epoch_s=now_epoch_s, boot_epoch_s=boot_epoch_s, names_host=names_host) for line in lines
    )
    return tuple(line for line in made if line.text)


def _not_before(boot_epoch_s: Known[float], line: KernelLine) -> KernelLine:
    """A line of this boot: a time before the boot means that it was written before the clock was set."""
    if isinstance(boot_epoch_s, Unknown) or isinstance(line.epoch_s, Unknown) or line.epoch_s >= boot_epoch_s:
        return line
    return replace(line, epoch_s=boot_epoch_s)


def parse_line(line: str, *, now_epoch_s: float, boot_epoch_s: Known[float], names_host: bool = False) -> KernelLine:
    """One line of any source; `names_host`: every line names its host and program (the journal).

    Times without a zone (dmesg -T, syslog), or with the name of one, are taken as UTC; a date without a year is the
    newest one that is not in the future, with one day of tolerance for the zone.
    """
    rest = line[:MAX_LINE].rstrip("\r\n")
    if _KMSG_TAG.match(rest):
        return KernelLine("", Unknown(Why.MISSING, "a tag of the message above"))
    level = None
    if match := _DECODED.match(rest):
        level, rest = _LEVELS.index(match[1]), rest[match.end() :]
    if match := _PRIORITY.match(rest):
        level, rest = int(match[1]) & 7, rest[match.end() :]
    when, rest, of_syslog = _dated(_after(_FORWARDED, rest), now_epoch_s)
    if when is None and (match := _KMSG.match(rest)):
        when, rest = _since_boot(float(match[2]) / 1e6, boot_epoch_s, now_epoch_s), rest[match.end() :]
        level = int(match[1]) & 7
    elif when is None and not _SINCE_BOOT.match(rest) and (match := _FOREIGN.match(rest)):
        when, rest, of_syslog = _dated(rest[match.end() :], now_epoch_s)
    bare = _after(_HOST_KERNEL, rest)
    if match := _SINCE_BOOT.match(bare):
        when = _since_boot(float(match[1]), boot_epoch_s, now_epoch_s) if when is None else when
        bare = _after(_HOST_KERNEL, bare[match.end() :])
    if match := _HOST_NVRM.match(bare):
        bare = "NVRM: " + bare[match.end() :]
    elif (names_host or of_syslog) and bare == rest:  # else the rest is the kernel's own text
        bare = _after(_HOST_PROGRAM, bare)
    return KernelLine(shown(bare.rstrip(), MAX_LINE), _NO_TIME if when is None else when, level)


def _dated(line: str, now_epoch_s: float) -> tuple[Known[float] | None, str, bool]:
    """The time of a line that begins with a date (else None), what follows, and whether that names host and program."""
    when: Known[float] | None = None
    of_syslog = False
    if match := _ISO.match(line):
        when = _iso_time(match)
    elif match := _DMESG_T.match(line) or _DMESG_T_ABROAD.match(line):
        month, day, hour, minute, second, year = match.groups()
        number = _month(month)
        when = _ABROAD if number is None else _epoch(int(year), number, int(day), (hour, minute, second))
    elif match := _DMESG_H.match(line):
        when = _newest(match[1], match[2], (match[3], match[4], "0"), now_epoch_s) if match[1] else _RELATIVE
    elif match := _SYSLOG.match(line):
        before, month, day, after, hour, minute, second = match.groups()
        clock, of_syslog = (hour, minute, second), True
        year = before or after
        when = _epoch(int(year), _MONTHS[month], int(day), clock) if year else _newest(month, day, clock, now_epoch_s)
    elif match := _UNIX.match(line):
        when, of_syslog = float(match[1]), True
    elif match := _SYSLOG_ABROAD.match(line):
        when, of_syslog = _newest(match[1], match[2], (match[3], match[4], match[5]), now_epoch_s), True
    return when if when is None else plausible.dated(when), line[match.end() :] if match else line, of_syslog


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
    seconds = whole + float(f"0.{fraction or 0}")
    if not zone or zone == "Z":
        return seconds
    ahead_s = int(zone[1:3]) * 3600.0 + int(zone[-2:]) * 60.0
    return seconds + ahead_s if zone[0] == "-" else seconds - ahead_s


def _month(name: str | None) -> int | None:
    """The number of a month by its English name or its number; None for one of another language."""
    return _MONTHS.get(name) or int(name) if name and (name in _MONTHS or name.isdigit()) else None


def _newest(month: str | None, day: str, clock: tuple[str, str, str], now_epoch_s: float) -> Known[float]:
    """The newest date without a year that is not in the future."""
    number = _month(month)
    if number is None or not day.isdigit():
        return _ABROAD
    try:
        this_year = datetime.fromtimestamp(now_epoch_s, timezone.utc).year
    except (ValueError, OverflowError, OSError):
        return Unknown(Why.FAILED, "the node's clock is not a valid date")
    # 29 February may be up to eight years ago.
    for year in range(this_year + 1, max(this_year - 9, 0), -1):
        when = _epoch(year, number, int(day), clock)
        if not isinstance(when, Unknown) and when <= now_epoch_s + _DAY_S:
            return when
    return Unknown(Why.FAILED, "the line's date does not exist")
