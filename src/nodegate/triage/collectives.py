"""Collectives that timed out: ranks that called different ones, and the rank that never reached it."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from nodegate.triage.events import Collective, Reached

# Every rank must give these the same sizes; others (all-to-all, gather, send) may differ by design.
_EVEN = ("ALLREDUCE", "ALLGATHER", "REDUCE_SCATTER", "_REDUCE_SCATTER_BASE", "_ALLGATHER_BASE", "BROADCAST", "REDUCE")


@dataclass(frozen=True)
class Mismatch:
    """One step at which ranks called different collectives. `called` maps each call to its ranks; the fewest first."""

    group: str
    sequence: int
    called: tuple[tuple[str, tuple[int, ...]], ...]


def mismatch(collectives: Iterable[Collective]) -> Mismatch | None:
    """The first step at which ranks of one group called different operations, or sizes that should be equal."""
    steps: dict[tuple[str, int], dict[int, Collective]] = defaultdict(dict)
    for each in collectives:
        if each.rank is not None:
            steps[each.group, each.sequence].setdefault(each.rank, each)
    for (group, sequence), ranks in sorted(steps.items(), key=lambda step: step[0][1]):
        calls = {
            rank: f"{each.operation} NumelIn={each.numel_in} NumelOut={each.numel_out}"
            if each.operation in _EVEN and each.numel_in
            else each.operation
            for rank, each in ranks.items()
        }
        if found := differing(group, sequence, calls):
            return found
    return None


def differing(group: str, sequence: int, calls: Mapping[int, str]) -> Mismatch | None:
    """What the ranks called at one step, if it is not the same."""
    called: dict[str, list[int]] = defaultdict(list)
    for rank, call in sorted(calls.items()):
        called[call].append(rank)
    rows = sorted(called.items(), key=lambda row: (len(row[1]), row[0]))
    return Mismatch(group, sequence, tuple((call, tuple(ranks)) for call, ranks in rows)) if len(rows) > 1 else None


@dataclass(frozen=True)
class Laggards:
    """Which ranks did not reach a collective, and the sign: `behind` in work enqueued, or `silent` about a time-out."""

    ranks: tuple[int, ...]
    sign: str


def laggards(reached: Sequence[Reached], timed_out: set[int], known: set[int]) -> Laggards | None:
    """The ranks that the others waited for; None if all of them reached it, or if the logs do not show it.

    Args:
        reached: how far each rank got, as its watchdog said.
        timed_out: the ranks whose watchdog gave up.
        known: every rank that left a log.
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
    (first, named), (_, second) = [*Counter(peer for peer, _ in pairs).most_common(2), ("", 0), ("", 0)][:2]
    return (first, named, len({who for _, who in pairs})) if named > second else None
