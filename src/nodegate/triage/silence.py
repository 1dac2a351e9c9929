"""Hangs without a time-out: a writer that fell silent first, ranks that did not finish NCCL's start."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from nodegate.triage.episodes import job_logs
from nodegate.triage.log import Log
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
    ends = sorted(_ends(case), key=lambda end: end[0])
    if len(ends) < 2:
        return None
    newest, first = ends[-1][0], ends[0][2]
    patience = max(_SILENT_S, *(_HABITS * habit for _, habit, each in ends if each.who == first.who))
    if newest - first.last_s <= patience or (progress_s is not None and progress_s > first.last_s + patience):
        return None
    return replace(first, others_s=newest)


def _ends(case: Case) -> Iterator[tuple[float, float, Silent]]:
    """Of each writer when its last line is of, how long it usually is silent, and what it is."""
    for log in job_logs(case):
        if log.finished:
            continue
        for writer in log.writers.regular():
            habit, last = writer.habit_s(), case.clocks.seconds(writer.last, log=log.name)
            if habit is None or last is None:
                continue
            where = writer.place.or_else(log.place)
            named = "" if writer.name.startswith("rank ") else writer.name
            who = named or log.place.node or writer.name or log.name.rsplit("/", 1)[-1]
            yield last, habit, Silent(who, where, tuple(sorted(writer.ranks or log.all_ranks())), last, last)


def unstarted(case: Case) -> Unstarted | None:
    """The ranks of the largest communicator that began and did not complete its start."""
    names = case.found.names
    began = {rank for _, rank, world in names.starts if world == names.world}
    done = {rank for (_, rank, world), ended in names.starts.items() if ended and world == names.world}
    return Unstarted(tuple(sorted(began - done)), len(done), names.world) if began - done else None


def late_start(case: Case) -> LateStart | None:
    """The worker that began much later than the others or never, by the lines in which each says its rank."""
    came: list[tuple[float, int, Writer, Log]] = []
    never: list[tuple[Writer, Log]] = []
    for log in job_logs(case):
        for writer in log.writers.by_name.values():
            when = case.clocks.seconds(writer.anchor, log.name)
            if when is not None and writer.anchor_rank is not None:
                came.append((when, writer.anchor_rank, writer, log))
            elif writer.first is not None and (writer.name or len(log.writers.by_name) == 1):
                never.append((writer, log))
    if len(came) > len(never) == 1:
        return _late(*never[0], case, None, None)
    if len(came) < 2:
        return None
    when, rank, writer, log = max(came, key=lambda each: each[0])
    late_s = when - min(each[0] for each in came)
    return _late(writer, log, case, rank, late_s) if late_s > _LATE_START_S else None


def _late(writer: Writer, log: Log, case: Case, rank: int | None, late_s: float | None) -> LateStart:
    known, of_file = case.found.names, log.name.rsplit("/", 1)[-1].partition(".")[0]
    where = replace(writer.place, rank=None, text="").or_else(replace(log.place, rank=None))
    name = writer.name or of_file
    where = known.at_home(replace(where, pod=where.pod or (name if name in known.pods else "")))
    return LateStart(writer.name or writer.place.pod or writer.place.node or of_file, where, rank, late_s)
