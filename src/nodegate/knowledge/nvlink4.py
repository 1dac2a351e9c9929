"""Xid 74: which link of an NVLink up to generation 4 reports what, read from the error registers in the line.

Source: NVIDIA's workflow WORKFLOW_NVLINK_ERR as NVIDIA/NVSentinel quotes it. The first register that is named in the
table and has one of its bits wins, in the order of the table: what is only secondary or corrected stands last.
"""

import re
from dataclasses import dataclass
from functools import cache

from nodegate.knowledge.tables import rows
from nodegate.knowledge.words import Text

CODE = 74
_LINK = re.compile(
    r"\blink (?P<link>\d{1,3})(?:\((?P<registers>0x[0-9a-fA-F]{1,16}(?:, ?0x[0-9a-fA-F]{1,16}){0,9})\))?"
)


@dataclass(frozen=True)
class Decoded:
    """What the registers of one line mean."""

    nonfatal: bool
    meaning: Text
    action: Text


def link(text: str) -> str:
    """The link that the line names, "link 8"; "" if it names none."""
    found = _LINK.search(text)
    return f"link {found['link']}" if found else ""


def decode(text: str) -> Decoded | None:
    """What the registers in the text of an Xid 74 say; None if it has none, or only bits without a row."""
    found = _LINK.search(text)
    if found is None or found["registers"] is None:
        return None
    values = [int(each, 16) for each in found["registers"].split(",")]
    said = (row for register, mask, row in _table() if register < len(values) and values[register] & mask)
    return next(said, None)


@cache
def _table() -> tuple[tuple[int, int, Decoded], ...]:
    return tuple(
        (
            int(row["register"]),
            sum(1 << int(bit) for bit in row["bits"].split()),
            Decoded(row["severity"] == "nonfatal", Text.read(row, "meaning"), Text.read(row, "action")),
        )
        for row in rows("nvlink4.csv")
    )
