"""All logs of a failure, read one after the other into one set of events on one clock."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from nodegate.errors import UsageError
from nodegate.triage import grep, kernel_log, place, run_logs
from nodegate.triage.events import Events
from nodegate.triage.job_log import JobLogReader, Log
from nodegate.triage.place import Place
from nodegate.triage.read import chunks

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nodegate.knowledge.signature import Hit
    from nodegate.triage.clock import Stamp
    from nodegate.triage.events import Event
    from nodegate.triage.sources import Source, Sources


@dataclass(frozen=True)
class Case:
    """What the logs of one failure say. Times are seconds since 1970 in UTC; `zone_s` is the zone of the logs' clocks.

    `unread` are the logs that could not be read, with the reason. `passed_over` are files that are not logs.
    """

    logs: tuple[Log, ...]
    events: tuple[Event, ...]
    found: Events
    zone_s: float
    unread: tuple[str, ...]
    passed_over: tuple[str, ...]

    def seconds(self, stamp: Stamp | None) -> float | None:
        """A time of a log in seconds since 1970."""
        return None if stamp is None else stamp.epoch_s if stamp.zoned else stamp.epoch_s - self.zone_s


def read(sources: Sources, *, now_s: float, zone_s: float | None = None) -> Case:
    """Read everything. `zone_s` is the zone of times that name none; by default the one that other lines name.

    Raises:
        UsageError: nothing could be read.
    """
    events, hits = Events(), dict[str, "Hit | None"]()
    logs: list[Log] = []
    unread: list[str] = []
    for source in sources.logs:
        try:
            logs.append(_read_log(source, events, hits, now_s))
        except OSError as broken:  # noqa: PERF203 - one a log
            unread.append(f"{source.name}: {broken.strerror or broken}")
    for run in sources.runs:
        logs += run_logs.read_run(run, events)
    if not any(log.lines or log.size_bytes for log in logs):
        raise UsageError("; ".join(unread[:3]) or "the logs are empty", hint="give logs with content")
    zone = _zone(logs) if zone_s is None else zone_s
    case = Case(tuple(logs), (), events, zone, tuple(unread), sources.passed_over)
    return replace(case, events=tuple(_resolved(case)))


def _read_log(source: Source, events: Events, hits: dict[str, Hit | None], now_s: float) -> Log:
    if not source.kernel and grep.fits(source.name):
        try:
            with grep.Positions(source.name) as positions:
                return _read_by(source, events, hits, now_s, positions)
        except grep.GrepGaveUp:
            pass  # read it again with the search in Python: equal events are folded
    return _read_by(source, events, hits, now_s, None)


def _read_by(
    source: Source, events: Events, hits: dict[str, Hit | None], now_s: float, positions: grep.Positions | None
) -> Log:
    log = Log(source.name, source.kernel, Place(node=source.node) if source.node else place.of_path(source.name))
    with source.open() as stream:
        parts = chunks(stream, source.name, log.notes)
        first = next(parts, b"")
        log.kernel = log.kernel or kernel_log.looks_like(first[:16_384].decode("utf-8", "replace"), source.name)
        reader = (
            kernel_log.KernelLogReader(log, events, now_s=now_s)
            if log.kernel
            else JobLogReader(log, events, hits, now_s=now_s, positions=positions)
        )
        reader.read(_again(first, parts))
    return log


def _again(first: bytes, rest: Iterator[bytes]) -> Iterator[bytes]:
    if first:
        yield first
    yield from rest


def _zone(logs: list[Log]) -> float:
    """The zone that most logs name; UTC if none does."""
    named = Counter(log.zone_s for log in logs if log.zone_s is not None)
    return named.most_common(1)[0][0] if named else 0.0


def _resolved(case: Case) -> Iterator[Event]:
    """The events with their time in UTC, and with node and GPU of their rank."""
    names = case.found.names
    node_of_log = {log.name: next(iter(log.nodes)) for log in case.logs if len(log.nodes) == 1}
    for event in case.found.all():
        where = names.resolve(event.place)
        if not where.node:
            where = replace(where, node=node_of_log.get(event.log, ""))
        if where.gpu is None:
            at_bus = names.gpu_at.get((where.node, event.device))
            where = replace(where, gpu=where.local_rank if at_bus is None else at_bus)
        yield replace(event, place=where, printed_s=case.seconds(event.stamp))
