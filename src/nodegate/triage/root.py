"""Which of the last errors was the first one: the rules, each with the reason that the answer quotes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING

from nodegate.knowledge import tables
from nodegate.knowledge.words import Cause, Role, Side
from nodegate.triage import collectives
from nodegate.triage.episodes import SKEW_S, job_logs
from nodegate.verdict import Verdict

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from nodegate.triage.collectives import Laggards, Mismatch
    from nodegate.triage.episodes import Ending
    from nodegate.triage.events import Event
    from nodegate.triage.reading import Case

TIME_OUT = "watchdog_timeout"
_NODE_FAILED = "slurm_node_failed"
_NEAR_S = 60.0  # within which a kernel message on the same node explains an error of a rank
_BEFORE_HANG_S = 600.0  # how long before the first symptom a kernel message can be its cause
# Printed at start-up or later by jobs that continue: a first error only if there is no other.
_SOFT = frozenset(
    (
        *("tool_missing", "nccl_over_sockets", "nan_loss", "nccl_ib_slower", "nccl_ib_failover", "nccl_ib_open"),
        *("nvml_mismatch", "cpu_hot", "nic_module_hot", "machine_check", "firmware_error", "iommu_fault"),
        "disk_buffer_error",
    )
)
_CONTAINED = 94
_GENERAL = frozenset(("python_error", "nccl_warning"))


@dataclass(frozen=True)
class Root:
    """The first error. `event` is None if only a hang or nothing was found.

    `hang` is the first time-out of a hang without an error before it. `named` is the peer whom `named_by` of
    `complaining` ranks blame. `beside` is the kernel message that names the device of a rank's error.
    """

    event: Event | None = None
    hang: Event | None = None
    mismatch: Mismatch | None = None
    laggards: Laggards | None = None
    named: str = ""
    named_by: int = 0
    complaining: int = 0
    beside: Event | None = None
    follows: bool = False  # only consequences were found


def find_root(case: Case, ending: Ending) -> Root:
    """Apply the rules to the last episode."""
    time_outs = [event for event in ending.events if event.kind.id == TIME_OUT]
    candidates = _candidates(ending, time_outs)
    if failed := [event for event in candidates if event.kind.id == _NODE_FAILED]:
        return _beside(Root(event=_of_failed_node(failed[0], candidates)), ending)
    event = _earliest(candidates)
    if event is not None and event.kind.role is Role.PRIMARY and event.kind.id not in _SOFT:
        return _blame(_beside(Root(event=event), ending), ending)
    if time_outs:
        hang = Root(hang=min(time_outs, key=_began), mismatch=collectives.mismatch(case.found.collectives))
        if hang.mismatch:
            return hang
        if event is None or event.kind.id in _SOFT:
            return replace(hang, laggards=_laggards(case, time_outs))
    if event is None:
        follows = any(each.kind.role is Role.CONSEQUENCE for each in ending.events)
        return Root(follows=follows or any(log.torn_down for log in case.logs))
    return _blame(_beside(Root(event=event), ending), ending)


def _candidates(ending: Ending, time_outs: Sequence[Event]) -> list[Event]:
    """What can be the first error: printed before the first time-out was, and not long before the first symptom."""
    spoke = min((event.printed_s for event in time_outs if event.printed_s is not None), default=None)
    first_line: dict[str, int] = {}
    for event in time_outs:
        first_line[event.log] = min(event.line, first_line.get(event.log, event.line))
    found = []
    for event in ending.events:
        if event.kind.role not in (Role.PRIMARY, Role.EITHER):
            continue
        if event.printed_s is None or event.about:
            late = event.line > first_line.get(event.log, event.line) or (
                event.printed_s is not None and spoke is not None and event.printed_s > spoke + SKEW_S
            )
        else:
            late = spoke is not None and event.printed_s > spoke - (SKEW_S if event.kind.role is Role.EITHER else 0)
        if not late or event.kind.id == _NODE_FAILED:
            found.append(event)
    return _near_the_end(found, ending)


def _near_the_end(candidates: list[Event], ending: Ending) -> list[Event]:
    """Without kernel messages from long before the first symptom, if there are others."""
    symptoms = [event.began_s for event in ending.events if event.kind.side is Side.USER and event.began_s is not None]
    if not symptoms:
        return candidates
    earliest = min(symptoms) - _BEFORE_HANG_S
    near = [event for event in candidates if event.began_s is None or event.began_s >= earliest]
    return near or candidates


def _began(event: Event) -> tuple[float, int]:
    return (float("inf") if event.began_s is None else event.began_s, event.line)


def _earliest(candidates: Sequence[Event]) -> Event | None:
    """The earliest; among those within the clock skew of two nodes the one that explains the others."""
    hard = [event for event in candidates if not soft(event)] or list(candidates)
    if not hard:
        return None
    first = min(hard, key=_began)
    if first.began_s is None:
        return min(hard, key=lambda event: (_weight(event), event.line))
    near = [event for event in candidates if event.began_s is not None and event.began_s <= first.began_s + SKEW_S]
    near = [event for event in near if event.began_s is not None and event.began_s >= first.began_s - SKEW_S]
    best = min(near, key=lambda event: (_weight(event), _began(event)))
    if best.kind.role is Role.EITHER and best.kind.cause is Cause.UNKNOWN:
        timeless = [event for event in hard if event.began_s is None and event.kind.role is Role.PRIMARY]
        return min(timeless, key=lambda event: (_weight(event), event.line)) if timeless else best
    return best


def _weight(event: Event) -> int:
    """Among errors of one moment: kernel before program, specific before general, certain before uncertain."""
    if event.kind.role is Role.EITHER:
        return 7 if event.kind.id in _GENERAL else 6
    if soft(event):
        return 5
    if event.kind.id in _GENERAL:
        return 4
    kernel, program = event.kind.side is Side.KERNEL, event.kind.cause is Cause.PROGRAM
    return (3 if kernel else 2) if program else (0 if kernel else 1)


def soft(event: Event) -> bool:
    """Whether jobs usually continue after this, so that it is a first error only if there is no other."""
    return event.kind.id in _SOFT or event.kind.id in _soft_xids()


@cache
def _soft_xids() -> frozenset[str]:
    """The Xids of the hardware with which a node may still carry jobs; not a contained memory error, which ends one."""
    return frozenset(
        f"xid_{code}"
        for code, rule in tables.xids().items()
        if rule.bootcheck is not Verdict.FAIL and rule.cause is not Cause.PROGRAM and code != _CONTAINED
    )


def _beside(root: Root, ending: Ending) -> Root:
    """With the kernel message that names the GPU of a rank's error."""
    event = root.event
    if event is None or event.kind.side is Side.KERNEL or not event.place.node or event.kind.cause is Cause.PROGRAM:
        return root
    near = [
        other
        for other in ending.events
        if other.kind.side is Side.KERNEL and other.device and same_node(other.place.node, event.place.node)
        and _apart(other, event) <= _NEAR_S
    ]  # fmt: skip
    return replace(root, beside=min(near, key=lambda other: (_weight(other), _apart(other, event)))) if near else root


def _apart(one: Event, other: Event) -> float:
    if one.began_s is None or other.began_s is None:
        return float("inf")
    return abs(one.began_s - other.began_s)


def same_node(one: str, other: str) -> bool:
    """Whether two names mean the same node: one may be without its domain."""
    return one == other or (bool(one and other) and one.split(".", maxsplit=1)[0] == other.split(".", maxsplit=1)[0])


def _blame(root: Root, ending: Ending) -> Root:
    """With the peer that most ranks name, if the error is one that a peer causes."""
    event = root.event
    if event is None or event.kind.cause is not Cause.FABRIC or not event.peer:
        return root
    complaints: Iterable[Event] = (
        other
        for other in ending.events
        if other.peer and other.kind.cause is Cause.FABRIC and _apart(other, event) <= _NEAR_S
    )
    said = [(other.peer, (other.log, other.place.rank, other.place.node)) for other in complaints]
    most = collectives.most_named(said or [(event.peer, None)])
    if most is None:
        return root
    peer, named_by, complaining = most
    return replace(root, named=peer, named_by=named_by, complaining=complaining)


def _of_failed_node(failed: Event, candidates: Sequence[Event]) -> Event:
    """Slurm notices minutes later that a node is gone: its earlier kernel message is the reason."""
    reasons = [
        event
        for event in candidates
        if event.kind.side is Side.KERNEL and not soft(event) and same_node(event.place.node, failed.place.node)
    ]
    return min(reasons, key=_began) if reasons else failed


def _laggards(case: Case, time_outs: Sequence[Event]) -> Laggards | None:
    timed_out = {event.place.rank for event in time_outs if event.place.rank is not None}
    known = set[int]().union(*(log.all_ranks() for log in job_logs(case)))
    known |= set(case.found.names.node_of_rank)
    return collectives.laggards(case.found.reached, timed_out, known)
