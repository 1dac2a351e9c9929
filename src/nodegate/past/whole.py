"""`nodegate history --json`: all that the record has of nodes and parts, as rows; nothing is counted or left out."""

import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from nodegate.past.questions import Stay, Told, Whom, key_of_part, numbers, stays
from nodegate.past.series import marks
from nodegate.past.story import CAUSES, EVENTS, VERDICTS
from nodegate.text import visible

SCHEMA = "nodegate.history/1"


@dataclass(frozen=True)
class Judged:
    """The verdict of a run on the node; times are seconds since the epoch here and below."""

    epoch_s: float
    profile: str
    verdict: str


@dataclass(frozen=True)
class Caused:
    """A cause of a failure or an error: where, in how many runs, and when in the first and the last of them."""

    place: str
    condition: str
    node: str
    runs: int
    first_epoch_s: float
    last_epoch_s: float
    verdict: str
    text: str


@dataclass(frozen=True)
class Happened:
    """A repair, an Xid, a boot, a drain; of a hook what it found, and how many verdicts its node had dropped."""

    epoch_s: float
    kind: str
    node: str
    part: str
    text: str


@dataclass(frozen=True)
class Past:
    """All of one node or part; `runs` is empty of a part, and of what an earlier release kept."""

    name: str
    key: str
    node: str
    is_node: bool
    runs: Sequence[Judged]
    causes: Sequence[Caused]
    events: Sequence[Happened]
    places: Sequence[Stay]
    numbers: Sequence[Told]


def past(base: sqlite3.Connection, who: Whom) -> Past:
    """What the record has of it, oldest first; causes newest first."""
    parts = tuple(who.parts)
    judged = VERDICTS.format(of="decisions.part" if who.machine else "decisions.node")
    return Past(
        visible(who.name),
        visible(key_of_part(base, who.machine)),
        visible(who.node),
        who.is_node,
        [Judged(*row) for row in _rows(base, judged, (who.machine or who.node,))] if who.is_node else [],
        [Caused(*row) for row in _rows(base, CAUSES.format(marks=marks(parts)), parts)],
        [Happened(*row) for row in _rows(base, EVENTS.format(marks=marks(parts), counted="('')"), (*parts, who.node))],
        stays(base, who),
        numbers(base, who),
    )


def _rows(base: sqlite3.Connection, asked: str, given: Iterable[object]) -> Iterable[Sequence[Any]]:
    """The rows, their texts printable."""
    for row in base.execute(asked, tuple(given)):
        yield [visible(each) if isinstance(each, str) else each for each in row]
