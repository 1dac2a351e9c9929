"""Which of the last errors was the first one: the rules, each with the reason that the answer quotes."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING

from nodegate.knowledge import tables
from nodegate.knowledge.roots import INCIDENT_S, SLACK_S, follows
from nodegate.knowledge.words import Cause, Role, Side
from nodegate.records.verdict import Verdict
from nodegate.triage import collectives, details, last_words, silence, suspect_gpu
from nodegate.triage.episodes import SKEW_S, job_logs
from nodegate.triage.own_machines import of_the_job
from nodegate.triage.place import same_node

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nodegate.triage.collectives import Laggards, Mismatch
    from nodegate.triage.episodes import Ending
    from nodegate.triage.events import Event
    from nodegate.triage.reading import Case
    from nodegate.triage.silence import Silent, Unstarted

TIME_OUT = "watchdog_timeout"
_NODE_FAILED = frozenset(("slurm_node_failed", "k8s_node_not_ready"))
ERROR_LINE = "error_line"  # looks like an error, and nothing more is known of it
_NEAR_S = 60.0  # within which a kernel message on the same node explains an error of a rank
_PRINTED_LATER_S = 10.0  # by which the kernel's line may come after the error that it explains
_BEFORE_HANG_S = 600.0  # how long before the first symptom a kernel message can be its cause
# Printed at start-up or later by jobs that continue: a first error only if there is no other.
_SOFT = frozenset(
    (
        *("tool_missing", "nccl_over_sockets", "nan_loss", "nccl_ib_slower", "nccl_ib_failover", "nccl_ib_open"),
        *("nvml_mismatch", "cpu_hot", "nic_module_hot", "machine_check", "firmware_error", "iommu_fault"),
        *("disk_buffer_error", "pcie_slow_link", "nvrx_straggler"),
    )
)
_CONTAINED = 94
_GENERAL = frozenset(("python_error", "nccl_warning", "unknown_error", "cpp_exception", ERROR_LINE))
_LOST_GPU = "xid_79"
_OF_ONE_FAULT_S = 60.0  # within which the errors of switches belong to a GPU that was lost
_XID = re.compile(r"xid_[0-9]{1,5}")


@dataclass(frozen=True)
class Root:
    """The first error. `event` is None if only a hang or nothing was found.

    `hang` is the first time-out of a hang without an error before it. `named` is the peer whom `named_by` of
    `complaining` ranks blame. `beside` is the kernel message that names the device of a rank's error. `silent` and
    `unstarted` are hangs without a time-out.
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
    timed_out: tuple[int, ...] = ()  # the ranks that reported the hang
    came: bool = False  # they are all ranks of the job
    silent: Silent | None = None
    unstarted: Unstarted | None = None
    programs: tuple[str, ...] = ()  # different programs that met one Xid of applications on one GPU

    @property
    def hangs(self) -> bool:
        """Whether the job hangs and no error says why."""
        return bool(self.hang or self.silent or self.unstarted)


def find_root(case: Case, ending: Ending) -> Root:
    """Apply the rules to the last episode."""
    time_outs = [event for event in ending.events if event.kind.id == TIME_OUT]
    candidates = of_the_job(_in_order_of_causes(_candidates(ending, time_outs)), case)
    if failed := [event for event in candidates if event.kind.id in _NODE_FAILED]:
        return _beside(Root(event=_of_failed_node(failed[0], candidates)), case, ending)
    event = _earliest(candidates)
    if event is not None and event.kind.role is Role.PRIMARY and event.kind.id not in _SOFT:
        return _suspected(_blame(_beside(Root(event=event), case, ending), ending), case)
    if time_outs:
        hang = _hang(case, time_outs)
        if hang.laggards and (event is None or event.kind.id in _SOFT):
            event = last_words.of(hang.laggards.ranks, ending.overcome) or event
        if hang.mismatch or event is None or event.kind.id in _SOFT:
            return hang
    if event is None:
        follows = any(each.kind.role is Role.CONSEQUENCE for each in ending.events)
        if follows or any(log.torn_down for log in case.logs):
            return Root(follows=True)
        unstarted = silence.unstarted(case) if ending.iteration is None else None
        return Root(unstarted=unstarted, silent=None if unstarted else silence.silent(case, ending.progress_s))
    return _suspected(_blame(_beside(Root(event=event), case, ending), ending), case)


def _hang(case: Case, time_outs: Sequence[Event]) -> Root:
    """A hang that no error explains: who timed out, who did not, and whether that is everybody."""
    ranks = {event.place.rank for event in time_outs if event.place.rank is not None}
    world = case.found.names.world
    root = Root(
        hang=min(time_outs, key=_began),
        mismatch=collectives.mismatch(case.found.collectives),
        timed_out=tuple(sorted(ranks)),
        came=world > 0 and ranks >= set(range(world)),
    )
    return root if root.mismatch else replace(root, laggards=_laggards(case, ranks))


def _candidates(ending: Ending, time_outs: Sequence[Event]) -> list[Event]:
    """What can be the first error: printed before the first time-out was, and not long before the first symptom."""
    spoke = min((event.printed_s for event in time_outs if event.printed_s is not None), default=None)
    first_line: dict[tuple[str, str], int] = {}
    for event in time_outs:
        key = (event.log, event.place.source)
        first_line[key] = min(event.line, first_line.get(key, event.line))
    found = []
    for event in ending.events:
        if event.kind.role not in (Role.PRIMARY, Role.EITHER):
            continue
        if event.about:
            below = event.line > first_line.get((event.log, event.place.source), event.line)
            late = (below and not _never_follows(event)) or (
                event.early_s is not None and spoke is not None and event.early_s > spoke + SKEW_S
            )
        else:
            printed = event.printed_s or 0.0
            late = spoke is not None and printed > spoke - (SKEW_S if event.kind.role is Role.EITHER else 0)
        if not late or event.kind.id in _NODE_FAILED:
            found.append(event)
    known = [event for event in found if event.kind.id != ERROR_LINE]
    others = any(event.kind.role is Role.CONSEQUENCE for event in ending.events)
    found = known if known or others else found
    return _near_the_end(found, ending)


def _never_follows(event: Event) -> bool:
    """Whether this is never what comes of a time-out: a fault of a machine that a rank reports, in whatever order."""
    return event.kind.role is Role.PRIMARY and event.kind.cause in (Cause.HARDWARE, Cause.FABRIC, Cause.STORAGE)


def _near_the_end(candidates: list[Event], ending: Ending) -> list[Event]:
    """Without kernel messages from long before the first symptom, if there are others."""
    symptoms = [
        event.began_s
        for event in ending.events
        if event.kind.side is Side.USER and event.kind.role is not Role.CONTEXT and event.began_s is not None
    ]
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
    first_s = min((when for event in hard if (when := _at_the_latest(event)) is not None), default=None)
    if first_s is None:
        return min(hard, key=lambda event: (_weight(event), event.line))
    near = [event for event in hard if _may_have_begun(event, first_s)]
    best = min(near, key=lambda event: (_weight(event), _began(event)))
    if best.kind.role is Role.EITHER and best.kind.cause is Cause.UNKNOWN:
        if reason := _machine_fault_near(best, hard):
            return reason
        timeless = [event for event in hard if event.began_s is None and event.kind.role is Role.PRIMARY]
        return min(timeless, key=lambda event: (_weight(event), event.line)) if timeless else best
    return best


def _machine_fault_near(event: Event, hard: Sequence[Event]) -> Event | None:
    """The kernel message of the same node that explains an error without a reason, also if it came a little later.

    A line without a time was put where a collective began: others wait in it before a GPU breaks.
    """
    within_s = _NEAR_S if event.about else _PRINTED_LATER_S
    faults = [
        each
        for each in hard
        if each.kind.side is Side.KERNEL
        and each.kind.role is Role.PRIMARY
        and each.kind.cause in (Cause.HARDWARE, Cause.FABRIC)
        and event.place.node
        and same_node(each.place.node, event.place.node)
        and _apart(each, event) <= within_s
    ]
    return min(faults, key=lambda each: (_weight(each), _began(each)), default=None)


def _at_the_latest(event: Event) -> float | None:
    """When an event had surely begun; None if it is unknown."""
    return event.late_s - event.ran_s if event.about and event.late_s is not None else event.began_s


def _may_have_begun(event: Event, when_s: float) -> bool:
    """Whether an event can be of this moment: within the skew of clocks, or between the times around its line."""
    if event.began_s is None:
        return False
    if event.about and event.early_s is not None:
        return event.early_s - SKEW_S <= when_s <= max(event.late_s or 0.0, event.began_s) + SKEW_S
    return abs(event.began_s - when_s) <= SKEW_S


def _in_order_of_causes(candidates: list[Event]) -> list[Event]:
    """Without the Xids that follow from another one of the same GPU, and the switch errors of a GPU that was lost."""
    codes = [(event, int(event.kind.id[4:])) for event in candidates if _XID.fullmatch(event.kind.id)]
    return [event for event in candidates if not any(_is_after(event, other, code) for other, code in codes)]


def _is_after(event: Event, cause: Event, code: int) -> bool:
    if event is cause or event.began_s is None or cause.began_s is None:
        return False
    if not same_node(event.place.node, cause.place.node):
        return False
    late_s = event.began_s - cause.began_s
    if event.kind.id.startswith("sxid_"):
        return cause.kind.id == _LOST_GPU and abs(late_s) <= _OF_ONE_FAULT_S
    if not _XID.fullmatch(event.kind.id) or event.device != cause.device or not -SLACK_S <= late_s <= INCIDENT_S:
        return False
    rule, other = (tables.xids().get(each) or tables.unknown_xid(each) for each in (int(event.kind.id[4:]), code))
    return rule.code != other.code and follows(rule, other, None)


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
    return event.kind.id in _SOFT or event.kind.id in _soft_xids() or details.tried_again(event)


@cache
def _soft_xids() -> frozenset[str]:
    """The Xids of the hardware with which a node may still carry jobs; not a contained memory error, which ends one."""
    return frozenset(
        f"xid_{code}"
        for code, rule in tables.xids().items()
        if rule.bootcheck is not Verdict.FAIL and rule.cause is not Cause.PROGRAM and code != _CONTAINED
    )


def _beside(root: Root, case: Case, ending: Ending) -> Root:
    """With the kernel message that names the GPU of a rank's error."""
    event = root.event
    if event is None or event.kind.side is Side.KERNEL or event.kind.cause is Cause.PROGRAM:
        return root
    near = [
        other
        for other in ending.events
        if other.kind.side is Side.KERNEL
        and other.device
        and _same_place(other, event)
        and _apart(other, event) <= _NEAR_S
    ]
    if not near:
        return root
    ranks = case.found.names.rank_at

    def order(other: Event) -> tuple[int, bool, float]:
        of_other_rank = ranks.get((other.place.node, other.device), event.place.rank) != event.place.rank
        return _weight(other), of_other_rank, abs((other.began_s or 0.0) - (event.began_s or 0.0))

    return replace(root, beside=min(near, key=order))


def _same_place(other: Event, event: Event) -> bool:
    """Whether a kernel message can be of the node of a rank's error; where that is unknown only by its own time."""
    if event.place.node:
        return same_node(other.place.node, event.place.node)
    return (event.late_s or 0.0) - (event.early_s or 0.0) <= _NEAR_S


def _apart(one: Event, other: Event) -> float:
    """Seconds between two events; none if one can have been at the time of the other."""
    if one.began_s is None or other.began_s is None:
        return float("inf")
    if (
        other.about
        and other.early_s is not None
        and other.early_s <= one.began_s <= max(other.late_s or 0.0, other.began_s)
    ):
        return 0.0
    return abs(one.began_s - other.began_s)


def _suspected(root: Root, case: Case) -> Root:
    """With the GPU that different programs met an Xid of their own kind on."""
    event = root.event
    blamed = (root.beside or event) if event is not None else None
    if event is None or blamed is None or blamed.kind.cause not in (Cause.PROGRAM, Cause.UNKNOWN):
        return root
    said = [blamed] if blamed.kind.side is Side.KERNEL else []
    if not said and event.kind.id.startswith("cuda_"):
        of_programs = suspect_gpu.of_programs(case.events)
        said = [each for each in of_programs if _same_place(each, event) and _apart(each, event) <= _NEAR_S]
    found = suspect_gpu.suspect(case.events, said[0]) if said and said[0].device else None
    return root if found is None else replace(root, programs=found.programs, beside=found.said)


def _blame(root: Root, ending: Ending) -> Root:
    """With the peer that most ranks name, if the error is one that a peer causes."""
    event = root.event
    if event is None or event.kind.cause is not Cause.FABRIC or not event.peer:
        return root
    complaints = [
        other
        for other in ending.events
        if other.peer and other.kind.cause is Cause.FABRIC and _apart(other, event) <= _NEAR_S
    ]
    said = [(other.peer, (other.log, other.place.rank, other.place.node)) for other in complaints]
    most = collectives.most_named(said or [(event.peer, None)])
    if most is None:
        return root
    peer, named_by, complaining = most
    first = min((other for other in complaints if other.peer == peer), key=_began, default=event)
    quoted = event if event.peer == peer or root.beside else first  # the line that is shown names whom the answer names
    return replace(root, event=quoted, named=peer, named_by=named_by, complaining=complaining)


def _of_failed_node(failed: Event, candidates: Sequence[Event]) -> Event:
    """Slurm notices minutes later that a node is gone: its earlier kernel message is the reason."""
    reasons = [
        event
        for event in candidates
        if event.kind.side is Side.KERNEL and not soft(event) and same_node(event.place.node, failed.place.node)
    ]
    return min(reasons, key=_began) if reasons else failed


def _laggards(case: Case, timed_out: set[int]) -> Laggards | None:
    known = set[int]().union(*(log.all_ranks() for log in job_logs(case)))
    known |= set(case.found.names.node_of_rank) | set(range(case.found.names.world))
    return collectives.laggards(case.found.reached, timed_out, known)
