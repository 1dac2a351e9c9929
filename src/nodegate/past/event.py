"""Something that happened to a node or a part between two runs."""

from __future__ import annotations

from dataclasses import dataclass

XID, BOOT, REPAIR, ACCEPT_AGAIN = "xid", "boot", "repair", "accept_again"


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened to a node or a part.

    `kind` is a word: `XID`, `BOOT`, `REPAIR`, `ACCEPT_AGAIN`. `part` is its key in the record, `source` who says so.
    """

    epoch_s: float
    kind: str
    node: str
    part: str
    source: str
    text: str
