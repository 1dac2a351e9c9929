"""Lines out of a stream of bytes, bounded; the time and the sender at the start of a line."""

import re
from collections.abc import Iterator
from datetime import datetime
from typing import NamedTuple

MOST_BYTES = 16_384  # of one line; the rest of a longer one is dropped

_CLOCK = r"(?P<clock>[0-9]{2}:[0-9]{2}:[0-9]{2})"
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_DATED = (
    re.compile(rf"(?P<year>[0-9]{{4}})[-/](?P<month>[0-9]{{2}})[-/](?P<day>[0-9]{{2}})[ T]{_CLOCK}"),
    # HF examples, Megatron forks
    re.compile(rf"(?<![0-9])(?P<month>[0-9]{{2}})/(?P<day>[0-9]{{2}})/(?P<year>[0-9]{{4}})[ T]{_CLOCK}"),
)
_WITHOUT_YEAR = (
    re.compile(rf"(?:^|[\s\]:\[])[IWEF](?P<month>[0-9]{{1,2}})(?P<day>[0-9]{{2}}) {_CLOCK}\.[0-9]"),  # PyTorch's C++
    re.compile(rf"(?:^|[\s\[])(?P<month>{'|'.join(_MONTHS)}) {{1,2}}(?P<day>[0-9]{{1,2}}) {_CLOCK}"),
)
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
    found = next((found for form in _DATED if (found := form.search(line, 0, 120))), None)
    if found or before is None:
        return _moment(found["year"], found) if found else None
    found = next((found for form in _WITHOUT_YEAR if (found := form.search(line, 0, 120))), None)
    year = int(before.text[:4])
    near = (_moment(each, found) for each in (year, year + 1, year - 1) if found)
    return min((each for each in near if each), key=lambda each: abs(each.s - before.s), default=None)


def _moment(year: str | int, found: re.Match[str]) -> Stamp | None:
    month = _MONTHS.index(found["month"]) + 1 if found["month"] in _MONTHS else int(found["month"])
    text = f"{year}-{month:02}-{found['day']:0>2} {found['clock']}"
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
