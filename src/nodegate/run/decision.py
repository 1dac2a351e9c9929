"""The one decision on a node: its records, claims and causes must say the same; where they differ the worse one counts.

Claims say what is proven, causes say why not. Exit code, bootcheck's line, the scheduler's reason, report and
certificate are written from this.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from nodegate.causes.conditions import conditions
from nodegate.causes.explain import causes_of
from nodegate.claims.verdict import node_verdict, unsigned
from nodegate.records.cause import Cause
from nodegate.records.claim import Shown
from nodegate.records.finding import Finding, Record
from nodegate.records.part import NODE
from nodegate.records.verdict import NODE_ORDER, NodeVerdict, Verdict

DISAGREES = "nodegate.disagrees"  # the check, and so the cause, of a fault of our own


@dataclass(frozen=True)
class Decision:
    """What is decided on a node. `records` have one more where its parts disagree: `DISAGREES`, an `error`."""

    verdict: NodeVerdict
    records: tuple[Record, ...]
    causes: tuple[Cause, ...]

    @property
    def disagrees(self) -> bool:
        """Whether records, claims and causes did not say the same."""
        return bool(self.records) and self.records[-1].check == DISAGREES


def decide(node: str, records: Sequence[Record], claims: Sequence[Shown] = (), *, reachable: bool = True) -> Decision:
    """The decision on a node from what its checks and claims say; never raises over a disagreement."""
    verdict, causes = node_verdict(records, claims, reachable=reachable), causes_of(records, conditions())
    told = _told_by(causes)
    if not reachable or _agree(verdict, told, has_open=bool(unsigned(claims))):
        return Decision(verdict, tuple(records), causes)
    text = f"its records and claims say {verdict.value}, its causes say {told.value if told else 'nothing'}"
    action = "report this as a bug in nodegate, with the run folder"
    finding = Finding(NODE, Verdict.ERROR, text=text, action=action, code=DISAGREES)
    every = (*records, Record(node, DISAGREES, Verdict.ERROR, (finding,), why="unknown"))
    worse = min((verdict, told or NodeVerdict.INCOMPLETE, NodeVerdict.INCOMPLETE), key=NODE_ORDER.index)
    return Decision(worse, every, causes_of(every, conditions()))


def _told_by(causes: Iterable[Cause]) -> NodeVerdict | None:
    """What the causes amount to, remarks apart; None where there is none."""
    verdicts = {cause.verdict for cause in causes if not cause.waiver}
    if Verdict.FAIL in verdicts:
        return NodeVerdict.REJECTED
    return NodeVerdict.INCOMPLETE if Verdict.ERROR in verdicts else None


def _agree(verdict: NodeVerdict, told: NodeVerdict | None, *, has_open: bool) -> bool:
    if NodeVerdict.REJECTED in (verdict, told):
        return verdict is told
    if told is NodeVerdict.INCOMPLETE:
        return verdict is told
    return verdict is not NodeVerdict.INCOMPLETE or has_open
