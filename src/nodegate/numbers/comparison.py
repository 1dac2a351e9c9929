"""What every comparison of a measured number shares: the margins, the others, the words, and the outcome."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING

from nodegate.errors import UsageError
from nodegate.records.finding import AT_LEAST, AT_MOST, AnyLimit, Limit, LimitKind, NumberLimit

if TYPE_CHECKING:
    from nodegate.baseline.baseline import Baseline
    from nodegate.metric import Metric
    from nodegate.numbers.parts import Split
    from nodegate.records.verdict import Verdict

HINTS = frozenset({"°C", "W"})  # why a device is slow, never that it is: no reason to reject a node
_MOST = 1e12  # in every unit of measurement here far beyond any machine; squares of it are still numbers
_OF_A_NODE = 100  # numbers of a node in a run: by how many the chance of a needless warning is divided
_SOURCES = {
    "fleet": ("the other nodes", LimitKind.FLEET),
    "inside": ("the rest of this node", LimitKind.NODE),
    "history": ("its own past", LimitKind.PAST),
}


@dataclass(frozen=True)
class Margins:
    """How far a number of one node may be from what it is compared with: read from the baseline, `measured.*`.

    Parts of one unless the name says otherwise; docs/reference/limit-keys.md says what each means.
    """

    peers_min: float  # nodes with this value, the judged one among them, from which on the fleet is a judge
    fleet_floor: float
    fleet_z: float  # robust deviations of what is learned from
    fleet_wronged: float  # the chance that a fleet of good nodes has one that is called bad
    fleet_warned: float  # the chance that a good value is warned of
    fleet_doubted: float  # the chance that one as slow as is sought passes by luck, and is not looked at again
    latency_floor: float  # stands in place of all floors for times (µs)
    temperature_floor_c: float
    inside_floor: float
    history_floor: float
    drift_floor: float
    past_z: float  # deviations that no good device is behind its own past, of all numbers of a year
    past_noise: float
    slow_part_min: float
    fast_part_min: float
    batch_floor: float
    unequal_floor: float
    loose: float
    node_tolerance: float
    looking: bool = False  # whether it is about more looks, not about a verdict

    @staticmethod
    def of(baseline: Baseline) -> Margins:
        """The margins that a baseline gives.

        Raises:
            NotJudged: one is missing: without it a comparison would pass everything.
            UsageError: one is no positive number.
        """
        found: dict[str, float] = {}
        for name in (each.name for each in fields(Margins) if each.name != "looking"):
            key = f"measured.{name}" if name in _PLAIN else f"measured.{name}_percent"
            limit = baseline.number(key)
            if not limit.value > 0:
                said, hint = f"{key} must be a number above 0, not {limit.value!r}", f"it comes from {limit.source}"
                raise UsageError(said, hint=hint)
            found[name] = limit.value if name in _PLAIN else limit.value / 100
        found["fleet_warned"] /= _OF_A_NODE
        return Margins(**found)  # type: ignore[arg-type]  # all but `looking` are numbers


_PLAIN = frozenset({"peers_min", "fleet_z", "temperature_floor_c", "past_z"})  # keys that are not in per cent


@dataclass(slots=True)  # not frozen: a fleet has half a million
class PeerGroup:
    """The values of the other nodes, in the metric's unit."""

    nodes: int
    count: int  # values
    median: float
    spread: float  # how far a good value lies from it, as a part of it: all slots, each around its own median
    freedom: float  # how well that is known, in degrees of freedom
    judged: int  # values of all nodes and slots
    device: str = ""  # the part that was compared, slot with slot; empty when all devices of a node are
    split: Split | None = None  # the slow and the fast part of the fleet, this node included
    unequal: str = ""  # with which other software this node measured, where too few have the same
    scatter: float = 0.0  # how far one look at a part lies from its value, as a part of it
    disturbed: float = 0.0  # the share of looks that are far worse


@dataclass(frozen=True)
class FewPeers:
    """The values of the few other nodes, one of each, and how far apart good ones lie, as a part of them."""

    values: tuple[float, ...]
    spread: float
    freedom: float


@dataclass(frozen=True)
class NoPeers:
    """Why nothing proves a value. `launches` are those of the few other launches of this size, `few` the few others."""

    reason: str
    launches: tuple[float, ...] = ()
    few: FewPeers | None = field(default=None, compare=False)
    scatter: float = field(default=0.0, compare=False)  # as in `PeerGroup`


@dataclass(slots=True)  # not frozen: a fleet has a million
class Comparison:
    """The outcome of one comparison."""

    verdict: Verdict
    comparison: str
    said: str = ""  # what the limit does not say
    limit: AnyLimit | None = None
    notable: bool = False  # a reason for not judging that is worth saying even when another comparison passes
    again: bool = False  # nothing is said of it yet, but it has to be measured again


def believable(value: float) -> bool:
    """Whether a number can be a measurement at all: a node may send anything."""
    return math.isfinite(value) and 0 <= value < _MOST


def number(value: object) -> str:
    """A number as people read it, to four digits: 483.2, 1979, 2333."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return str(value)
    return f"{value:.0f}" if 1000 <= abs(value) < 1e15 else f"{value:.4g}"


def shown(value: object, unit: str) -> str:
    """A number with its unit."""
    return f"{number(value)} {unit}".rstrip()


def beyond(metric: Metric, median: float, distance: float) -> float:
    """The value that is worse than the median by this distance."""
    return median - distance if metric.better == "higher" else median + distance


def worse_by(metric: Metric, value: float, reference: float) -> float:
    """By how much the value is worse than the reference, in its unit; negative when it is better."""
    return reference - value if metric.better == "higher" else value - reference


def limit_of(metric: Metric, reference: float, distance: float, comparison: str) -> NumberLimit:
    """The limit that a comparison sets: by this distance worse than the reference."""
    source, kind = _SOURCES[comparison]
    return Limit(round(beyond(metric, reference, distance), 6), metric.unit, source, direction_of(metric), kind)


def direction_of(metric: Metric) -> str:
    """Which way a limit of the metric bounds it."""
    return AT_LEAST if metric.better == "higher" else AT_MOST


def floor_of(metric: Metric, reference: float, relative: float, margins: Margins) -> float:
    """This part of the reference, in the unit of the metric; temperatures have no zero that parts could be taken of."""
    if metric.unit == "°C":
        return margins.temperature_floor_c
    return abs(reference) * (margins.latency_floor if metric.unit == "µs" else relative)


def gap(metric: Metric, value: float, reference: float) -> str:
    """How a value lies to a reference: "4.9 % below", "12 °C above"."""
    word = "below" if value < reference else "above"
    if metric.unit == "°C" or not reference:
        return f"{shown(abs(value - reference), metric.unit)} {word}"
    return f"{100 * abs(value - reference) / abs(reference):.1f} % {word}"
