"""Hangs without a time-out: a writer that fell silent first, ranks that did not finish NCCL's start."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from nodegate.triage.episodes import job_logs
from nodegate.triage.place import Place
from nodegate.triage.reading import Case
from nodegate.triage.writers import Writer

_SILENT_S = 120.0  # a writer that was silent for less may only be between two lines
_HABITS = 5  # times the usual pause between two lines of this writer
_LATE_START_S = 60.0
# Errors that come where a worker is late or never starts.
AT_START = frozenset(("store_connect", "store_timeout", "store_clients_missing", "rendezvous_failed"))


@dataclass(frozen=True)
class Silent:
    """A writer whose lines end before those of the others. Times are seconds since 1970."""

    who: str
    place: Place
    ranks: tuple[int, ...]
    last_s: float
    others_s: float


@dataclass(frozen=True)
class Unstarted:
    """Ranks that began NCCL's start and did not complete it, beside the number of those that did."""

    ranks: tuple[int, ...]
    completed: int
    world: int


@dataclass(frozen=True)
class LateStart:
    """The worker that came last to its launcher, and how long after the first one; `late_s` is None if it never did."""

    who: str
    place: Place
    rank: int | None
    late_s: float | None


def silent(case: Case, progress_s: float | None) -> Silent | None:
    """The writer that fell silent first, if the training made no progress after that."""
    ends = sorted(_ends(case), key=lambda end: end.last_s)
    if len(ends) < 2:
        return None
    first, newest = ends[0], ends[-1].last_s
    habit = max((each.habit_s for each in ends if each.who == first.who), default=0.0)
    patience = max(_SILENT_S, _HABITS * habit)
    if newest - first.last_s <= patience or (progress_s is not None and progress_s > first.last_s + patience):
        return None
    return Silent(first.who, first.place, first.ranks, first.last_s, newest)


@dataclass(frozen=True)
class _End:
    who: str
    place: Place
    ranks: tuple[int, ...]
    last_s: float
    habit_s: float


def _ends(case: Case) -> Iterator[_End]:
    for log in job_logs(case):
        if log.finished:
            continue
        for writer in log.writers.regular():
            habit, last = writer.habit_s(), case.seconds(writer.last, log=log.name)
            if habit is None or last is None:
                continue
            where = writer.place.or_else(log.place)
            named = "" if writer.name.startswith("rank ") else writer.name
            who = named or log.place.node or writer.name or log.name.rsplit("/", 1)[-1]
            yield _End(who, where, tuple(sorted(writer.ranks or log.all_ranks())), last, habit)


def unstarted(case: Case) -> Unstarted | None:
    """The ranks of the largest communicator that began and did not complete its start."""
    names = case.found.names
    starts = {key: done for key, done in names.starts.items() if key[2] == names.world}
    late = sorted({rank for (_, rank, _), done in starts.items() if not done})
    done = {rank for (_, rank, _), ended in starts.items() if ended}
    late = [rank for rank in late if rank not in done]
    return Unstarted(tuple(late), len(done), names.world) if late else None


def late_start(case: Case) -> LateStart | None:
    """The worker that began much later than the others or never, by the lines in which each says its rank."""
    came: list[tuple[float, int, Writer, str]] = []
    never: list[tuple[Writer, str]] = []
    for log in job_logs(case):
        for writer in log.writers.by_name.values():
            when = case.seconds(writer.anchor, log=log.name)
            if when is not None and writer.anchor_rank is not None:
                came.append((when, writer.anchor_rank, writer, log.name))
            elif writer.first is not None and (writer.name or len(log.writers.by_name) == 1):
                never.append((writer, log.name))
    if len(came) > len(never) == 1:
        writer, log_name = never[0]
        return LateStart(_name(writer, log_name), _place(writer, log_name, case), None, None)
    if len(came) < 2:
        return None
    when, rank, writer, log_name = max(came, key=lambda each: each[0])
    late_s = when - min(each[0] for each in came)
    if late_s <= _LATE_START_S:
        return None
    return LateStart(_name(writer, log_name), _place(writer, log_name, case), rank, late_s)


def _place(writer: Writer, log_name: str, case: Case) -> Place:
    own = next((log.place for log in case.logs if log.name == log_name), writer.place)
    name = writer.name or log_name.rsplit("/", 1)[-1].partition(".")[0]
    known = case.found.names
    where = replace(writer.place, rank=None, text="").or_else(replace(own, rank=None))
    return known.at_home(replace(where, pod=where.pod or (name if name in known.pods else "")))


def _name(writer: Writer, log_name: str) -> str:
    return writer.name or writer.place.pod or writer.place.node or log_name.rsplit("/", 1)[-1].partition(".")[0]
