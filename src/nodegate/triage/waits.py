"""Who waits for whom: collectives that did not end when flight recorders were dumped, or that timed out in the logs."""

# ruff: noqa: RUF001 - Chinese punctuation
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from nodegate.knowledge.words import Text
from nodegate.triage.clock import shown
from nodegate.triage.events import Collective, Reached
from nodegate.triage.flight_recorder import Dump, Step
from nodegate.triage.wording import cut, rank_list

_LATER_S = 10.0  # progress that is so much later than a dump is of a job that went on, or of its next start
_OF_ONE_STEP_S = 3600.0  # by which ranks may come to the same collective one after the other
# Every rank must give these the same sizes; others (all-to-all, gather, scatter, send) may differ by design.
_EVEN = ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce", "barrier")
_OF_ALL = ("all_", "reduce_scatter", "barrier")  # these end nowhere before every rank came
_EVEN_IN_LOGS = (
    *("ALLREDUCE", "ALLGATHER", "REDUCE_SCATTER", "BROADCAST", "REDUCE"),
    *("_REDUCE_SCATTER_BASE", "_ALLGATHER_BASE"),
)


@dataclass(frozen=True)
class Mismatch:
    """One step at which ranks called different collectives. `called` maps each call to its ranks; the fewest first."""

    sequence: int
    called: tuple[tuple[str, tuple[int, ...]], ...]


@dataclass(frozen=True)
class Laggards:
    """Which ranks did not reach a collective, and the sign: `behind` in work enqueued, or `silent` about a time-out."""

    ranks: tuple[int, ...]
    sign: str


@dataclass(frozen=True)
class Wait:
    """An operation that did not end: the ranks that wait in it, that did not come, and that are not known to have."""

    operation: str
    sequence: int
    group: str
    sizes: str
    waiting: tuple[int, ...]
    behind: tuple[int, ...]
    unknown: tuple[int, ...]
    since_s: float
    enqueued: bool = False  # `behind` enqueued it, but their GPUs did not start what most of the others started
    mismatch: Mismatch | None = None


@dataclass(frozen=True)
class Stall:
    """What the ranks wait in. `behind` are the ranks that others wait for and that do not wait themselves."""

    wait: Wait
    behind: tuple[int, ...]
    mismatch: Mismatch | None

    @property
    def came(self) -> bool:
        """Whether every rank of the group came."""
        return not (self.behind or self.wait.behind or self.wait.unknown or self.mismatch)


def stall(dumps: Mapping[int, Dump], progress_s: float | None) -> Stall | None:
    """What the job waits in, by the dumps; None if no rank waited, or if the training made progress later."""
    newest_s = max((dump.newest_s for dump in dumps.values()), default=0.0)
    if newest_s and progress_s is not None and progress_s > newest_s + _LATER_S:
        return None
    found = [*_collectives(dumps), *_pairs(dumps)]
    if not found:
        return None
    wrong = [wait for wait in found if wait.mismatch]
    if wrong:
        first = min(wrong, key=lambda wait: wait.since_s)
        return Stall(first, (), first.mismatch)
    waiting = {rank for wait in found for rank in wait.waiting}
    for late in (False, True):  # that a GPU did not start what it was given says less
        roots = [(wait, set(wait.behind) - (set() if late else waiting)) for wait in found if wait.enqueued == late]
        roots = [(wait, ranks) for wait, ranks in roots if ranks]
        if roots:
            wait, _ = max(roots, key=lambda root: (len(root[0].waiting), -root[0].since_s))
            return Stall(wait, tuple(sorted(set[int]().union(*(ranks for _, ranks in roots)))), None)
    first = max(found, key=lambda wait: (not wait.behind, not wait.unknown, len(wait.waiting), -wait.since_s))
    return Stall(first, (), None)


def _collectives(dumps: Mapping[int, Dump]) -> Iterator[Wait]:
    """The first collective of each group in which a rank waits."""
    groups = {group.key: group for dump in dumps.values() for group in dump.groups}
    steps: dict[str, dict[int, dict[int, Step]]] = defaultdict(dict)
    for rank, dump in dumps.items():
        for step in dump.steps:
            if step.peers is None:
                steps[step.group.key].setdefault(rank, {})[step.sequence] = step
    for key, by_rank in steps.items():
        pending = [step.sequence for own in by_rank.values() for step in own.values() if not step.ended]
        if pending:
            reached = {rank: dumps[rank].reached[key] for rank in dumps if key in dumps[rank].reached}
            yield _wait(min(pending), groups[key].ranks or tuple(sorted(reached)), by_rank, reached)


def _wait(
    sequence: int, members: Sequence[int], by_rank: Mapping[int, Mapping[int, Step]], reached: Mapping[int, int]
) -> Wait:
    ended = max(
        (at for own in by_rank.values() for at, step in own.items() if step.ended and _is(step, _OF_ALL)), default=0
    )
    known = {rank: at for rank, at in reached.items() if at >= ended}  # else the dump is older than the others
    here = {rank: own[sequence] for rank, own in by_rank.items() if sequence in own}
    waiting = {rank: step for rank, step in here.items() if not step.ended}
    behind = [rank for rank in members if known.get(rank, sequence) < sequence]
    unknown = [rank for rank in members if rank not in known]
    started = [rank for rank, step in waiting.items() if step.started]
    late = [rank for rank in waiting if rank not in started] if len(started) * 2 > len(members) else []
    only_late = bool(late) and not behind and not unknown
    first = min(waiting.values(), key=lambda step: step.created_s)
    near = {rank: step for rank, step in here.items() if abs(step.created_s - first.created_s) < _OF_ONE_STEP_S}
    calls = {
        rank: f"{step.operation} {step.sizes}" if _is(step, _EVEN) else step.operation for rank, step in near.items()
    }
    return Wait(
        first.operation,
        sequence,
        first.group.name,
        first.sizes,
        tuple(sorted(started if only_late else waiting)),
        tuple(sorted(late if only_late else behind)),
        tuple(sorted(unknown)),
        first.created_s,
        only_late,
        differing(sequence, calls),
    )


def _is(step: Step, names: tuple[str, ...]) -> bool:
    """Whether a collective is one of these; not what was enqueued as one with others."""
    return step.operation.partition(":")[2].lstrip("_").startswith(names) and " + " not in step.operation


def _pairs(dumps: Mapping[int, Dump]) -> Iterator[Wait]:
    """The first sends and recvs of each rank that did not end. The numbers of two ranks cannot be compared."""
    pending = {
        rank: next((step for step in dump.steps if step.peers and not step.ended), None) for rank, dump in dumps.items()
    }
    for rank, step in pending.items():
        if step is None:
            continue
        others = {peer: pending.get(peer) for peer in step.peers or ()}
        behind = [peer for peer, own in others.items() if peer in dumps and not (own and rank in (own.peers or ()))]
        unknown = [peer for peer in others if peer not in dumps]
        said = (step.operation, step.sequence, step.group.name, step.sizes)
        yield Wait(*said, (rank,), tuple(behind), tuple(unknown), step.created_s)


def meaning(found: Stall) -> Text:
    """What the ranks wait in, and for whom."""
    wait, waiting, behind = found.wait, _ranks(found.wait.waiting), _ranks(found.behind)
    what = f"{wait.operation} (SeqNum {wait.sequence}, {wait.group})"
    if found.behind and found.wait.enqueued:
        return Text(f"the GPU of {behind} did not start {what}", f"{behind} 的 GPU 没有开始执行 {what}")
    if found.behind:
        return Text(f"{behind} did not come to {what}", f"{behind} 没有进入 {what}")
    if found.came:
        return Text(f"{what} hangs although every rank of its group came", f"组内所有 rank 都已进入 {what}，但仍然挂起")
    if found.wait.unknown:
        unknown = _ranks(found.wait.unknown)
        return Text(
            f"{what} hangs: {waiting} came to it; no dump shows whether {unknown} did",
            f"{what} 挂起：{waiting} 已进入；没有转储说明 {unknown} 是否进入",
        )
    return Text(f"ranks wait for each other: {waiting} in {what}", f"rank 之间相互等待：{waiting} 在 {what} 中")


def why(found: Stall, zone_s: float) -> Iterator[Text]:
    """What the dumps show of it."""
    wait = found.wait
    if wait.since_s and not found.mismatch:
        clock, waiting, sizes = shown(wait.since_s, zone_s=zone_s), _ranks(wait.waiting), cut(wait.sizes, 120)
        yield Text(
            f"{waiting} enqueued it at {clock}, sizes {sizes}, and it did not end (flight recorder)",
            f"{waiting} 于 {clock} 提交，大小 {sizes}，尚未结束（flight recorder）",
        )
    if found.behind and wait.unknown:
        unknown = _ranks(wait.unknown)
        yield Text(f"no dump shows how far {unknown} came", f"没有转储说明 {unknown} 的进度")


def _ranks(ranks: Iterable[int]) -> str:
    return f"rank {rank_list(ranks)}"


def mismatch(collectives: Iterable[Collective]) -> Mismatch | None:
    """The first step at which ranks of one group called different operations, or sizes that should be equal."""
    steps: dict[tuple[str, int], dict[int, Collective]] = defaultdict(dict)
    for each in collectives:
        if each.rank is not None:
            steps[each.group, each.sequence].setdefault(each.rank, each)
    for (_, sequence), ranks in sorted(steps.items(), key=lambda step: step[0][1]):
        calls = {
            rank: f"{each.operation} NumelIn={each.numel_in} NumelOut={each.numel_out}"
            if each.operation in _EVEN_IN_LOGS and each.numel_in
            else each.operation
            for rank, each in ranks.items()
        }
        if found := differing(sequence, calls):
            return found
    return None


def differing(sequence: int, calls: Mapping[int, str]) -> Mismatch | None:
    """What the ranks called at one step, if it is not the same."""
    called: dict[str, list[int]] = defaultdict(list)
    for rank, call in sorted(calls.items()):
        called[call].append(rank)
    rows = sorted(called.items(), key=lambda row: (len(row[1]), row[0]))
    return Mismatch(sequence, tuple((call, tuple(ranks)) for call, ranks in rows)) if len(rows) > 1 else None


def laggards(reached: Sequence[Reached], timed_out: set[int], known: set[int]) -> Laggards | None:
    """The ranks that the others waited for, by how far each got and whose watchdog gave up of those that left a log.

    None if all of them reached it, or if the logs do not show it.
    """
    groups: dict[str, dict[int, int]] = defaultdict(dict)
    for each in reached:
        if each.rank is not None and each.enqueued >= 0:
            groups[each.group].setdefault(each.rank, each.enqueued)
    for ranks in sorted(groups.values(), key=len, reverse=True):
        least, most = min(ranks.values()), max(ranks.values())
        behind = tuple(sorted(rank for rank, enqueued in ranks.items() if enqueued == least))
        if least < most and len(behind) * 2 <= len(ranks):
            return Laggards(behind, "behind")
    silent = known - timed_out
    if timed_out and silent and len(silent) <= len(timed_out):
        return Laggards(tuple(sorted(silent)), "silent")
    return None


def most_named(peers: Iterable[tuple[str, object]]) -> tuple[str, int, int] | None:
    """The peer that most of the complainers name, with how many name it and how many complain; None without one."""
    pairs = set(peers)
    most = Counter(peer for peer, _ in pairs).most_common(2)
    if not most or (len(most) > 1 and most[0][1] == most[1][1]):
        return None
    return (*most[0], len({who for _, who in pairs}))
