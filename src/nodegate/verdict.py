"""Verdicts and their order: a worse one is never overwritten by a better one."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


class Verdict(str, Enum):
    """What a check says of a node."""

    SKIP = "skip"  # does not apply here, or was not asked for; the reason is said
    PASS = "pass"  # noqa: S105 - a verdict, not a password
    WARN = "warn"
    ERROR = "error"  # could not be measured: unreachable, tool missing, timed out, needs root
    FAIL = "fail"


_ORDER = {Verdict.SKIP: 0, Verdict.PASS: 1, Verdict.WARN: 2, Verdict.ERROR: 3, Verdict.FAIL: 4}


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """The worst of several verdicts; of none, `error`: nothing was judged, so nothing may pass.

    A proven fault (`fail`) stands above a gap in the measurement (`error`): the node is bad whatever else is unknown.
    """
    return max(verdicts, key=_ORDER.__getitem__, default=Verdict.ERROR)


@dataclass(frozen=True)
class Limit:
    """What is right: a value, its unit, and where it comes from (spec, baseline file and key, fleet median and n)."""

    value: object
    unit: str
    source: str


@dataclass(frozen=True)
class Finding:
    """One thing that a check saw: on one device, with the value, the limit and the next action."""

    subject: str  # the device or part: "GPU 3 (0000:5d:00.0)", "mlx5_0 port 1", "kernel"
    verdict: Verdict
    message: str  # one line for people
    metric: str = ""
    value: object = None
    unit: str = ""
    limit: object = None
    limit_source: str = ""
    action: str = ""


@dataclass(frozen=True)
class Record:
    """One line of results.jsonl: what one check says of one node. The record of truth."""

    node: str
    check: str  # the check's own id, the same in every install mode: "pcie.link_width"
    verdict: Verdict
    message: str
    findings: tuple[Finding, ...] = ()
    failure_modes: tuple[str, ...] = ()
    evidence: tuple[str, ...] = ()
    duration_s: float = 0.0
    waiver: str = ""  # the reason, owner and expiry of the waiver that covers a fail; empty: none


class NodeVerdict(str, Enum):
    """What a run says of a node."""

    ACCEPTED = "accepted"
    WAIVED = "accepted-with-waivers"
    REJECTED = "rejected"  # at least one fail
    INCOMPLETE = "incomplete"  # no fail, at least one error
    UNREACHABLE = "unreachable"
    NOT_JUDGED = "not-judged"  # every check was skipped (a busy node at night, say): no success


NODE_ORDER = (
    NodeVerdict.REJECTED,
    NodeVerdict.UNREACHABLE,
    NodeVerdict.INCOMPLETE,
    NodeVerdict.NOT_JUDGED,
    NodeVerdict.WAIVED,
    NodeVerdict.ACCEPTED,
)


def node_verdict(records: Iterable[Record], *, reachable: bool = True) -> NodeVerdict:
    """The verdict of a node from the records of its checks."""
    if not reachable:
        return NodeVerdict.UNREACHABLE
    found = list(records)
    verdicts = [record.verdict for record in found if not record.waiver]
    if Verdict.FAIL in verdicts:
        return NodeVerdict.REJECTED
    if Verdict.ERROR in verdicts:
        return NodeVerdict.INCOMPLETE
    if any(record.waiver for record in found):
        return NodeVerdict.WAIVED
    if Verdict.PASS in verdicts or Verdict.WARN in verdicts:
        return NodeVerdict.ACCEPTED
    return NodeVerdict.NOT_JUDGED
