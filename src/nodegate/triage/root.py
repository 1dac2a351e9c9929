"""Which of the last errors was the first one: the rules of docs/guide/triage.md, in the order in which they apply."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from nodegate.kernel_log.program_xids import Suspicion
from nodegate.knowledge.words import Cause, Role, Side
from nodegate.triage import silence, suspect_gpu, waits
from nodegate.triage.candidates import ERROR_LINE, NEAR_S, NODE_FAILED, SOFT, apart, candidates, earliest, soft, weight
from nodegate.triage.episodes import Ending, began, job_logs
from nodegate.triage.events import Event
from nodegate.triage.place import same_node
from nodegate.triage.ras import Finding
from nodegate.triage.reading import Case
from nodegate.triage.silence import Silent, Unstarted
from nodegate.triage.waits import Laggards, Mismatch, Stall

TIME_OUT = "watchdog_timeout"
STOPPED = frozenset(("stopped_by_hangup", "stopped_by_interrupt"))


@dataclass(frozen=True)
class Root:
    """The first error, if there is one. `silent` and `unstarted` are hangs without a time-out."""

    event: Event | None = None  # None if only a hang or nothing was found
    hang: Event | None = None  # the first time-out of a hang without an error before it
    stall: Stall | None = None  # what the ranks' flight recorders show of one
    ras: Finding | None = None  # what NCCL said against ranks when it was asked
    mismatch: Mismatch | None = None
    laggards: Laggards | None = None
    named: str = ""  # the peer whom `named_by` of `complaining` ranks blame
    named_by: int = 0
    complaining: int = 0
    beside: Event | None = None  # the kernel message that names the device of a rank's error
    follows: bool = False  # only consequences were found
    names: Event | None = None  # the first of them that names whom most name
    timed_out: tuple[int, ...] = ()  # the ranks that reported the hang
    came: bool = False  # they are all ranks of the job
    silent: Silent | None = None
    unstarted: Unstarted | None = None
    suspicion: Suspicion | None = None  # why an Xid of applications speaks against the GPU

    @property
    def hangs(self) -> bool:
        """Whether the job hangs and no error says why."""
        return self.event is None and bool(self.hang or self.stall or self.ras or self.silent or self.unstarted)

    @property
    def asked(self) -> Finding | None:
        """What NCCL said, where nothing else names a rank."""
        named = self.event or self.stall or self.laggards or self.mismatch or self.silent or self.unstarted
        return None if named else self.ras


@dataclass(frozen=True)
class _Last:
    """The last episode as the rules see it. `event` is the earliest of the candidates, None if there is none."""

    case: Case
    ending: Ending
    time_outs: Sequence[Event]
    candidates: Sequence[Event]
    event: Event | None
    stall: Stall | None


def find_root(case: Case, ending: Ending) -> Root:
    """What the first of the rules says that applies to the last episode."""
    time_outs = [event for event in ending.events if event.kind.id == TIME_OUT]
    found = candidates(case, ending, time_outs)
    stall = waits.stall(case.found.dumps, ending.progress_s)
    last = _Last(case, ending, time_outs, found, earliest(found), stall)
    root = next(root for rule in _RULES if (root := rule(last)) is not None)
    return replace(root, stall=stall, ras=_asked_of_nccl(case, hangs=bool(root.hang)))


def _asked_of_nccl(case: Case, *, hangs: bool) -> Finding | None:
    """What NCCL said that says the most; what a job that goes on looks like as well only of one that hangs."""
    found = [each for each in case.found.ras if each.settled or hangs]
    return min(found, key=lambda each: each.order, default=None)


def _failed_node(last: _Last) -> Root | None:
    """A scheduler says that a node failed. It notices minutes later: an earlier kernel message is the reason."""
    failed = next((event for event in last.candidates if event.kind.id in NODE_FAILED), None)
    if failed is None:
        return None
    hard = (event for event in last.candidates if event.kind.side is Side.KERNEL and not soft(event))
    reasons = [event for event in hard if same_node(event.place.node, failed.place.node)]
    return _beside(Root(event=min(reasons, key=began, default=failed)), last.case, last.ending)


def _certain_error(last: _Last) -> Root | None:
    """The earliest is a first error, whatever the ranks say after it."""
    certain = last.event is not None and last.event.kind.role is Role.PRIMARY and last.event.kind.id not in SOFT
    return _error(last) if certain else None


def _hang(last: _Last) -> Root | None:
    """A collective hangs: ranks called different ones, or no error explains it, not even of the missing rank."""
    if not last.time_outs and last.stall is None:
        return None
    hang = _timed_out(last.case, last.time_outs, last.stall)
    event = last.event
    if hang.laggards and (event is None or event.kind.id in SOFT):
        event = _last_words(hang.laggards.ranks, last.ending.overcome) or event
    explained = event is not None and event.kind.id not in SOFT and not hang.mismatch
    return _error(replace(last, event=event)) if explained else hang


def _last_words(missing: Sequence[int], overcome: Sequence[Event]) -> Event | None:
    """The error of a rank that did not reach a collective, although other ranks went on for a time."""
    # A line without a time, after which its writer printed none, may be of any moment later than the time before it:
    # iterations of another worker do not show that the job got over it.
    said = [
        event
        for event in overcome
        if event.place.rank in missing
        and event.stamp is None
        and event.until is None
        and event.kind.role in (Role.PRIMARY, Role.EITHER)
        and event.kind.id != ERROR_LINE
    ]
    return min(said, key=lambda event: (event.kind.role is not Role.PRIMARY, event.log, event.line), default=None)


def _error(last: _Last) -> Root | None:
    """The earliest of the errors, certain or not, with who is to blame for it."""
    if last.event is None:
        return None
    return _suspected(_blame(_beside(Root(event=last.event), last.case, last.ending), last.ending), last.case)


def _asked(last: _Last) -> Root | None:
    """NCCL was asked while the job ran, and named ranks."""
    found = _asked_of_nccl(last.case, hangs=False)
    return Root(ras=found) if found else None


def _consequence(last: _Last) -> Root | None:
    """What is there only follows from an error that is not there; or the job was stopped from outside."""
    said = [each for each in last.ending.events if each.kind.role is Role.CONSEQUENCE]
    if said and said[0].kind.id in STOPPED:
        return Root(event=said[0])
    if not said:
        return Root(follows=True) if any(log.torn_down for log in last.case.logs) else None
    began_s = said[0].began_s
    near = [each for each in said if each.peer and (began_s is None or apart(each, said[0]) <= NEAR_S)]
    most = waits.most_named(_complaints(near))
    if most is None:
        return Root(follows=True)
    names = next(each for each in near if each.peer == most[0])
    return Root(follows=True, names=names, named=most[0], named_by=most[1], complaining=most[2])


def _without_a_word(last: _Last) -> Root:
    """NCCL's start was not completed by every rank that began it; else a worker fell silent; or nothing is wrong."""
    unstarted = silence.unstarted(last.case) if last.ending.iteration is None else None
    return Root(unstarted=unstarted, silent=None if unstarted else silence.silent(last.case, last.ending.progress_s))


_RULES: tuple[Callable[[_Last], Root | None], ...] = (
    _failed_node,
    _certain_error,
    _hang,
    _error,
    _asked,
    _consequence,
    _without_a_word,
)


def _timed_out(case: Case, time_outs: Sequence[Event], stall: Stall | None) -> Root:
    """A hang that no error explains: who timed out, who did not, and whether that is everybody."""
    ranks = {event.place.rank for event in time_outs if event.place.rank is not None}
    world = case.found.names.world
    root = Root(
        hang=min(time_outs, key=began, default=None),
        mismatch=stall.mismatch if stall and stall.mismatch else waits.mismatch(case.found.collectives),
        timed_out=tuple(sorted(ranks)),
        came=stall.came if stall else world > 0 and ranks >= set(range(world)),
    )
    if root.mismatch or (stall and stall.came):
        return root
    if stall and stall.behind:
        return replace(root, laggards=Laggards(stall.behind, "recorded"))
    known = set(case.found.names.node_of_rank).union(*(log.all_ranks() for log in job_logs(case)))
    return replace(root, laggards=waits.laggards(case.found.reached, ranks, known))


def _beside(root: Root, case: Case, ending: Ending) -> Root:
    """With the kernel message that names the GPU of a rank's error."""
    event = root.event
    if event is None or event.kind.side is Side.KERNEL or event.kind.cause is Cause.PROGRAM:
        return root
    node, by_time = event.place.node, (event.late_s or 0.0) - (event.early_s or 0.0) <= NEAR_S
    near = [
        other
        for other in ending.events
        if other.kind.side is Side.KERNEL
        and other.device
        and (same_node(other.place.node, node) if node else by_time)
        and apart(other, event) <= NEAR_S
    ]
    if not near:
        return root
    ranks = case.found.names.rank_at

    def order(other: Event) -> tuple[int, bool, float]:
        of_other_rank = ranks.get((other.place.node, other.device), event.place.rank) != event.place.rank
        return weight(other), of_other_rank, abs((other.began_s or 0.0) - (event.began_s or 0.0))

    return replace(root, beside=min(near, key=order))


def _suspected(root: Root, case: Case) -> Root:
    """With the GPU that different programs met an Xid of their own kind on."""
    event = root.event
    blamed = (root.beside or event) if event is not None else None
    if event is None or blamed is None or blamed.kind.cause not in (Cause.PROGRAM, Cause.UNKNOWN):
        return root
    said = [blamed] if blamed.kind.side is Side.KERNEL else []
    if not said and event.kind.id.startswith("cuda_"):
        said = suspect_gpu.of_rank(case.events, event)
    gpus = {(one.place.node, one.device): one for one in reversed(said) if one.device}
    found = suspect_gpu.suspicion(case.events, gpus.values()) if gpus else None
    return replace(root, suspicion=found[0], beside=found[1]) if found else root


def _blame(root: Root, ending: Ending) -> Root:
    """With the peer that most ranks name, if the error is one that a peer causes."""
    event = root.event
    if event is None or event.kind.cause is not Cause.FABRIC or not event.peer:
        return root
    complaints = [
        other
        for other in ending.events
        if other.peer and other.kind.cause is Cause.FABRIC and apart(other, event) <= NEAR_S
    ]
    most = waits.most_named(_complaints(complaints) or [(event.peer, None)])
    if most is None:
        return root
    peer, named_by, complaining = most
    first = min((other for other in complaints if other.peer == peer), key=began, default=event)
    quoted = event if event.peer == peer or root.beside else first  # the line that is shown names whom the answer names
    return replace(root, event=quoted, named=peer, named_by=named_by, complaining=complaining)


def _complaints(events: Sequence[Event]) -> list[tuple[str, object]]:
    return [(event.peer, (event.log, event.place.rank, event.place.node)) for event in events]
