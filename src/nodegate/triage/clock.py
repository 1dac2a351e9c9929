"""The time that a log line prints, in every form that launchers, frameworks and NCCL use."""

# ruff: noqa: RUF001 - Chinese punctuation
import re
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from re import Match

_MONTHS = "Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec"
_CLOCK = r"([0-9]{2})[:：]([0-9]{2})[:：]([0-9]{2})(?:[.,]([0-9]{1,9}))?"
_STAMP = re.compile(
    rf"(?P<iso>([0-9]{{4}})[-/:]([0-9]{{2}})[-/:]([0-9]{{2}})[T _-]{_CLOCK} ?(Z\b|UTC\b|[+-][0-9]{{2}}:?[0-9]{{2}}\b)?)"
    rf"|(?P<glog>(?<![A-Za-z0-9])[IWEF]([0-9]{{1,2}})([0-9]{{2}}) {_CLOCK})"
    rf"|(?P<us>\b([0-9]{{2}})/([0-9]{{2}})/([0-9]{{4}}) {_CLOCK})"
    rf"|(?P<syslog>\b({_MONTHS}) {{1,2}}([0-9]{{1,2}}) {_CLOCK}"
    r"(?: (?:([A-Z]{3,5}|[+-][0-9]{2,4}) )?([0-9]{4})\b)?)"
    rf"|(?P<day>\b([0-9]{{1,2}}) ({_MONTHS}) ([0-9]{{4}}) {_CLOCK}(?: ([AP]M))?"
    r"(?: (UTC\b|GMT\b|[+-][0-9]{2}:?[0-9]{2}\b))?)"
    rf"|(?P<numbers>(?<![0-9/.-])([01][0-9])[-/]([0-3][0-9]) {_CLOCK})"  # vLLM, detectron2
    r"|(?P<epoch>(?<![0-9.])(1[0-9]{9})\.([0-9]{3,9})(?![0-9.]))"  # fluent-bit, UCX, journalctl -o short-unix
    r"|(?P<journal>REALTIME_TIMESTAMP\W{1,6}(1[0-9]{9})([0-9]{6})\b)"
    rf"|(?P<chinese>([0-9]{{4}})年([0-9]{{1,2}})月([0-9]{{1,2}})日 {{0,2}}{_CLOCK})"
)
# In each of these forms; much faster if there is none.
_CLOCK_IN = re.compile("[:：][0-9]{2}[:：][0-9]{2}")
_SECONDS_IN = re.compile("1[0-9]{9}[.0-9]")
# The first group inside each form.
_OFFSETS = {name: number + 1 for name, number in _STAMP.groupindex.items()}
_UTC = ("Z", "UTC", "GMT")
DAY_S = 86_400.0
_BLOCK = 1000  # characters


@dataclass(frozen=True)
class Stamp:
    """A time. If the line names no zone, `zoned` is false and `epoch_s` is its clock read as UTC."""

    epoch_s: float
    zoned: bool


@dataclass(frozen=True)
class Times:
    """Reads the times of a log; to a form without a year it gives the one that fits."""

    now_s: float  # the newest year with which the time is at most a day after this
    near_s: float | None = None  # where it is known: the year with which the time is nearest to this

    def first(self, text: str) -> Stamp | None:
        """The first time in the text; None if it has no valid one."""
        match = _STAMP.search(text) if _may_have(text) else None
        return self.read(match) if match else None

    def last(self, text: str) -> Stamp | None:
        """The last time in the text."""
        found, size = None, _BLOCK
        while found is None and size < 2 * max(len(text), _BLOCK):  # most texts have one in their last lines
            part = text[-size:]
            for match in _STAMP.finditer(part) if _may_have(part) else ():
                found = match
            size *= 8
        return self.read(found) if found else None

    def read(self, match: Match[str]) -> Stamp | None:
        """The time of a match; None if the date does not exist."""
        form = str(match.lastgroup)
        parts = match.groups()[_OFFSETS[form] - 1 :]
        try:
            if form in ("epoch", "journal"):
                return Stamp(float(f"{parts[0]}.{parts[1]}"), zoned=True)
            if form in ("iso", "chinese", "us"):
                year, month, day = (int(part) for part in (parts[:3] if form != "us" else (parts[2], *parts[:2])))
                return _stamp(year, month, day, parts[3:7], parts[7] if form == "iso" else None)
            if form == "day":
                hour = str(int(parts[3]) % 12 + (12 if parts[7] == "PM" else 0)) if parts[7] else parts[3]
                clock = (hour, *parts[4:7])
                return _stamp(int(parts[2]), _month(parts[1]), int(parts[0]), clock, parts[8])
            if form == "syslog" and parts[7]:
                return _stamp(int(parts[7]), _month(parts[0]), int(parts[1]), parts[2:6], _known_zone(parts[6]))
            month = _month(parts[0]) if form == "syslog" else int(parts[0])
            return self._without_year(month, int(parts[1]), parts[2:6])
        except (ValueError, OverflowError):
            return None

    def _without_year(self, month: int, day: int, clock: tuple[str, ...]) -> Stamp | None:
        near_s = self.now_s if self.near_s is None else self.near_s
        year = datetime.fromtimestamp(near_s, timezone.utc).year
        found: list[Stamp] = []
        for back in range(-1, 9):  # 29 February may be up to eight years ago
            with suppress(ValueError):
                found.append(_stamp(year - back, month, day, clock))
        if self.near_s is None:
            found = [stamp for stamp in found if stamp.epoch_s <= self.now_s + DAY_S][:1]
        return min(found, key=lambda stamp: abs(stamp.epoch_s - near_s), default=None)


def _may_have(text: str) -> bool:
    return bool(_CLOCK_IN.search(text) or _SECONDS_IN.search(text))


def dated(text: str) -> float | None:
    """The first time in the text whose form has a year, in seconds since 1970; None if there is none."""
    for match in _STAMP.finditer(text) if _may_have(text) else ():
        of_syslog = match.lastgroup == "syslog" and not match.groups()[_OFFSETS["syslog"] + 6]
        if match.lastgroup not in ("glog", "numbers") and not of_syslog and (stamp := Times(0.0).read(match)):
            return stamp.epoch_s
    return None


def _month(name: str) -> int:
    return _MONTHS.split("|").index(name) + 1


def _known_zone(name: str | None) -> str | None:
    """The zone as an offset or UTC; None for a name that means several (CST is China and Chicago)."""
    if not name or name in _UTC:
        return name
    return f"{name}00" if len(name) == len("+08") and name[1:].isdigit() else name if name[0] in "+-" else None


def _stamp(year: int, month: int, day: int, clock: tuple[str, ...], zone: str | None = None) -> Stamp:
    hour, minute, second = (int(part) for part in clock[:3])
    start = datetime(year, month, day, tzinfo=timezone.utc)
    when = (start + timedelta(hours=hour, minutes=minute, seconds=second)).timestamp()
    return Stamp(when + float(f"0.{clock[3] or 0}") - _zone_s(zone), zoned=zone is not None)


def _zone_s(zone: str | None) -> float:
    if not zone or zone in _UTC:
        return 0.0
    seconds = int(zone[1:3]) * 3600.0 + int(zone[-2:]) * 60.0
    return -seconds if zone[0] == "-" else seconds


def zone_in(text: str) -> float | None:
    """Seconds east of UTC that the first time in the text names; None if it names none."""
    match = _STAMP.search(text) if _may_have(text) else None
    if match is None:
        return None
    form = str(match.lastgroup)
    parts = match.groups()[_OFFSETS[form] - 1 :]
    zone = {"iso": parts[7:8], "day": parts[8:9], "syslog": parts[6:7]}.get(form, (None,))[0]
    zone = _known_zone(zone) if form == "syslog" else zone
    return None if zone is None else _zone_s(zone)


def shown(epoch_s: float | None, *, zone_s: float = 0.0) -> str:
    """A time for people, to the tenth of a second, in the zone of the logs; "-" where it is not known."""
    if epoch_s is None:
        return "-"
    try:
        tenth = round((epoch_s + zone_s) * 10)
        if 0 <= epoch_s < DAY_S:  # no log of computers with GPUs: a time of day, where nothing has a date
            return f"????-??-?? {timedelta(seconds=round(epoch_s * 10) // 10)!s:0>8}.{round(epoch_s * 10) % 10}"
        day = datetime.fromtimestamp(tenth // 10, timezone.utc)
    except (OverflowError, ValueError, OSError):
        return "-"  # no such time
    return f"{day:%Y-%m-%d %H:%M:%S}.{tenth % 10}"


def dated_s(epoch_s: float | None) -> float | None:
    """A time in seconds since 1970; None if it is a time of day without a date."""
    return None if epoch_s is not None and 0 <= epoch_s < DAY_S else epoch_s


def zone_name(zone_s: float) -> str:
    """UTC, UTC+08:00."""
    if not zone_s:
        return "UTC"
    minutes = round(abs(zone_s) / 60)
    return f"UTC{'-' if zone_s < 0 else '+'}{minutes // 60:02}:{minutes % 60:02}"
