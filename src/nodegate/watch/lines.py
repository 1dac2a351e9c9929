"""Lines out of a stream of bytes, bounded; the time and the sender at the start of a line."""

from __future__ import annotations

import re
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

MOST_BYTES = 16_384  # of one line; the rest of a longer one is dropped

_TIME = re.compile(r"([0-9]{4}-[0-9]{2}-[0-9]{2})[ T]([0-9]{2}:[0-9]{2}:[0-9]{2})")
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


def stamp(line: str) -> Stamp | None:
    """The time in the first 120 characters of a line."""
    found = _TIME.search(line, 0, 120)
    if found is None:
        return None
    text = f"{found[1]} {found[2]}"
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return Stamp(text, (moment - datetime(1970, 1, 1)).total_seconds())  # noqa: DTZ001 - a log's own clock has no zone


def sender(line: str) -> str:
    """The rank or node that a launcher wrote before the line (`3: `, `gpu07: `, `[default3]:`); empty where none."""
    found = _SENDER.match(line)
    return found[1] if found else ""
