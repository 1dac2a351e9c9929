"""The answer: what ended the job, where, of which class, why that is the root, what to do, and what followed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from nodegate.knowledge.words import Cause, Role, Side, Text
from nodegate.triage import reasons
from nodegate.triage.episodes import ending, job_logs
from nodegate.triage.groups import Group, fold_events
from nodegate.triage.place import Place
from nodegate.triage.root import Root, find_root, soft

if TYPE_CHECKING:
    from nodegate.triage.episodes import Ending
    from nodegate.triage.events import Event
    from nodegate.triage.reading import Case

# Errors that CUDA itself cannot name, and what they mostly turn out to be.
_SUSPECTED = {"cuda_unknown": Cause.HARDWARE}


@dataclass(frozen=True)
class Answer:
    """The result of the logs. Times are seconds since 1970 (UTC); None if unknown.

    `cause` is the class; `sure` is false if it is a suspicion. `failed` is false if there is no error.
    `nodes_fine` is true if the program failed and no kernel log speaks against its node.
    `where` is the node, rank and GPU of the first error; `device` its PCI address or NIC.
    """

    failed: bool
    cause: Cause
    sure: bool
    nodes_fine: bool
    sentence: Text
    where: Place
    device: str
    began_s: float | None
    root: Event | None
    meaning: Text
    action: Text
    failure_modes: tuple[str, ...]
    why: tuple[Text, ...]
    followed: tuple[Group, ...]
    overcome: tuple[Group, ...]
    iteration: int | None
    progress_s: float | None
    zone_s: float
    read: reasons.Read
    notes: tuple[str, ...]


def answer(case: Case) -> Answer:
    """Judge a case."""
    last = ending(case)
    root = find_root(case, last)
    event = root.event or root.hang
    cause, sure = _cause(root)
    where, device = _where(root, case)
    read = _read(case)
    meaning, action = reasons.meaning(root, where), reasons.action(root)
    nodes_fine = cause is Cause.PROGRAM and not _against_nodes(last)
    return Answer(
        failed=event is not None or root.follows,
        cause=cause,
        sure=sure,
        nodes_fine=nodes_fine,
        sentence=reasons.sentence(root, cause, sure=sure, fine=nodes_fine, where=where, meaning=meaning, read=read),
        where=where,
        device=device,
        began_s=event.began_s if event else None,
        root=event,
        meaning=meaning,
        action=action,
        failure_modes=event.kind.failure_modes if event else (),
        why=tuple(reasons.why(root, last, read)),
        followed=tuple(fold_events(each for each in last.events if each != event)),
        overcome=tuple(fold_events(each for each in last.overcome if each.kind.role is not Role.CONSEQUENCE)),
        iteration=last.iteration,
        progress_s=last.progress_s,
        zone_s=case.zone_s,
        read=read,
        notes=tuple(_notes(case)),
    )


def _cause(root: Root) -> tuple[Cause, bool]:
    """The class, and whether it is more than a suspicion."""
    if root.mismatch:
        return Cause.PROGRAM, True
    event = root.event
    if event is None:
        whole = root.hang is not None and root.laggards is None
        return (Cause.FABRIC, False) if whole else (Cause.UNKNOWN, False)
    if root.beside and (event.kind.cause is Cause.UNKNOWN or not soft(root.beside)):
        return root.beside.kind.cause, True
    if event.kind.id in _SUSPECTED:
        return _SUSPECTED[event.kind.id], False
    return event.kind.cause, event.kind.role is Role.PRIMARY and event.kind.cause is not Cause.UNKNOWN


def _where(root: Root, case: Case) -> tuple[Place, str]:
    """Node, rank and GPU to blame: the event's own, or the peer that the others name, or the missing rank."""
    names = case.found.names
    if root.named:
        node = names.node_of_address.get(root.named, root.named)
        return Place(node=node), root.event.device if root.event else ""
    ranks = root.laggards.ranks if root.laggards else root.mismatch.called[0][1] if root.mismatch else ()
    if ranks:
        return names.resolve(Place(rank=ranks[0])), ""
    if root.event is None:
        return Place(), ""
    place, beside = root.event.place, root.beside
    if beside is not None:
        gpu = beside.place.gpu if beside.place.gpu is not None else place.gpu
        return replace(place, gpu=gpu, text=""), beside.device
    return replace(_rank_of_gpu(place, case), text=""), root.event.device


def _rank_of_gpu(place: Place, case: Case) -> Place:
    """For a kernel message: the rank that ran on this GPU, if the logs show it."""
    if place.rank is not None or place.gpu is None or not place.node:
        return place
    names = case.found.names
    ranks = [
        rank
        for rank, gpu in names.gpu_of_rank.items()
        if gpu == place.gpu and names.node_of_rank.get(rank) == place.node
    ]
    return replace(place, rank=ranks[0]) if len(ranks) == 1 else place


def _against_nodes(last: Ending) -> bool:
    """Whether a kernel log of the last episode has any error that is not the program's own."""
    return any(
        event.kind.side is Side.KERNEL
        and event.kind.cause not in (Cause.PROGRAM, Cause.UNKNOWN)
        and event.kind.role in (Role.PRIMARY, Role.EITHER)
        for event in last.events
    )


def _read(case: Case) -> reasons.Read:
    jobs = job_logs(case)
    kernel = [log for log in case.logs if log.kernel and log.lines]
    nodes = {node for log in kernel for node in (log.nodes or {log.place.node}) if node}
    return reasons.Read(
        job_logs=len(jobs),
        kernel_logs=len(kernel),
        kernel_nodes=tuple(sorted(nodes)),
        ranks=len(set[int]().union(*(log.all_ranks() for log in jobs))),
        lines=sum(log.lines for log in case.logs),
        size_bytes=sum(log.size_bytes for log in case.logs),
    )


def _notes(case: Case) -> list[str]:
    """What was unusual about the logs; the same remark about several is one line."""
    said: dict[str, list[str]] = {}
    for log in case.logs:
        for note in log.notes.said:
            said.setdefault(note, []).append(log.name)
    notes = [
        f"{names[0]}{f' and {len(names) - 1} more' if len(names) > 1 else ''}: {note}" for note, names in said.items()
    ]
    notes += [f"not read: {why}" for why in case.unread[:20]]
    if case.passed_over:
        notes.append(f"{len(case.passed_over)} files skipped, the first: {case.passed_over[0]}")
    if case.found.left_out:
        notes.append(f"{case.found.left_out} more kinds of error were left out because there are too many")
    return notes
