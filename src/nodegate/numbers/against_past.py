"""A measured number against the device's own past: its newest runs, and what it was when it was accepted.

One value is held to the newest runs. What is lost little by little shows only against the first ones: the mean of the
newest runs, this one among them, is compared with the mean of the first, for several lengths of both (the change-point
model of Hawkins, Qiu and Kang 2003, with the first runs kept; docs/reference/statistics.md). The first runs never
leave: what a device has lost since it was accepted is reported until it is accepted again.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from statistics import NormalDist, median

from nodegate.metric import Metric
from nodegate.numbers.comparison import Comparison, nothing, shown
from nodegate.numbers.gap import HINTS, beyond, floor_of, gap, limit_of, scale_of, worse_by
from nodegate.numbers.margins import Margins
from nodegate.numbers.own_past import Past
from nodegate.numbers.spread import of_median, reach
from nodegate.records.verdict import Verdict

_FIRST = (1, 2, 4, 8, 16)  # how many of the first runs, and how many of the newest, are compared
_NEWEST = (2, 3, 4, 6, 8, 16, 32)
_PAIR = 2
_NODES = 1250  # for whose nights `measured.past_z` is; of fewer, fewer numbers are compared
_RUNNING = 8  # newest runs that one value is held to
_TO_REJECT = 3  # minimum number of earlier values to reject by the past alone


def history(
    metric: Metric, value: float, past: Past | None, margins: Margins, *, proven: bool, like_others: bool
) -> Comparison:
    """Against the device's own earlier values.

    Args:
        metric: what was measured.
        value: of its attempts the one that is judged.
        past: the earlier values; None where there are none.
        margins: how far is too far.
        proven: another comparison passes the value: then its past only warns.
        like_others: the other nodes do. Then one run says nothing yet, only that it is measured again: of so many
            numbers a few are disturbed in every look.
    """
    if past is None:
        return nothing("history")
    step = _step(metric, value, past, margins, proven=proven, like_others=like_others)
    if step.verdict in (Verdict.FAIL, Verdict.WARN):
        return step
    lost = _lost(metric, value, past, margins)
    return step if lost is None else lost


def _step(metric: Metric, value: float, past: Past, margins: Margins, *, proven: bool, like_others: bool) -> Comparison:
    """Against the newest runs: one run that is worse by more than the floor, and than chance explains."""
    newest = past.values[-_RUNNING:]
    usual = median(newest)
    spread = past.noise * abs(usual) * math.hypot(1, of_median(len(newest)))
    worse = worse_by(metric, value, usual)
    doubtful = spread * (margins.fleet_z if proven else reach(margins.doubted))
    if worse <= max(doubtful, _floor(metric, margins.drift_floor, margins) * scale_of(metric, usual)):
        return nothing("history")
    runs = f"{len(newest)} earlier runs of this node" if len(newest) > 1 else "an earlier run of this node"
    said = f"{gap(metric, value, usual)} the median {shown(usual, metric.unit)} of {runs}"
    if like_others:
        return Comparison(
            Verdict.SKIP, "history", f"{said}: a warning if the next run is so too", notable=True, again=True
        )
    least = max(doubtful, _floor(metric, margins.history_floor, margins) * scale_of(metric, usual))
    sure = max(least, spread * _sure(past, margins))
    if worse <= sure:
        return Comparison(Verdict.SKIP, "history", again=True)
    rejects = not proven and metric.unit not in HINTS and len(past.values) >= _TO_REJECT
    limit = limit_of(metric, round(beyond(metric, usual, sure), 6), "history")
    return Comparison(Verdict.FAIL if rejects else Verdict.WARN, "history", said, limit)


@dataclass(frozen=True)
class _Loss:
    """The mean of the newest runs beside that of the first, and how many deviations lie between them."""

    sigmas: float
    newest: float
    of_newest: int
    first: float
    of_first: int


def _lost(metric: Metric, value: float, past: Past, margins: Margins) -> Comparison | None:
    """What the device has lost since it was accepted; None where nothing certain."""
    floor = _floor(metric, margins.drift_floor, margins)
    losses = [loss for loss in _losses(metric, value, past, margins, floor) if loss.sigmas > _sure(past, margins)]
    if not losses:
        return None
    loss = max(losses, key=lambda each: each.sigmas)
    first = f"first {loss.of_first} runs" if loss.of_first > 1 else "first run"
    behind = f"{gap(metric, loss.newest, loss.first)} that of its {first} ({shown(loss.first, metric.unit)})"
    said = f"the mean of its newest {loss.of_newest} runs is {behind}"
    # half of the floor: this run and the last are both beyond it
    bound = round(beyond(metric, loss.first, floor / 2 * scale_of(metric, loss.first)), 6)
    return Comparison(Verdict.WARN, "history", said, limit_of(metric, bound, "history"))


def _losses(metric: Metric, value: float, past: Past, margins: Margins, floor: float) -> Iterator[_Loss]:
    """Each pair of means that lie further apart than the floor, with this run and the last one both on that side."""
    values, runs = past.values, len(past.values) + 1
    best = max if metric.better == "higher" else min
    agreed = best(value, values[-1])
    firsts = [(count, sum(values[:count]) / count) for count in _FIRST if count + min(_NEWEST) <= runs]
    top = best((mean for _, mean in firsts), default=agreed)
    if worse_by(metric, agreed, top) <= floor / 2 * scale_of(metric, top):
        return  # most devices: nothing can be lost
    for of_newest in (count for count in _NEWEST if count < runs):
        recent = [*values[1 - of_newest :], value]
        if of_newest > _PAIR:  # one disturbed run does not make the mean
            usual = median(recent)
            furthest = beyond(metric, usual, margins.fleet_z * past.noise * abs(usual))
            recent = [best(each, furthest) for each in recent]
        newest = sum(recent) / of_newest
        for of_first, first in firsts:
            lost = worse_by(metric, newest, first)
            if of_first + of_newest <= runs and lost > floor * scale_of(metric, first):
                spread = past.noise * abs(first) * math.sqrt(1 / of_first + 1 / of_newest)
                if worse_by(metric, agreed, first) > lost / 2:
                    yield _Loss(lost / spread if spread else math.inf, newest, of_newest, first, of_first)


def _sure(past: Past, margins: Margins) -> float:
    """The number of deviations that no good device reaches in a year of nights of so many nodes."""
    chance = (1 - NormalDist().cdf(margins.past_z)) * _NODES / min(past.nodes, _NODES)
    return reach(chance, past.freedom)


def _floor(metric: Metric, relative: float, margins: Margins) -> float:
    return floor_of(metric, margins.history_floor if metric.unit == "W" else relative, margins)
