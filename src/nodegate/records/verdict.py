"""Verdicts and their order: a worse one is never overwritten by a better one."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum


class Verdict(str, Enum):
    """A check's verdict on a node."""

    SKIP = "skip"  # does not apply here, or was not requested; with the reason
    PASS = "pass"  # noqa: S105 - a verdict, not a password
    NOT_JUDGED = "not-judged"  # it applies and was read, but nothing says what is right
    WARN = "warn"
    ERROR = "error"  # could not be measured: unreachable, tool missing, timed out, needs root
    FAIL = "fail"


_ORDER = {verdict: place for place, verdict in enumerate(Verdict)}


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """The worst of several verdicts; of none, `error`: nothing was judged, so nothing may pass.

    A proven fault (`fail`) is worse than a gap in the measurement (`error`): the node is bad whatever else is unknown.
    """
    return max(verdicts, key=_ORDER.__getitem__, default=Verdict.ERROR)


class NodeVerdict(str, Enum):
    """A run's verdict on a node."""

    ACCEPTED = "accepted"
    WAIVED = "accepted-with-waivers"
    GAPS = "accepted-with-gaps"  # what is not proven, the site has signed
    REJECTED = "rejected"  # at least one fail
    INCOMPLETE = "incomplete"  # no fail, but an error, or a claim that is not proven
    UNREACHABLE = "unreachable"
    NOT_JUDGED = "not-judged"  # every check was skipped (a node that was busy at night, for example): not a success


GOOD = frozenset((NodeVerdict.ACCEPTED, NodeVerdict.WAIVED, NodeVerdict.GAPS))
NODE_ORDER = (
    NodeVerdict.REJECTED,
    NodeVerdict.UNREACHABLE,
    NodeVerdict.INCOMPLETE,
    NodeVerdict.NOT_JUDGED,
    NodeVerdict.GAPS,
    NodeVerdict.WAIVED,
    NodeVerdict.ACCEPTED,
)
