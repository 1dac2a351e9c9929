"""A measured number against others of its kind: the other nodes, the other devices of its node, its own past.

A robust deviation alone calls someone odd in every healthy fleet, so each comparison has a relative floor: half of the
effect that is sought, for a limit at the effect itself finds it half the time (simulated in
tests/numbers/test_slow_nodes_simulated.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from nodegate.finding import AT_LEAST, AT_MOST, Limit, LimitKind, NumberLimit
from nodegate.numbers.comparison import Comparison, nothing, shown
from nodegate.numbers.peers import NoPeers
from nodegate.numbers.spread import reach
from nodegate.verdict import Verdict

if TYPE_CHECKING:
    from nodegate.metric import Metric
    from nodegate.numbers.margins import Margins
    from nodegate.numbers.peers import PeerGroup
    from nodegate.numbers.split import Split

_SOURCES = {
    "fleet": ("the other nodes", LimitKind.FLEET),
    "inside": ("the rest of this node", LimitKind.NODE),
    "history": ("its own past", LimitKind.PAST),
}
_KINDS = 40  # of numbers that a run judges, each on its whole fleet: by how many the chance of a false alarm is divided
_EARLIER = 3  # earlier values of a device, from which on its past alone can reject it
_NOTABLE = 0.5  # of the floor: less than that is not worth a word, however sure
_HINTS = frozenset({"°C", "W"})  # why a device is slow, never that it is: no reason to reject a node


@dataclass(frozen=True)
class Reference:
    """The median of `count` other values, in the metric's unit; `of` says whose: "other GPUs of this node".

    `spread` is how far good ones lie from it, as a part of it, known with so many degrees of `freedom` from the
    `judged` values of its kind; 0 where that is not known, and only the floor counts.
    """

    median: float
    count: int
    of: str
    spread: float = 0.0
    freedom: float = 1.0
    judged: int = 1


def fleet(metric: Metric, value: float, group: PeerGroup | NoPeers, margins: Margins) -> Comparison:
    """Against the other nodes: worse than their median by more than the floor, and by more than chance explains.

    Beyond what one good value of a whole fleet reaches by chance it is a fail. Beyond what a good value reaches by
    itself it is doubtful, and measured again; what stays there is warned of. So is what lies within the floor and is
    nevertheless beyond chance: small but sure.
    """
    if isinstance(group, NoPeers):
        return _few_launches(metric, value, group, margins)
    floor = _floor(metric, margins.fleet_floor, margins)
    least = floor * _scale(metric, group.median)
    sure, doubtful = _by_chance(group, margins)
    worse_by = _worse_by(metric, value, group.median)
    behind = f"{_gap(metric, value, group.median)} the median {shown(group.median, metric.unit)} of {_whose(group)}"
    limit = _limit(metric, round(_beyond(metric, group.median, max(least, sure)), 6), "fleet")
    if worse_by > max(least, sure):
        return Comparison(Verdict.WARN if metric.unit in _HINTS else Verdict.FAIL, "fleet", behind, limit)
    if group.split and _in_slow_part(metric, value, group.split, floor):
        return _in_two_parts(metric, group.split, limit)
    if worse_by > max(least, doubtful):
        return Comparison(Verdict.WARN, "fleet", f"{behind}, which their spread may explain", limit)
    if worse_by > sure > 0 and worse_by > least * _NOTABLE and not _is_rough(metric):
        return Comparison(Verdict.WARN, "fleet", f"{behind}: little, but beyond chance", limit)
    return Comparison(Verdict.PASS, "fleet", f"median {shown(group.median, metric.unit)} of {_whose(group)}", limit)


def _few_launches(metric: Metric, value: float, nobody: NoPeers, margins: Margins) -> Comparison:
    """Two racks cannot say which one is slow, but that one is: told, and judged by the rails' rate."""
    top = max(nobody.launches, default=0.0) if metric.better == "higher" else 0.0
    if top - value <= margins.inside_floor * top:
        return Comparison(Verdict.SKIP, "fleet", nobody.reason)
    said = f"{_gap(metric, value, top)} the {shown(top, metric.unit)} of another launch over as many nodes"
    bound = round(_beyond(metric, top, margins.inside_floor * top), 6)
    return Comparison(Verdict.WARN, "fleet", said, _limit(metric, bound, "fleet"))


def inside(metric: Metric, value: float, others: Reference | None, margins: Margins, *, proven: bool) -> Comparison:
    """Against the other devices of the same node; for where there is no fleet, which knows what a slot may do."""
    return _against(metric, value, others, margins.inside_floor, margins, "inside", proven=proven)


def history(metric: Metric, value: float, past: Reference | None, margins: Margins, *, proven: bool) -> Comparison:
    """Against the device's own earlier values. One that is still as good as it must be only gets a warning.

    So does one with few of them: one earlier run may have been the odd one.
    """
    return _against(metric, value, past, margins.history_floor, margins, "history", proven=proven, least_count=_EARLIER)


def _against(  # noqa: PLR0917 - two callers, both above
    metric: Metric,
    value: float,
    reference: Reference | None,
    relative: float,
    margins: Margins,
    comparison: str,
    *,
    proven: bool,
    least_count: int = 1,
) -> Comparison:
    if reference is None:
        return nothing(comparison)
    floor = _floor(metric, relative, margins) * _scale(metric, reference.median)
    worse_by = _worse_by(metric, value, reference.median)
    sure, doubtful = _by_chance(reference, margins)
    if worse_by <= max(floor, doubtful):
        return nothing(comparison)
    said = f"{_gap(metric, value, reference.median)} the median {shown(reference.median, metric.unit)} of "
    said += f"{reference.count} {reference.of}"
    hint = proven or metric.unit in _HINTS or worse_by <= sure or reference.count < least_count
    limit = _limit(
        metric, round(_beyond(metric, reference.median, max(floor, doubtful if hint else sure)), 6), comparison
    )
    return Comparison(Verdict.WARN if hint else Verdict.FAIL, comparison, said, limit)


def _by_chance(others: PeerGroup | Reference, margins: Margins) -> tuple[float, float]:
    """How far below the median no good value of a whole fleet lies, and how far hardly a single one does.

    A warning rejects nobody: it takes the spread as it was found, also where few values tell it.
    """
    spread = others.spread * abs(others.median)
    if not spread:
        return 0.0, 0.0
    of_the_fleet = margins.wronged / (_KINDS * max(others.judged, 1))
    return spread * reach(of_the_fleet, others.freedom), spread * reach(margins.warned)


def _beyond(metric: Metric, median: float, distance: float) -> float:
    return median - distance if metric.better == "higher" else median + distance


def _is_rough(metric: Metric) -> bool:
    """Whether small differences of such a number are of no interest: heat, power, times of a few µs."""
    return metric.unit in _HINTS or metric.unit == "µs"


def _limit(metric: Metric, bound: float, comparison: str) -> NumberLimit:
    source, kind = _SOURCES[comparison]
    return Limit(bound, metric.unit, source, _direction(metric), kind)


def _floor(metric: Metric, relative: float, margins: Margins) -> float:
    """The floor as a part of the reference; for temperatures in °C, which have no zero that parts could be taken of."""
    if metric.unit == "°C":
        return margins.temperature_floor_c
    return margins.latency_floor if metric.unit == "µs" else relative


def _scale(metric: Metric, reference: float) -> float:
    return 1.0 if metric.unit == "°C" else abs(reference)


def _worse_by(metric: Metric, value: float, reference: float) -> float:
    """By how much the value is worse than the reference, in its unit; negative when it is better."""
    return reference - value if metric.better == "higher" else value - reference


def _gap(metric: Metric, value: float, reference: float) -> str:
    """How a value lies to a reference: "4.9 % below", "12 °C above"."""
    word = "below" if value < reference else "above"
    if metric.unit == "°C" or not reference:
        return f"{shown(abs(value - reference), metric.unit)} {word}"
    return f"{100 * abs(value - reference) / abs(reference):.1f} % {word}"


def _direction(metric: Metric) -> str:
    return AT_LEAST if metric.better == "higher" else AT_MOST


def _whose(group: PeerGroup) -> str:
    return f"{group.nodes} other nodes" + (f", {group.device} of each" if group.device else "")


def _in_slow_part(metric: Metric, value: float, split: Split, floor: float) -> bool:
    reach = floor * _scale(metric, split.fast)
    return min(_worse_by(metric, value, split.fast), _worse_by(metric, split.slow, split.fast)) > reach


def _in_two_parts(metric: Metric, split: Split, limit: NumberLimit) -> Comparison:
    slow, fast = shown(split.slow, metric.unit), shown(split.fast, metric.unit)
    said = f"one of {split.slow_nodes} slow nodes at about {slow}, while {split.fast_nodes} reach about {fast}"
    if split.slow_nodes >= split.fast_nodes:
        said += ": the median hides them"
    sure = split.sure and metric.unit not in _HINTS
    return Comparison(Verdict.FAIL if sure else Verdict.WARN, "fleet", said, limit)
