"""Something that happened to a node or a part between two runs."""

from __future__ import annotations

from dataclasses import dataclass

XID, BOOT, REPAIR, ACCEPT_AGAIN = "xid", "boot", "repair", "accept_again"
HOOK, HOOK_FIT = "hook", "hook_fit"
KEPT_TWICE = frozenset((HOOK, HOOK_FIT))  # in events.jsonl too: their node drops them


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened to a node or a part.

    `kind` is a word: `XID`, `BOOT`, `REPAIR`, `ACCEPT_AGAIN`, `HOOK` (a hook's verdict that was another than the one
    before it; `source` is its boot and number) or `HOOK_FIT` (how often hooks found the node fit in a day of a boot:
    `text` is the number, `source` the boot). `part` is its key in the record, `source` who says so.
    """

    epoch_s: float
    kind: str
    node: str
    part: str
    source: str
    text: str
