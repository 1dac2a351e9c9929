"""Clocks of workers that are hours apart, by lines that both sides have; what cannot be estimated is said.

All workers of a job print the same iterations, and their watchdogs give up the same collective, within minutes. Where
such lines are hours apart, the clocks are: a container of another zone, a host whose clock is wrong.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median_low

from nodegate.triage.clock import Stamp
from nodegate.triage.events import Event
from nodegate.triage.log import Log

Seconds = Callable[[Stamp | None, str], float | None]

_APART_S = 2700.0  # by which one moment is printed at different times, at most: a collective waits for half an hour
_AGREE_S = 900.0  # by which the differences of several such lines may differ
_SAME_LENGTH_S = 300.0
_SHORT_S = 600.0  # a log that is shorter says nothing by its length
_HALF_HOUR_S = 1800.0
_BESIDE_S = 180.0  # of a half hour: a difference of zones
_ZONES_S = 26 * 3600.0  # that two zones differ, at most
_FAR_S = 3600.0
_ITERATION = "iteration"
_SEQUENCE = re.compile(r"SeqNum=(\d{1,12}), OpType=(\w{1,40})")


@dataclass(frozen=True)
class Skew:
    """Seconds by which the clock of a log is `ahead` of the others', by log."""

    ahead: dict[str, float] = field(default_factory=dict)
    wrong: frozenset[str] = frozenset()  # differ by no half hour
    by_length: frozenset[str] = frozenset()  # only begin and end at equal distances
    unknown: dict[str, float] = field(default_factory=dict)  # how far from the others; when is not known
    mixed: tuple[str, ...] = ()  # have several clocks each


@dataclass
class _Marked:
    """A job's log with the moments that other workers print too."""

    log: Log
    who: tuple[str, frozenset[int]]
    marks: dict[tuple[object, ...], float]
    first: float | None
    last: float | None


@dataclass
class _Group:
    """Logs whose clocks agree, and how far they are ahead of the first group's."""

    ahead_s: float
    by_length: bool = False
    members: list[_Marked] = field(default_factory=list)
    marks: dict[tuple[object, ...], _Marked] = field(default_factory=dict)

    def add(self, one: _Marked) -> None:
        self.members.append(one)
        for mark in one.marks:
            self.marks.setdefault(mark, one)


def find(logs: Sequence[Log], events: Sequence[Event], seconds: Seconds, fixed: Mapping[str, float]) -> Skew:
    """The clocks of the job's logs against each other; those in `fixed` were given by the user."""
    mixed = tuple(log.name for log in logs if log.mixed)
    said: dict[str, list[Event]] = defaultdict(list)
    for event in events:
        said[event.log].append(event)
    marked = [one for log in logs if not log.kernel and any((one := _marked(log, said[log.name], seconds)).who)]
    groups: list[_Group] = []
    for one in sorted(marked, key=lambda each: (-len(each.marks), each.log.name)):
        _sort_in(one, groups)
    if not groups:
        return Skew(mixed=mixed)
    right = min(groups, key=lambda group: _doubt(group, fixed))
    ahead: dict[str, float] = {}
    for group in groups:
        by_s = group.ahead_s - right.ahead_s
        half_hours = round(by_s / _HALF_HOUR_S) * _HALF_HOUR_S
        by_s = half_hours if abs(by_s - half_hours) <= _BESIDE_S else round(by_s)
        others = group.members if group is not right else ()
        ahead |= {one.log.name: by_s for one in others if one.log.name not in fixed}
    return Skew(
        ahead,
        frozenset(name for name, by_s in ahead.items() if by_s % _HALF_HOUR_S or abs(by_s) > _ZONES_S),
        frozenset(one.log.name for group in groups if group.by_length for one in group.members),
        {} if ahead else dict(_alone(marked, fixed)),
        mixed,
    )


def _doubt(group: _Group, fixed: Mapping[str, float]) -> tuple[int, bool, int, str]:
    """The order of trust in clocks: known by the user, naming their zone, of most logs, of the first worker."""
    known = sum(one.log.name in fixed for one in group.members)
    names_zone = any(one.log.zone_s is not None for one in group.members)
    return -known, not names_zone, -len(group.members), min(one.log.name for one in group.members)


def _marked(log: Log, events: Sequence[Event], seconds: Seconds) -> _Marked:
    marks: dict[tuple[object, ...], float] = {}
    if log.iteration is not None and (when := seconds(log.iteration.stamp, log.name)) is not None:
        marks[_ITERATION, log.iteration.number] = when
    for event in events:
        when, match = seconds(event.stamp, log.name), _SEQUENCE.search(event.text) if event.ran_s else None
        if match and when is not None:
            marks.setdefault((match[1], match[2]), when - event.ran_s)
    who = (log.place.pod or log.place.node, frozenset(log.all_ranks()))
    return _Marked(log, who, marks, seconds(log.first, log.name), seconds(log.last, log.name))


def _is_another(one: _Marked, other: _Marked) -> bool:
    """Whether these are two workers, and not two attempts of one."""
    (name, ranks), (other_name, other_ranks) = one.who, other.who
    if ranks and other_ranks:
        return not ranks & other_ranks
    return bool(name and other_name) and name != other_name


def _sort_in(one: _Marked, groups: list[_Group]) -> None:
    """Put a log into the group whose clock it shares; without a word on its clock into the first."""
    off: _Group | None = None
    for group in groups:
        found = _ahead(one, group)
        if found is None:
            continue
        by_s, by_length = found
        if abs(by_s) < _APART_S:
            group.add(one)
            return
        if off is None or off.by_length > by_length:
            off = _Group(group.ahead_s + by_s, by_length)
    if off is None and groups:
        groups[0].add(one)
        return
    new = off or _Group(0.0)
    new.add(one)
    groups.append(new)


def _ahead(one: _Marked, group: _Group) -> tuple[float, bool] | None:
    """By how much the clock of this log is ahead of the group's, and whether only its ends say so; None: unknown."""
    differences = []
    for mark, when in one.marks.items():
        owner = group.marks.get(mark)
        if owner is not None and _is_another(one, owner) and _fits(mark, one, owner):
            differences.append(when - owner.marks[mark])
    if differences:
        middle = median_low(differences)
        agree = all(abs(each - middle) <= _AGREE_S for each in differences)
        return (middle, False) if agree else None
    for other in group.members[:20]:
        if not _is_another(one, other) or one.first is None or one.last is None:
            continue
        if other.first is None or other.last is None or one.last - one.first < _SHORT_S:
            continue
        begins, ends = one.first - other.first, one.last - other.last
        if abs(begins - ends) <= _SAME_LENGTH_S:
            return begins, True
    return None


def _fits(mark: tuple[object, ...], one: _Marked, owner: _Marked) -> bool:
    """Whether both logs mean the same iteration: workers start together."""
    if mark[0] != _ITERATION or one.first is None or owner.first is None:
        return True
    return abs((one.marks[mark] - owner.marks[mark]) - (one.first - owner.first)) <= _FAR_S


def _alone(marked: Sequence[_Marked], fixed: Mapping[str, float]) -> Iterator[tuple[str, float]]:
    """Logs of other workers that end long before all others begin, or begin long after they ended."""
    timed = [one for one in marked if one.first is not None and one.last is not None]
    for one in timed:
        others = [other for other in timed if other is not one and _is_another(one, other)]
        if not others or len(others) + 1 < len(timed) or one.log.name in fixed or len(timed) > 1000:
            continue
        after = (one.first or 0.0) - max(other.last or 0.0 for other in others)
        before = min(other.first or 0.0 for other in others) - (one.last or 0.0)
        if max(after, before) > _FAR_S:
            yield one.log.name, after if after > before else -before
