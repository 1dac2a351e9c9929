"""All logs of a failure, read one after the other into one set of events on one clock."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from statistics import median_low

from nodegate.errors import UsageError
from nodegate.knowledge.kernel_signatures import Hit
from nodegate.knowledge.words import Text
from nodegate.triage import (
    apart,
    flight_recorder,
    grep,
    held_memory,
    homes_of_pods,
    kernel_log,
    kubectl_objects,
    place,
    ras,
    remarks,
    zones,
)
from nodegate.triage.clock import DAY_S, Stamp, Times, dated
from nodegate.triage.events import Event, Events, Names
from nodegate.triage.job_log import JobLogReader
from nodegate.triage.log import Log
from nodegate.triage.place import Place
from nodegate.triage.read import begun, chunks, is_plain, members, text_of
from nodegate.triage.remarks import Remarks
from nodegate.triage.sources import STDIN, Source, Sources
from nodegate.triage.zones import Clocks

_HEAD_BYTES = 1 << 16
_SLACK_S = 2.0  # by which lines of one writer may be out of order
_BESIDE_S = 3600.0  # before and after the dated lines of a job
_MOST_APART_S = DAY_S / 2  # else it is not known which of two times of day is the earlier one


@dataclass(frozen=True)
class Case:
    """What the logs of one failure say. Times are seconds since 1970 in UTC."""

    logs: tuple[Log, ...]
    events: tuple[Event, ...]
    found: Events
    clocks: Clocks  # how the times were read
    unread: tuple[str, ...]  # the logs that could not be read, with the reason
    passed_over: tuple[tuple[str, Text], ...]  # files that are not logs, and why


def read(
    sources: Sources,
    *,
    now_s: float,
    zones_given: Sequence[str] = (),
    homes: Mapping[str, str] | None = None,
    nodes: Iterable[str] = (),
) -> Case:
    """Read everything. `zones_given` are the zones of timestamps that have none, `+08:00` or `LOG=+08:00`.

    By default they are found in the logs. `homes` says on which node a pod ran, `nodes` what else is known as a node.

    Raises:
        UsageError: nothing could be read.
    """
    reader = _Reader(Times(now_s, _about(sources.logs)), of_nodes=_numbers_of_nodes(sources.logs))
    names = reader.events.names
    names.home.update(homes or {})
    names.seen.update(nodes)
    logs: list[Log] = []
    unread = list(sources.unread)
    ordered = sorted(sources.logs, key=lambda source: source.kernel)
    searched = [each.name for each in ordered if not each.kernel and grep.fits(each.name)]
    with closing(grep.Searches(searched)) as searches:
        for source in ordered:
            try:
                logs += reader.source(source, searches)
            except OSError as broken:  # noqa: PERF203 - one a log
                unread.append(f"{source.name}: {broken.strerror or broken}")
    if sources.runs:
        from nodegate.triage import run_logs  # noqa: PLC0415 - only here: it imports half of nodegate

        logs += [log for run in sources.runs for log in run_logs.read_run(run, reader.events)]
    if not any(log.lines or log.size_bytes for log in logs):
        lost = [f"{log.name}: {log.remarks.lost.en}" for log in logs if log.remarks.lost]
        raise UsageError("; ".join([*unread, *lost][:3]) or "the logs are empty", hint="give logs with content")
    homes_of_pods.learn(logs, names)
    names.no_nodes = _names_of_files(logs, names)
    clocks = zones.find(logs, list(reader.events.all()), names, zones.given_zones(zones_given, logs))
    case = Case(tuple(logs), (), reader.events, clocks, tuple(unread), tuple(sources.passed_over))
    return replace(case, events=tuple(_placed(_dated(list(_resolved(case)), case))))


def _numbers_of_nodes(found: Iterable[Source]) -> frozenset[int]:
    """The ranks that the names of job logs give on several nodes, `gpu01/rank0.log` and `gpu02/rank0.log`."""
    nodes: dict[int, set[str]] = {}
    for where in (place.of_path(source.name) for source in found if not source.kernel):
        if where.rank is not None and where.node:
            nodes.setdefault(where.rank, set()).add(where.node)
    return frozenset(rank for rank, names in nodes.items() if len(names) > 1)


def _names_of_files(logs: Sequence[Log], names: Names) -> set[str]:
    """What looks like a node in the names of job logs, and is one by no line, kernel log or table of pods."""
    known = {"", *names.home.values(), *names.seen}.union(*(log.nodes for log in logs))
    return {log.place.node for log in logs if not log.kernel} - known - {log.place.node for log in logs if log.kernel}


def _about(found: Iterable[Source]) -> float | None:
    """About when the job ran: the first time with a year in the heads of its logs; None if there is none."""
    times = []
    for source in found:
        if source.kernel or source.name == STDIN or not Path(source.name).is_file():
            continue
        with suppress(OSError), source.open() as stream:
            head = stream.read(_HEAD_BYTES)
            if flight_recorder.is_dump(head):
                continue
            when = None if kernel_log.looks_like(text_of(head[:16_384]), source.name) else dated(text_of(head))
            times += [] if when is None else [when]
    return median_low(times) if times else None


@dataclass
class _Reader:
    """Reads the logs one after the other into `events`; `hits` remembers which kinds of line were looked up."""

    times: Times
    events: Events = field(default_factory=Events)
    hits: dict[str, Hit | None] = field(default_factory=dict)
    of_nodes: frozenset[int] = frozenset()  # numbers that each node's files have: local ranks

    def source(self, source: Source, searches: grep.Searches) -> list[Log]:
        """The logs of one source."""
        with suppress(grep.GrepGaveUp):  # then it is read again with the search in Python: equal events are folded
            return self._members(source, searches.of(source.name))
        return self._members(source, None)

    def _members(self, source: Source, positions: grep.Positions | None) -> list[Log]:
        logs: list[Log] = []
        with source.open() as stream:
            of_file = Remarks()
            for member, parts in members(stream, source.name, of_file):
                own = Remarks() if member else of_file
                name = f"{source.name}/{member}" if member else source.name
                where = Place(node=source.node) if source.node else place.of_path(name)
                if where.rank in self.of_nodes:
                    where = replace(where, rank=None, local_rank=where.rank)
                log = Log(name, source.kernel, where, own, times=self.times, in_archive=bool(member))
                logs += self._read(log, parts, positions)
            if of_file.said and not any(log.remarks is of_file for log in logs):
                logs.append(Log(source.name, source.kernel, Place(), of_file))
        return logs

    def _read(self, log: Log, parts: Iterator[bytes], positions: grep.Positions | None) -> list[Log]:
        """Read one log, which is a file or the member of an archive; several where the clocks of its writers differ."""
        head_of_file, parts = begun(parts)
        if flight_recorder.is_dump(head_of_file):
            flight_recorder.read(log, parts, self.events)
            return [log]
        parts = chunks(parts, log.remarks)
        first = next(parts, b"")
        head = text_of(first[:16_384])
        log.kernel = log.kernel or kernel_log.looks_like(head, log.name)
        if log.kernel:
            return kernel_log.read(log, _again([first], parts), self.events, self.hits)
        held = [first]
        if ras.looks_like(head):
            positions = None
            held += _held(parts, ras.MOST_BYTES)
            held = [_without_reports(log, b"".join(held), self.events)]
            if log.dump:
                return [log]
        if kubectl_objects.looks_like(head):
            positions = None
            held += _held(parts, kubectl_objects.MOST_BYTES)
            text = b"".join(held)
            tables = kubectl_objects.as_lines(text_of(text)) if len(text) <= kubectl_objects.MOST_BYTES else None
            held = [text if tables is None else tables.encode()]
        shares: list[apart.Share] = []
        if (of_files := apart.has_files(head)) or apart.has_writers(head):
            held += _held(parts, apart.MOST_BYTES)
            shares = _shares(log, b"".join(held), of_files=of_files)
        if shares:
            return [self._share(share, log) for share in shares]
        JobLogReader(log, self.events, self.hits, positions=positions).read(_again(held, parts))
        return [log]

    def _share(self, share: apart.Share, whole: Log) -> Log:
        """The lines of one writer, as a log of its own."""
        name = f"{whole.name} [{share.writer}]" if share.writer else whole.name
        where = share.place.or_else(whole.place)
        log = Log(name, kernel=False, place=where, times=whole.times, lines=share.begins, part_of=whole.name)
        log.remarks.add(whole.remarks)
        JobLogReader(log, self.events, self.hits).read(chunks(iter([share.text]), log.remarks))
        log.lines, log.size_bytes = share.own, share.size_bytes
        return log


def _shares(log: Log, text: bytes, *, of_files: bool) -> list[apart.Share]:
    """The logs by file, or by writer where their clocks differ; `log.mixed` if they do and the log cannot be split."""
    large = len(text) > apart.MOST_BYTES
    if of_files:
        return [] if large else apart.shares(text)
    in_file = large and not log.in_archive and is_plain(log.name)
    differ = apart.differ(apart.windows_of_file(log.name) if in_file else apart.windows_of(text), log.times)
    shares = apart.shares(text) if differ and not large else []
    log.mixed = differ and not shares
    return shares


def _without_reports(log: Log, held: bytes, events: Events) -> bytes:
    """What others wrote into a log with reports of NCCL, which are read."""
    if len(held) > ras.MOST_BYTES:
        log.remarks.lose(remarks.RAS_DAMAGED)
        return held
    text = text_of(held)
    rest = ras.read(log, text, events)
    if not rest.strip():
        log.dump, log.lines, log.size_bytes = True, text.count("\n"), len(held)
    return rest.encode()


def _held(parts: Iterator[bytes], most: int) -> Iterator[bytes]:
    """The next parts of a log, as far as they are held in memory."""
    size = 0
    for part in parts:
        yield part
        size += len(part)
        if size > most:
            return


def _again(held: Sequence[bytes], rest: Iterator[bytes]) -> Iterator[bytes]:
    yield from (part for part in held if part)
    yield from rest


def _nodes_of_logs(logs: Sequence[Log]) -> dict[str, str]:
    """The one node that the lines of a log name; where each worker has its own log, else the one that NCCL names."""
    hosts = {log.name: node for log in logs if len(log.hosts) == 1 for node in log.hosts}
    own = hosts if len(set(hosts.values())) > 1 else {}
    return own | {log.name: node for log in logs if len(log.nodes) == 1 for node in log.nodes}


def _resolved(case: Case) -> Iterator[Event]:
    """The events with their time in UTC, and with node and GPU of their rank."""
    names = case.found.names
    node_of_log = _nodes_of_logs(case.logs)
    for event in case.found.all():
        where = names.resolve(event.place)
        if not where.node and not where.pod:
            where = names.at_home(replace(where, node=node_of_log.get(event.log, "")))
        if where.gpu is None:
            at_bus = names.gpu_at.get((where.node, event.device))
            where = replace(where, gpu=where.local_rank if at_bus is None else at_bus)
        if where.rank is None and event.device:
            where = replace(where, rank=names.rank_at.get((where.node, event.device)))
        seconds = partial(case.clocks.seconds, log=event.log)
        printed = seconds(event.stamp)
        yield replace(
            event,
            kind=held_memory.kind(event, where.node, names),
            place=where,
            clock_s=None if event.clock_s is None else seconds(Stamp(event.clock_s, zoned=False)),  # in UTC, if known
            printed_s=printed,
            early_s=seconds(event.after) if printed is None else printed,
            late_s=seconds(event.until) if printed is None else printed,
        )


def _dated(events: list[Event], case: Case) -> list[Event]:
    """The events; to those that have a time of day alone the lines around them give the date, or the job's days."""
    # Where nothing in the logs has a date, such times put the errors in order and are shown without one.
    clocks = [event.clock_s for event in events if event.clock_s is not None]
    if not clocks:
        return events
    ends = [
        (log.name, case.clocks.seconds(stamp, log.name))
        for log in case.logs
        for stamp in (log.first, log.last, log.iteration.stamp if log.iteration else None)
    ]
    ends += [(event.log, event.printed_s) for event in events]
    of_kernel = {log.name for log in case.logs if log.kernel}
    job_s = [when for log, when in ends if when is not None and log not in of_kernel]
    span = (min(job_s) - _BESIDE_S, max(job_s) + _BESIDE_S) if job_s else None
    in_order = all(when is None for _, when in ends) and max(clocks) - min(clocks) <= _MOST_APART_S
    return [event if event.clock_s is None else _of_day(event, event.clock_s, span, in_order) for event in events]


def _of_day(event: Event, clock_s: float, span: tuple[float, float] | None, in_order: bool) -> Event:
    """An event whose line has a time of day: at the one moment at which it can have been, or not before the first."""
    early, late = event.early_s, event.late_s
    late = None if early is not None and late is not None and late < early else late
    low = early - _SLACK_S if early is not None else span[0] if span else None
    high = late + _SLACK_S if late is not None else span[1] if span else None
    if low is not None and high is not None:
        when = clock_s + math.ceil((low - clock_s) / DAY_S) * DAY_S  # the first moment at or after it
        known = when <= high < when + DAY_S
    elif early is not None or late is not None:
        return event
    else:
        when, known = clock_s % DAY_S, in_order
    if known:
        return replace(event, stamp=Stamp(when, zoned=True), printed_s=when, early_s=when, late_s=when)
    return replace(event, early_s=when) if early is not None and late is None else event


def _placed(events: list[Event]) -> Iterator[Event]:
    """The events, those without a time put where they probably belong: between the times of their neighbours."""
    # A line before the time-outs of a hang was printed when it began, or before.
    hang = min((event.began_s for event in events if event.ran_s and event.began_s is not None), default=None)
    last = max((event.printed_s for event in events if event.printed_s is not None), default=None)
    for event in events:
        early, late = event.early_s, event.late_s
        if early is not None and late is not None and late < early:
            late = None  # the clock jumps back: another log begins below
        if event.printed_s is not None or (early is None and late is None):
            yield event
            continue
        about = late if late is not None else early
        if hang is not None and (early is None or early <= hang) and (late is None or hang <= late):
            about = late = hang + event.ran_s
        bound = late if late is not None else last
        yield replace(
            event, printed_s=about, early_s=early, late_s=about if bound is None or about is None else max(bound, about)
        )
