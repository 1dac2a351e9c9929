"""What the fleet measured: for each metric the lowest, the median and the highest value, and who held them."""

import math
from array import array
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import takewhile
from statistics import median
from typing import NamedTuple

from nodegate.records.finding import AT_MOST, Finding, LimitKind
from nodegate.records.part import NODE, Kind, Part
from nodegate.records.run import NodeReport
from nodegate.records.verdict import GOOD, Verdict
from nodegate.words.catalogue import say

NOT_PASSED = (Verdict.FAIL, Verdict.ERROR, Verdict.WARN)  # of a value; one that was held to nothing has neither
MOST_NAMED = 60  # values of a metric that are named one by one: beyond them a picture is not read any more
_Key = tuple[str, str, str, str]  # platform, check, metric, unit
_Where = tuple[float, str, "Finding"]  # a value, the node, what was found
Place = tuple[str, Part, int]  # node, part, and how many more have the same value


class Applied(NamedTuple):
    """A limit that values were held to: its number, "at least" or "at most" or empty, and what it rests on."""

    value: float
    direction: str
    kind: LimitKind


@dataclass(frozen=True)
class Measurement:
    """All numeric values of one metric of one check on one platform. `mad` is the median absolute deviation.

    Each part counts, those folded into one finding too. `quantity` is the metric's name for people. `limit` is the one
    that most findings were held to, of several the lowest; None where there is no numeric limit. `values` are sorted.
    `limits` are all that were applied, `passed` is how many values passed, `accepted` are the sorted values of accepted
    nodes, `beyond` those that did not pass, and `named` some of them with node and part, the worst first.
    """

    platform: str
    check: str
    metric: str
    quantity: str
    unit: str
    values: Sequence[float]
    nodes: int
    median: float
    mad: float
    lowest_place: Place
    highest_place: Place
    limit: float | None
    limits: tuple[Applied, ...] = ()
    passed: int = 0
    accepted: Sequence[float] = ()
    beyond: Sequence[float] = ()
    named: tuple[tuple[float, str], ...] = ()

    @property
    def lowest_at(self) -> str:
        """Node and part, and how many more have the same value, in the language that is spoken."""
        return _said(*self.lowest_place)

    @property
    def highest_at(self) -> str:
        """As `lowest_at`."""
        return _said(*self.highest_place)

    @property
    def lowest(self) -> float:
        """The lowest value."""
        return self.values[0]

    @property
    def highest(self) -> float:
        """The highest value."""
        return self.values[-1]


def measurements(nodes: Iterable[NodeReport]) -> list[Measurement]:
    """The statistics of every metric that was measured as a number, by platform, check and metric."""
    found: dict[_Key, _Seen] = defaultdict(_Seen)
    for node in nodes:
        for record in node.records:
            for finding in record.findings:
                name = finding.metric or finding.quantity
                if name and (value := number(finding.observed)) is not None:
                    found[node.platform, record.check, name, finding.unit].add(value, node, finding)
    return [_measurement(key, found[key]) for key in sorted(found)]


class _Seen:
    """What was seen of one metric: numbers, and of the findings only those with the lowest and the highest."""

    def __init__(self) -> None:
        self.values = array("d")
        self.lowest: _Where | None = None
        self.highest: _Where | None = None
        self.limits: Counter[tuple[float, str]] = Counter()  # value and direction
        self._kinds = dict[tuple[float, str], list[LimitKind]]()
        self.passed, self.accepted = 0, array("d")
        self.beyond, self.named = array("d"), list[tuple[float, str]]()
        self.quantities: set[str] = set()
        self.nodes, self._node, self._good = 0, "", False

    def add(self, value: float, of: NodeReport, finding: Finding) -> None:
        """One finding; those of a node come one after the other."""
        node, values = of.node, (value,) * (1 + len(finding.also))
        self.values.extend(values)
        if of.node != self._node:
            self.nodes, self._node, self._good = self.nodes + 1, node, of.verdict in GOOD
        if self._good:
            self.accepted.extend(values)
        if finding.verdict is Verdict.PASS:
            self.passed += len(values)
        elif finding.verdict in NOT_PASSED:
            self.beyond.extend(values)
            self.named += [(value, _at(node, part)) for part in finding.parts[: MOST_NAMED - len(self.named)]]
        # of equal values the node by name, in whatever order the nodes come
        if self.lowest is None or value < self.lowest[0] or (value == self.lowest[0] and node < self.lowest[1]):
            self.lowest = value, node, finding
        if self.highest is None or value > self.highest[0] or (value == self.highest[0] and node >= self.highest[1]):
            self.highest = value, node, finding
        if (limit := finding.limit) and (least := number(limit.value)) is not None:
            key = (least, limit.direction)
            self.limits[key] += 1
            if (kinds := self._kinds.get(key)) is None or limit.kind is not kinds[-1]:
                self._kinds.setdefault(key, []).append(limit.kind)
        self.quantities.add(finding.quantity)

    @property
    def applied(self) -> list[Applied]:
        """The limits that values were held to."""
        return sorted({Applied(*key, kind) for key, kinds in self._kinds.items() for kind in kinds})


def number(value: object) -> float | None:
    """The value where it is a finite number (true and false are none), else None."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or abs(value) > 1e300 or math.isnan(value):
        return None
    return float(value)


def _measurement(key: _Key, seen: _Seen) -> Measurement:
    values = array("d", sorted(seen.values))  # a fleet has a million
    middle, applied = median(values), seen.applied
    held = Counter[float]()
    for (value, _), count in seen.limits.items():
        held[value] += count
    platform, check, metric, unit = key
    return Measurement(
        platform=platform,
        check=check,
        metric=metric,
        quantity=_in_common(seen.quantities) or metric,
        unit=unit,
        values=values,
        nodes=seen.nodes,
        median=middle,
        mad=median(abs(value - middle) for value in values),
        lowest_place=_place(seen.lowest, values),
        highest_place=_place(seen.highest, values),
        limit=max(held, key=lambda limit: (held[limit], -limit), default=None),
        limits=tuple(applied),
        passed=seen.passed,
        accepted=array("d", sorted(seen.accepted)),
        beyond=array("d", sorted(seen.beyond)),
        named=tuple(sorted(seen.named, reverse=any(each.direction == AT_MOST for each in applied))),
    )


def _in_common(quantities: set[str]) -> str:
    """What several quantities of one metric are called: of "peer GPU 0 to GPU 1" and "peer GPU 3 to GPU 2" "peer"."""
    first, last = min(quantities).split(), max(quantities).split()
    if first == last:
        return " ".join(first)
    common = takewhile(lambda pair: pair[0] == pair[1], zip(first, last, strict=False))
    return " ".join(word for word, _ in common).removesuffix("GPU").rstrip()


def _place(where: _Where | None, values: Sequence[float]) -> Place:
    """Node and part that have a value, and how many more do: values are sorted, so equal ones are at one end."""
    if where is None:
        return "", NODE, 0
    value, node, finding = where
    return node, finding.part, bisect_right(values, value) - bisect_left(values, value) - 1


def _said(node: str, part: Part, more: int) -> str:
    return say("{part} + {n} more", part=_at(node, part), n=more) if more else _at(node, part)


def _at(node: str, part: Part) -> str:
    return node if part.kind is Kind.NODE else f"{node} {part.said}"
