"""How far a number is from what it is compared with, and the limit that follows from it."""

from nodegate.metric import Metric
from nodegate.numbers.comparison import shown
from nodegate.numbers.margins import Margins
from nodegate.records.finding import AT_LEAST, AT_MOST, Limit, LimitKind, NumberLimit

_SOURCES = {
    "fleet": ("the other nodes", LimitKind.FLEET),
    "inside": ("the rest of this node", LimitKind.NODE),
    "history": ("its own past", LimitKind.PAST),
}
HINTS = frozenset({"°C", "W"})  # why a device is slow, never that it is: no reason to reject a node


def beyond(metric: Metric, median: float, distance: float) -> float:
    """The value that is worse than the median by this distance."""
    return median - distance if metric.better == "higher" else median + distance


def limit_of(metric: Metric, bound: float, comparison: str) -> NumberLimit:
    """The limit that a comparison sets."""
    source, kind = _SOURCES[comparison]
    return Limit(bound, metric.unit, source, direction_of(metric), kind)


def floor_of(metric: Metric, relative: float, margins: Margins) -> float:
    """The floor as a part of the reference; for temperatures in °C, which have no zero that parts could be taken of."""
    if metric.unit == "°C":
        return margins.temperature_floor_c
    return margins.latency_floor if metric.unit == "µs" else relative


def scale_of(metric: Metric, reference: float) -> float:
    """What a floor is a part of, in the unit of the metric."""
    return 1.0 if metric.unit == "°C" else abs(reference)


def worse_by(metric: Metric, value: float, reference: float) -> float:
    """By how much the value is worse than the reference, in its unit; negative when it is better."""
    return reference - value if metric.better == "higher" else value - reference


def gap(metric: Metric, value: float, reference: float) -> str:
    """How a value lies to a reference: "4.9 % below", "12 °C above"."""
    word = "below" if value < reference else "above"
    if metric.unit == "°C" or not reference:
        return f"{shown(abs(value - reference), metric.unit)} {word}"
    return f"{100 * abs(value - reference) / abs(reference):.1f} % {word}"


def direction_of(metric: Metric) -> str:
    """Which way a limit of the metric bounds it."""
    return AT_LEAST if metric.better == "higher" else AT_MOST
