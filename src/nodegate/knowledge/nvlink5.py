"""Xids 144 to 150: which unit of an NVLink 5 reports what, read from the numbers in the line.

Sources: NVIDIA's Xid catalogue as gpud mirrors it. The first number ("intrinfo") names the unit and the event, the
second is the error status. Drivers before 575 use another layout for the first number, and no line says which driver
wrote it: a row matches if either layout does.
"""

import re
from dataclasses import dataclass
from functools import cache

from nodegate.knowledge.tables import rows, texts
from nodegate.knowledge.words import Text

FIRST, LAST = 144, 150
_LINE = re.compile(
    r"(?P<unit>[A-Z0-9_/]{1,40}) {1,4}(?P<severity>Fatal|Nonfatal) {1,4}XC(?P<contained>[01]) i(?P<inst>\d{1,4})"
    r" Link (?P<link>-?\d{1,3}) \(0x(?P<info>[0-9a-fA-F]{1,8}) 0x(?P<status>[0-9a-fA-F]{1,8})\b"
)


@dataclass(frozen=True)
class Event:
    """The content of the line. `link` is -1 if it is not about a single link."""

    unit: str
    severity: str  # "Fatal", "Nonfatal": the printed word
    link: int
    info: int
    status: int


@dataclass(frozen=True)
class Decoded:
    """What a row of the table says about an event. `severity`: nonfatal, link_fatal or fatal."""

    severity: str
    now: Text
    then: Text  # what to check; empty if nothing

    @property
    def advice(self) -> Text:
        """Both in one sentence."""
        if not self.then.en:
            return self.now
        return Text(f"{self.now.en}; {self.then.en}", f"{self.now.zh}；{self.then.zh}")  # noqa: RUF001


@dataclass(frozen=True)
class _Row:
    code: int
    units: frozenset[str]
    layouts: tuple[tuple[int, int], ...]  # mask and value, for drivers before 575 and since
    status: int
    decoded: Decoded


def parse(text: str) -> Event | None:
    """The event in the text of an Xid 144 to 150 (after process and name); None for another form."""
    match = _LINE.match(text)
    if match is None:
        return None
    info, status = int(match["info"], 16), int(match["status"], 16)
    return Event(match["unit"], match["severity"], int(match["link"]), info, status)


def decode(code: int, event: Event) -> Decoded | None:
    """What the table says about an event; None if it has no row for it: then only the printed word is known."""
    for row in _table():
        of_event = row.code == code and event.unit in row.units and row.status == event.status
        if of_event and any(event.info & mask == value for mask, value in row.layouts):
            return row.decoded
    return None


@cache
def _table() -> tuple[_Row, ...]:
    words = texts("nvlink5_words.csv")
    return tuple(
        _Row(
            code=int(row["xid"]),
            units=frozenset({row["units"], *row["units"].split("/")}),  # drivers print one name or the other, or both
            layouts=(_layout(row["info_before_575"]), _layout(row["info"])),
            status=int(row["status"], 16),
            decoded=Decoded(row["severity"], words["now", row["now"]], words["then", row["then"]]),
        )
        for row in rows("nvlink5.csv")
    )


def _layout(bits: str) -> tuple[int, int]:
    """Mask and value of 32 bits, the highest first, in which "-" may be anything."""
    mask = int("".join("0" if bit == "-" else "1" for bit in bits), 2)
    return mask, int(bits.replace("-", "0"), 2)
