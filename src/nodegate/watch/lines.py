"""Lines out of a stream of bytes, bounded; the time and the sender at the start of a line."""

import re
from collections.abc import Iterator
from datetime import datetime
from typing import NamedTuple

MOST_BYTES = 16_384  # of one line; the rest of a longer one is dropped

_CLOCK = r"([0-9]{2}:[0-9]{2}:[0-9]{2})"
_TIME = re.compile(rf"([0-9]{{4}})[-/]([0-9]{{2}})[-/]([0-9]{{2}})[ T]{_CLOCK}")
_TIME_US = re.compile(rf"(?<![0-9])([0-9]{{2}})/([0-9]{{2}})/([0-9]{{4}})[ T]{_CLOCK}")  # HF examples, Megatron forks
_TIME_GLOG = re.compile(rf"(?:^|[\s\]:\[])[IWEF]([0-9]{{1,2}})([0-9]{{2}}) {_CLOCK}\.[0-9]")  # PyTorch's C++: no year
_TIME_SYSLOG = re.compile(
    rf"(?:^|[\s\[])(Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) {{1,2}}([0-9]{{1,2}}) {_CLOCK}"
)
_MONTHS = {
    name: number
    for number, name in enumerate(
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"], 1
    )
}
_COLOUR = re.compile(r"\x1b\[[0-9;]{0,20}m")
_SENDER = re.compile(r"\s{0,8}\[?([A-Za-z0-9][A-Za-z0-9_.-]{0,62})\]?:(?=[\s\[])")  # srun -l, pdsh, kubectl, torchrun
_RECORD_ENDS = ("]", "}", "|")


class LineSplitter:
    """Cuts at line feeds and at carriage returns, which progress bars write; keeps at most MOST_BYTES of a line."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> Iterator[str]:
        """The lines that are complete with these bytes, the empty ones left out."""
        parts = data.replace(b"\r", b"\n").split(b"\n")
        parts[0] = self._rest + parts[0]
        self._rest = parts.pop()[:MOST_BYTES]
        for part in parts:
            if part:
                yield _decoded(part)

    def end(self) -> Iterator[str]:
        """The text after the last line end, if it is complete: a number that is cut in two must not be read."""
        text = _decoded(self._rest)
        self._rest = b""
        if text.rstrip().endswith(_RECORD_ENDS):
            yield text


def _decoded(line: bytes) -> str:
    return line[:MOST_BYTES].replace(b"\0", b"").decode("utf-8", errors="replace")


class Stamp(NamedTuple):
    """The time that a line carries: as written (without fractions) and in seconds, for differences only."""

    text: str
    s: float


def stamp(line: str, before: Stamp | None = None) -> Stamp | None:
    """The time in the first 120 characters of a line; one without a year gets the year of the time before it."""
    if found := _TIME.search(line, 0, 120):
        return _moment(found[1], found[2], found[3], found[4])
    if found := _TIME_US.search(line, 0, 120):
        return _moment(found[3], found[1], found[2], found[4])
    if before is None:
        return None
    if found := _TIME_GLOG.search(line, 0, 120):
        month, day, clock = found[1], found[2], found[3]
    elif found := _TIME_SYSLOG.search(line, 0, 120):
        month, day, clock = str(_MONTHS[found[1]]), found[2], found[3]
    else:
        return None
    year = int(before.text[:4])
    near = (_moment(str(each), month, day, clock) for each in (year, year + 1, year - 1))
    return min((each for each in near if each), key=lambda each: abs(each.s - before.s), default=None)


def _moment(year: str, month: str, day: str, clock: str) -> Stamp | None:
    text = f"{year}-{month:0>2}-{day:0>2} {clock}"
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return Stamp(text, (moment - datetime(1970, 1, 1)).total_seconds())  # noqa: DTZ001 - a log's own clock has no zone


def plain(line: str) -> str:
    """The line without the colours of a terminal."""
    return _COLOUR.sub("", line) if "\x1b" in line else line


def sender(line: str) -> str:
    """The rank or node that a launcher wrote before the line (`3: `, `gpu07: `, `[default3]:`); empty where none."""
    found = _SENDER.match(line)
    return found[1] if found else ""
