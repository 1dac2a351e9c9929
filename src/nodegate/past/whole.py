"""`nodegate history --json`: all that the record has of nodes and parts, as rows; nothing is counted or left out."""

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass

from nodegate.past.questions import Stay, Told, Whom, key_of_part, numbers, stays
from nodegate.past.story import CAUSES, EVENTS, VERDICTS
from nodegate.past.tables import marks

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
    parts, node = tuple(who.parts), who.node if who.is_node else ""
    judged = VERDICTS.format(of="decisions.part" if who.machine else "decisions.node")
    return Past(
        who.name,
        key_of_part(base, who.machine),
        who.node,
        who.is_node,
        [Judged(*row) for row in base.execute(judged, (who.machine or who.node,))] if who.is_node else [],
        [Caused(*row) for row in base.execute(CAUSES.format(marks=marks(parts)), parts)],
        [Happened(*row) for row in base.execute(EVENTS.format(marks=marks(parts)), (*parts, node))],
        stays(base, who),
        numbers(base, who),
    )
