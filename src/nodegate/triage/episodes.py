"""Which events belong to the end of the job: not followed by progress, and not of another job or another day."""

from dataclasses import dataclass

from nodegate.knowledge.words import Side
from nodegate.triage.events import Event
from nodegate.triage.log import Log
from nodegate.triage.reading import Case

SKEW_S = 2.0  # by which the clocks of two nodes may differ
_UNDER_WAY_S = 10.0  # an iteration that had ended when the error struck may still be printed
_BEFORE_START_S = 60.0  # a node may break while the job starts and has not yet printed anything
_AFTER_END_S = 600.0
_INCIDENT_GAP_S = 600.0
_WARNINGS = ("nccl_warning", "nccl_ofi_start")
_VAGUE = frozenset((*_WARNINGS, "unknown_error", "error_line"))  # nothing is known of these but their look


@dataclass(frozen=True)
class Ending:
    """The last episode."""

    events: tuple[Event, ...]  # by the time they began; those without a time come last
    overcome: tuple[Event, ...]  # errors after which the training continued
    outside: tuple[Event, ...]  # kernel messages of another time
    iteration: int | None
    progress_s: float | None


def ending(case: Case) -> Ending:
    """Cut the logs at the last progress and at the ends of the job."""
    iteration, progress_s = _last_progress(case)
    final = {log.name: log.episode for log in case.logs}
    of_hosts = {log.name for log in case.logs if log.kernel}
    window = _window(case)
    done = any(log.finished for log in case.logs) and not any(log.torn_down for log in case.logs)
    kept: list[Event] = []
    overcome: list[Event] = []
    outside: list[Event] = []
    for event in case.events:
        inside = window is None or event.printed_s is None or window[0] <= event.printed_s <= window[1]
        if event.log in of_hosts and not inside:
            outside.append(event)
        elif event.episode < final[event.log] or _before(event, progress_s) or (done and _vague(event, progress_s)):
            overcome.append(event)
        else:
            kept.append(event)
    return Ending(tuple(sorted(kept, key=began)), tuple(overcome), tuple(outside), iteration, progress_s)


def began(event: Event) -> tuple[float, int]:
    """The order of events: by the time at which they began, then by their lines."""
    return (float("inf") if event.began_s is None else event.began_s, event.line)


def _before(event: Event, progress_s: float | None) -> bool:
    if progress_s is None or event.printed_s is None or (event.about and event.until is None):
        return False
    return (event.late_s or event.printed_s) < progress_s - _UNDER_WAY_S


def _vague(event: Event, progress_s: float | None) -> bool:
    """Whether only its look says that it is an error, and it may be from before: no failure of a job that ended."""
    # Of an exception that must be so because nothing says when it was; a warning of NCCL may come at the start.
    if not event.about or event.kind.id not in _VAGUE:
        return False
    may_be_early = event.early_s is not None and progress_s is not None and event.early_s < progress_s
    return event.until is None or (event.kind.id in _WARNINGS and may_be_early)


def _last_progress(case: Case) -> tuple[int | None, float | None]:
    found = [
        (case.clocks.seconds(log.iteration.stamp, log.name), log.iteration.number) for log in case.logs if log.iteration
    ]
    timed = [(when, number) for when, number in found if when is not None]
    if timed:
        return max(timed)[::-1]
    return max((number for _, number in found), default=None), None


def _window(case: Case) -> tuple[float, float] | None:
    """From when to when a kernel message can belong to the job; the last incident if the job's logs have no times."""
    ends = [
        case.clocks.seconds(stamp, log.name) for log in case.logs if not log.kernel for stamp in (log.first, log.last)
    ]
    ends += [event.printed_s for event in case.events if event.kind.side is Side.USER]
    if times := [when for when in ends if when is not None]:
        return min(times) - _BEFORE_START_S, max(times) + _AFTER_END_S
    # Nothing but kernel logs has times: the last run of messages without a pause of ten minutes.
    of_hosts = {log.name for log in case.logs if log.kernel}
    times = sorted(event.printed_s for event in case.events if event.printed_s is not None and event.log in of_hosts)
    start = len(times) - 1
    while start > 0 and times[start] - times[start - 1] <= _INCIDENT_GAP_S:
        start -= 1
    return (times[start], times[-1]) if times else None


def job_logs(case: Case) -> list[Log]:
    """What the job's processes printed: neither kernel logs nor dumps."""
    return [log for log in case.logs if not (log.kernel or log.dump)]
