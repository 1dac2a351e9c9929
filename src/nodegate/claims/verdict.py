"""The verdict of a node: from the records of its checks, and from what they prove."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from nodegate.records.claim import Shown, State
from nodegate.records.finding import Record
from nodegate.records.verdict import NodeVerdict, Verdict

_SAYS_SOMETHING = frozenset((Verdict.PASS, Verdict.WARN))


def node_verdict(records: Iterable[Record], claims: Sequence[Shown] = (), *, reachable: bool = True) -> NodeVerdict:
    """The verdict of a node: nothing that failed or could not be measured, and every claim proven or signed for."""
    if not reachable:
        return NodeVerdict.UNREACHABLE
    found = list(records)
    verdicts = {record.verdict for record in found if not record.waiver}
    waived = any(record.waiver for record in found)
    gaps = any(shown.state is State.NOT_PROVEN and not shown.is_waived for shown in claims)
    cases = (
        (Verdict.FAIL in verdicts, NodeVerdict.REJECTED),
        (Verdict.ERROR in verdicts, NodeVerdict.INCOMPLETE),
        (not waived and not verdicts & _SAYS_SOMETHING, NodeVerdict.NOT_JUDGED),
        (bool(unsigned(claims)), NodeVerdict.INCOMPLETE),
        (gaps, NodeVerdict.GAPS),
        (waived, NodeVerdict.WAIVED),
    )
    return next((verdict for holds, verdict in cases if holds), NodeVerdict.ACCEPTED)


def unsigned(claims: Iterable[Shown]) -> list[Shown]:
    """The claims that are neither proven nor signed for."""
    return [shown for shown in claims if shown.state is State.NOT_PROVEN and not shown.signed]
