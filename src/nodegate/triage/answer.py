"""The answer: what ended the job, where, its class, why that is the root, what to do, and what followed."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

from nodegate.knowledge.words import Cause, Role, Side, Text
from nodegate.triage import details, launchers, meanings, reasons, suspect_gpu
from nodegate.triage.candidates import ERROR_LINE, soft
from nodegate.triage.episodes import Ending, ending, job_logs
from nodegate.triage.events import Event
from nodegate.triage.meanings import Advice
from nodegate.triage.notes import ACTION, doubt, kernel_log_helps, notes
from nodegate.triage.place import Place
from nodegate.triage.reading import Case
from nodegate.triage.recognised import Worth, lines_around
from nodegate.triage.remarks import Note
from nodegate.triage.root import Root, find_root
from nodegate.triage.silence import AT_START, late_start
from nodegate.triage.waits import Stall
from nodegate.triage.wording import Group, fold_events

# Errors that CUDA itself cannot name, and what they mostly turn out to be.
_WAITS_FOR_ANOTHER = frozenset(("store_connect",))  # the peer is to be looked at, not who complains
_MOST_OFF_S = 26 * 3600.0  # that a clock of another zone can differ
_SUSPECTED = {"cuda_unknown": Cause.HARDWARE}


@dataclass(frozen=True)
class Answer:
    """The result of the logs. Times are seconds since 1970 (UTC); None if unknown."""

    failed: bool  # false if there is no error and the logs show that the job is well
    cause: Cause  # the class
    sure: bool  # false if it is a suspicion
    nodes_fine: bool  # the program failed, and no kernel log speaks against its node
    sentence: Text
    where: Place  # node, rank and GPU of the first error
    places: tuple[Place, ...]  # of all ranks to be looked at
    device: str  # PCI address or NIC of the first error
    began_s: float | None
    began_after: bool  # the first error is later than `began_s`, and nothing says by how much
    root: Event | None
    meaning: Text
    action: Text
    advice: Advice
    failure_modes: tuple[str, ...]
    why: tuple[Text, ...]
    followed: tuple[Group, ...]
    overcome: tuple[Group, ...]
    iteration: int | None
    progress_s: float | None
    stall: Stall | None  # what the ranks waited in, by their flight recorders
    zone_s: float
    read: reasons.Read
    recognised: bool  # false where no error was found and nothing shows that the job is well
    worth: tuple[Worth, ...]  # lines to read
    notes: tuple[Note, ...]

    @property
    def ranks(self) -> tuple[int, ...]:
        """All ranks to be looked at."""
        return tuple(sorted({place.rank for place in self.places if place.rank is not None}))

    @property
    def nodes(self) -> tuple[str, ...]:
        """Their nodes, as far as they are known."""
        return _nodes(self.places)

    @property
    def pods(self) -> tuple[str, ...]:
        """Their pods."""
        return tuple(sorted({place.pod for place in self.places if place.pod}))


def answer(case: Case) -> Answer:
    """Judge a case."""
    last = ending(case)
    root = find_root(case, last)
    event = root.event or root.hang
    if event is not None and event in last.overcome:  # a missing rank's last words: it got over none of them
        last = replace(last, overcome=tuple(each for each in last.overcome if each.place != event.place))
    cause, sure = _cause(root, case)
    sure = sure and not _may_come_second(root, last)
    where, device = _where(root, case)
    where = launchers.completed(where, root.event, last.events)
    places = _to_look_at(root, where, case)
    why = tuple(reasons.why(root, last, case))
    read = _read(case)
    meaning, action = meanings.meaning(root, where, case), meanings.action(root, _nodes(places))
    if shared := meanings.alike(root, last, case):
        cause, where, places = Cause.ENVIRONMENT, Place(), tuple(Place(node=name) for name in shared)
        meaning, action = meanings.of_launch(shared, meaning), meanings.LAUNCH_ACTION
    nodes_fine = cause is Cause.PROGRAM and not _against_nodes(last, case)
    nodes_fine = nodes_fine and not (event and suspect_gpu.is_any(case.events, event))
    failed = event is not None or root.follows or root.hangs
    began_s, began_after = _began(root)
    helps = event is None or kernel_log_helps(cause, event.kind.failure_modes)
    advised = meanings.advice(root, cause, _nodes(places), failed=failed, sure=sure)
    said = reasons.sentence(root, cause, sure=sure, fine=nodes_fine, where=where, meaning=meaning, read=read)
    worth = lines_around(root.event)
    if unclear := None if failed else doubt(case, last):
        failed, (said, worth), action = True, unclear, ACTION
        meaning = said
    return Answer(
        failed=failed,
        cause=cause,
        sure=sure,
        nodes_fine=nodes_fine,
        sentence=said,
        where=where,
        places=places,
        device=device,
        began_s=began_s,
        began_after=began_after,
        root=event,
        meaning=meaning,
        action=action,
        advice=advised,
        failure_modes=event.kind.failure_modes if event else (),
        why=why,
        followed=fold_events(
            each
            for each in last.events
            if each != event and each.kind.id != ERROR_LINE and not (event and details.only_warns(each))
        ),
        overcome=fold_events(each for each in last.overcome if each.kind.role is not Role.CONSEQUENCE),
        iteration=last.iteration,
        progress_s=last.progress_s,
        stall=root.stall,
        zone_s=case.clocks.shown_s,
        read=read,
        recognised=unclear is None,
        worth=worth,
        notes=notes(
            case,
            [event for event in last.outside if _is_fault(event)],
            why=why,
            do=action if failed and helps else None,
            sure=sure and failed,
        ),
    )


def _began(root: Root) -> tuple[float | None, bool]:
    """When it began, and whether it is only known that it was after that. A kernel message beside it has the time."""
    event, beside = root.event or root.hang, root.beside
    if event is None:
        return (root.silent.last_s if root.silent else None), False
    if event.after_s is not None and beside and beside.began_s is not None and not beside.about:
        return beside.began_s, False
    return (event.began_s, False) if event.after_s is None else (event.after_s, True)


def _cause(root: Root, case: Case) -> tuple[Cause, bool]:
    """The class, and whether it is more than a suspicion."""
    if root.mismatch:
        return Cause.PROGRAM, True
    if root.suspicion:
        return Cause.HARDWARE, False
    event = root.event
    if event is None:
        return (Cause.FABRIC, False) if root.came and root.laggards is None else (Cause.UNKNOWN, False)
    if root.beside and (event.kind.cause is Cause.UNKNOWN or not soft(root.beside)):
        sure = not soft(root.beside) and case.clocks.is_sure(root.beside.log)
        return root.beside.kind.cause, sure and root.beside.kind.role is Role.PRIMARY
    if event.kind.id in _SUSPECTED:
        return _SUSPECTED[event.kind.id], False
    sure = event.kind.role is Role.PRIMARY and event.kind.cause is not Cause.UNKNOWN and not soft(event)
    if event.kind.side is Side.KERNEL and event.began_s is None:
        sure = sure and not any(log.first for log in case.logs if not log.kernel)  # it may be of another time
    return event.kind.cause, sure and case.clocks.is_sure(event.log)


def _where(root: Root, case: Case) -> tuple[Place, str]:
    """Node, rank and GPU to blame: the event's own, or the peer that the others name, or the missing rank."""
    names = case.found.names
    if root.named.startswith("rank "):
        return _of_rank(int(root.named[5:]), case), ""
    if root.named:
        node = names.node_of_address.get(root.named, root.named)
        return names.at_home(Place(node=node)), ""  # the NIC that the line names is of who complains
    if ranks := _missing(root):
        return _of_rank(ranks[0], case), ""
    if root.asked:
        return next((_at_address(place, case) for place in root.asked.places), Place()), ""
    if root.silent:
        rank = root.silent.ranks[0] if len(root.silent.ranks) == 1 else None
        return replace(names.resolve(replace(root.silent.place, rank=rank)), text=""), ""
    return (Place(), "") if root.event is None else _of_event(root, root.event, case)


def _missing(root: Root) -> tuple[int, ...]:
    """The ranks of a hang that are to blame: behind, not started, or in another collective than most."""
    behind = root.unstarted or root.laggards
    return behind.ranks if behind else root.mismatch.called[0][1] if root.mismatch else ()


def _of_rank(rank: int, case: Case) -> Place:
    """Where a rank ran: by what NCCL printed of it, else by the logs in which it reported anything."""
    known = case.found.names.resolve(Place(rank=rank))
    if known.node or known.pod:
        return known
    own = (event.place for event in case.events if event.place.rank == rank and (event.place.node or event.place.pod))
    return replace(next(own, known), text="")


def _to_look_at(root: Root, where: Place, case: Case) -> tuple[Place, ...]:
    if root.silent:
        return tuple(replace(where, rank=rank) for rank in root.silent.ranks) or (where,)
    if root.asked:
        return tuple(_at_address(place, case) for place in root.asked.places) or (where,)
    return (where, *(_of_rank(rank, case) for rank in _missing(root)))


def _at_address(place: Place, case: Case) -> Place:
    """A rank of which its address is known, and perhaps the node that has it."""
    names = case.found.names
    return names.resolve(replace(place, node=names.node_of_address.get(place.node, place.node)))


def _nodes(places: Iterable[Place]) -> tuple[str, ...]:
    return tuple(sorted({place.node for place in places if place.node}))


def _of_event(root: Root, event: Event, case: Case) -> tuple[Place, str]:
    names = case.found.names
    place, beside = event.place, root.beside
    late = late_start(case) if event.kind.id in AT_START else None
    if late and (late.place.node or late.place.pod):
        return late.place, ""
    if event.kind.id in _WAITS_FOR_ANOTHER and event.peer:
        peer = names.node_of_address.get(event.peer, event.peer)
        return names.at_home(Place(node=peer)), ""
    if beside is not None:
        gpu = beside.place.gpu if beside.place.gpu is not None else place.gpu
        rank = beside.place.rank if beside.place.rank is not None else place.rank
        return replace(place, node=beside.place.node, gpu=gpu, rank=rank, text=""), beside.device
    on_gpu = [rank for rank, gpu in names.gpu_of_rank.items() if gpu == place.gpu]
    ranks = [rank for rank in on_gpu if place.node and names.node_of_rank.get(rank) == place.node]
    rank = ranks[0] if place.rank is None and len(ranks) == 1 else place.rank
    return replace(place, rank=rank, text=""), event.device


def _may_come_second(root: Root, last: Ending) -> bool:
    """Whether a program's error without a time of its own may have been before the kernel message that is blamed."""
    event = root.event
    if event is None or event.kind.side is not Side.KERNEL or event.began_s is None:
        return False
    return any(
        each.about
        and each.kind.role is Role.PRIMARY
        and each.kind.cause is Cause.PROGRAM
        and (each.early_s is None or each.early_s <= event.began_s)
        for each in last.events
    )


def _against_nodes(last: Ending, case: Case) -> bool:
    """Whether a kernel log has any error of the job's time that is not the program's own."""
    # A clock without a zone may be hours off: then a fault of another hour may be of the job's time.
    without_a_zone = {log.name for log in case.logs if log.kernel and log.zone_s is None}
    times = [each.printed_s for each in case.events if each.kind.side is Side.USER and each.printed_s is not None]
    first_s, last_s = (min(times) - _MOST_OFF_S, max(times) + _MOST_OFF_S) if times else (-math.inf, math.inf)
    return any(
        event.log in without_a_zone
        and _is_fault(event)
        and not (event.stamp and event.stamp.zoned)
        and (event.printed_s is None or first_s <= event.printed_s <= last_s)
        for event in last.outside
    ) or any(
        event.kind.side is Side.KERNEL
        and event.kind.cause not in (Cause.PROGRAM, Cause.UNKNOWN)
        and event.kind.role in (Role.PRIMARY, Role.EITHER)
        for event in last.events
    )


def _is_fault(event: Event) -> bool:
    return event.is_fault and event.kind.cause is not Cause.HOST and not soft(event)


def _read(case: Case) -> reasons.Read:
    jobs = job_logs(case)
    kernel = [log for log in case.logs if log.kernel and log.lines]
    whole = [log for log in kernel if not log.remarks.lost]
    nodes = {node for log in whole for node in (log.nodes or {log.place.node}) if node}
    return reasons.Read(
        job_logs=len({log.part_of or log.name for log in jobs if log.size_bytes}),
        kernel_logs=len(kernel),
        kernel_nodes=tuple(sorted(nodes)),
        ranks=len(set[int]().union(*(log.all_ranks() for log in jobs))),
        lines=sum(log.lines for log in case.logs),
        size_bytes=sum(log.size_bytes for log in case.logs),
        dumps=len(case.found.dumps),
    )
