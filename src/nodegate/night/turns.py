"""Whose turn it is tonight: who was not tested for longest comes first, and who is busy now comes last."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nodegate.records.verdict import NodeVerdict

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Collection, Iterable, Sequence

NEVER = -math.inf
_RUNS = """
select cast(node as text), cast(verdict as text), cast(started_epoch_s as real) as at from decisions
join runs on runs.id = run where profile in ('nightly', 'delivery') order by at
"""


@dataclass
class Turn:
    """What nights and deliveries have seen of a node. Times are seconds since the epoch.

    `tried_s` is the newest run that found it idle, or did not reach it; `tested_s` the newest that judged it; `first_s`
    the first run that had it. `busy` counts the runs since then that found it busy, one after the other.
    """

    node: str
    tried_s: float = NEVER
    tested_s: float = NEVER
    first_s: float = math.inf
    busy: int = 0

    def add(self, verdict: str, at_s: float) -> None:
        """One run more; they come oldest first."""
        self.first_s = min(self.first_s, at_s)
        if verdict == NodeVerdict.NOT_JUDGED:
            self.busy += 1
            return
        self.tried_s = at_s
        if verdict != NodeVerdict.UNREACHABLE:
            self.tested_s, self.busy = at_s, 0

    def waits_s(self, now_s: float) -> float:
        """For how long it was not tested, as far as the record goes."""
        return max(0.0, now_s - max(self.tested_s, min(self.first_s, now_s)))


def turns(base: sqlite3.Connection | None, nodes: Iterable[str]) -> dict[str, Turn]:
    """What the record knows of these nodes; a node that it does not know was never tested."""
    found = {node: Turn(node) for node in nodes}
    for node, verdict, at in base.execute(_RUNS) if base else ():
        if node in found:
            found[node].add(verdict, at)
    return found


def in_turn(found: Iterable[Turn], busy: Collection[str] = ()) -> list[str]:
    """The nodes in the order in which they are tested; those that the scheduler says are `busy` are tried last.

    Who was tried and not reached goes to the end too: it must not keep others from their turn.
    """
    return [each.node for each in sorted(found, key=lambda turn: (turn.node in busy, turn.tried_s))]


def overdue(found: Iterable[Turn], every_s: float, now_s: float) -> Sequence[Turn]:
    """Who was not tested for that long, the longest first."""
    return sorted((each for each in found if each.waits_s(now_s) >= every_s), key=lambda each: -each.waits_s(now_s))
