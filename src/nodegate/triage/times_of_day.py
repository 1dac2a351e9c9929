"""Times of day that a line prints without their date: the date comes from the lines around it, or from the job's days.

Where nothing in the logs has a date, such times put the errors in order and are shown without one.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace

from nodegate.triage.clock import DAY_S, Stamp
from nodegate.triage.events import Event

_SLACK_S = 2.0  # by which lines of one writer may be out of order
_BESIDE_S = 3600.0  # before and after the dated lines of a job
_MOST_APART_S = DAY_S / 2  # else it is not known which of two times of day is the earlier one


def dated(events: Sequence[Event], job_s: Iterable[float], *, any_date: bool) -> list[Event]:
    """The events, with the date of those that have a time of day alone. Times are seconds since 1970.

    Args:
        events: all of them; the clock of their log has been turned to UTC.
        job_s: the times of the job's own lines that have a date.
        any_date: whether any log has one; if none has, the times are seconds of one day.
    """
    times = [*job_s]
    span = (min(times) - _BESIDE_S, max(times) + _BESIDE_S) if times else None
    clocks = [event.clock_s for event in events if event.clock_s is not None]
    in_order = not any_date and bool(clocks) and max(clocks) - min(clocks) <= _MOST_APART_S
    return [event if event.clock_s is None else _one(event, event.clock_s, span, in_order=in_order) for event in events]


def _one(event: Event, clock_s: float, span: tuple[float, float] | None, *, in_order: bool) -> Event:
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
