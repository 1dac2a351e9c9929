"""A measured number against the device's own past: its newest runs, and what it was when it was accepted.

One value is held to the newest runs. What is lost little by little shows only against the first ones: the mean of the
newest runs, this one among them, is compared with the mean of the first, for several lengths of both (the change-point
model of Hawkins, Qiu and Kang 2003, with the first runs kept). The first runs never leave: what a device has lost since
it was accepted is reported until it is accepted again.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import NormalDist, median
from typing import NamedTuple

from nodegate.metric import Metric
from nodegate.numbers.comparison import (
    HINTS,
    Comparison,
    Margins,
    NoPeers,
    PeerGroup,
    beyond,
    floor_of,
    gap,
    limit_of,
    shown,
    worse_by,
)
from nodegate.numbers.peers import Earlier
from nodegate.numbers.spread import of_looks, of_median, reach, scale
from nodegate.records.verdict import Verdict

_OF_DIFFERENCES = 0.5  # degrees of freedom that each difference of two runs in a row gives to their robust spread
_KNOWN, _KNOWN_OF_FLEET = 16.0, 64.0  # degrees of freedom up to which a spread from elsewhere is added, of one device
_LEAST = 8.0  # and of several devices together, at least
_FEWEST_LOOKS = 3  # that tell how far they lie apart
_QUIET = 0.25  # of the usual noise: less is not believed, for runs of other days differ by more than looks of one
_CENTRED = 4  # devices from which the change of this run can be taken around their median
_FIRST = (1, 2, 4, 8, 16)  # how many of the first runs, and how many of the newest, are compared
_NEWEST = (2, 3, 4, 6, 8, 16, 32)
_SETTLED = 4  # of the first, the fewest once there are more than 32 runs: one lucky run is compared every night
_PAIR = 2
_NODES = 1250  # for whose nights `measured.past_z` is; of fewer, fewer numbers are compared
_RUNNING = 8  # newest runs that one value is held to
_TO_REJECT = 3  # minimum number of earlier values to reject by the past alone


@dataclass(frozen=True)
class Past:
    """A device's earlier values under equal conditions, oldest first: the first ones, and the newest."""

    values: Sequence[float]
    noise: float  # how far two runs of a good device lie apart: a standard deviation, as a part of the value
    freedom: float  # its degrees of freedom
    nodes: int = 1  # that are compared with their pasts in this run


class Pasts:
    """The pasts of a node's devices, for one quantity under equal conditions."""

    def __init__(self, alike: Sequence[Metric], earlier: Earlier | None) -> None:
        self._alike = alike
        self._values = {id(metric): earlier(metric) if earlier else () for metric in alike}
        self._own: tuple[float, float] | None = None

    def of(self, metric: Metric, group: PeerGroup | NoPeers, margins: Margins) -> Past | None:
        """The past of one of them; None where it has none.

        What the node's own runs do not yet tell of their noise is filled up with the spread of the other nodes, which
        holds the noise too, or with what the looks of this run tell, or such measurements have (Smyth 2004: the
        moderated variance).
        """
        values = self._values[id(metric)]
        if not values or not median(values):
            return None
        self._own = own, freedom = self._own or self._noise()
        spread = group.spread if isinstance(group, PeerGroup) else 0.0
        known = max(_LEAST, (_KNOWN_OF_FLEET if spread else _KNOWN) / len(self._alike))
        missing = max(0.0, known - freedom)
        squares = freedom * own**2 + missing * (spread or self._of_looks(margins)) ** 2
        nodes = group.nodes + 1 if isinstance(group, PeerGroup) else 1
        return Past(values, (squares / (freedom + missing)) ** 0.5, freedom + missing, nodes)

    def of_node(self, figure: Metric, group: PeerGroup | NoPeers, margins: Margins) -> Past | None:
        """The past of the median of all of them, from the runs in which each has a value."""
        runs = {len(values) for values in self._values.values()}
        if len(runs) != 1 or runs == {0}:
            return None
        values = [median(each) for each in zip(*self._values.values(), strict=True)]
        return Pasts([figure], lambda _figure: values).of(figure, group, margins)

    def _of_looks(self, margins: Margins) -> float:
        """How far the usual value of this run's looks may lie from the true one, by the looks at all its devices."""
        looks = min(len(metric.values) for metric in self._alike)
        if looks < _FEWEST_LOOKS:
            return margins.past_noise
        steps = [each for metric in self._alike for each in _differences(metric.values)]
        found = scale(steps) * math.sqrt(of_looks(looks)[1] / 2)
        return min(max(found, _QUIET * margins.past_noise), margins.past_noise)

    def _noise(self) -> tuple[float, float]:
        """The spread of all devices' differences from run to run (von Neumann 1941: no drift is in them)."""
        pasts = [(metric.judged, values) for metric in self._alike if (values := self._values[id(metric)])]
        parts = [each for _, values in pasts for each in _differences(values)]
        last = [(now - values[-1]) / abs(median(values)) if median(values) else 0.0 for now, values in pasts]
        if len(last) >= _CENTRED:
            parts += [each - median(last) for each in last]
        return scale(parts) / 2**0.5, _OF_DIFFERENCES * len(parts)


def _differences(values: Sequence[float]) -> Iterator[float]:
    middle = abs(median(values)) if values else 0.0
    if middle:
        yield from ((after - before) / middle for before, after in pairwise(values))


def history(
    metric: Metric, value: float, past: Past | None, margins: Margins, *, proven: bool, like_others: bool
) -> Comparison | None:
    """Against the device's own earlier values; None where they find nothing.

    Where another comparison passes the value (`proven`) its past only warns. Where the other nodes do (`like_others`)
    one run says nothing yet, only that it is measured again: of so many numbers a few are disturbed in every look.
    """
    if past is None:
        return None
    step = _step(metric, value, past, margins, proven=proven, like_others=like_others)
    if step and step.verdict is not Verdict.SKIP:
        return step
    return _lost(metric, value, past, margins) or step


def _step(
    metric: Metric, value: float, past: Past, margins: Margins, *, proven: bool, like_others: bool
) -> Comparison | None:
    """Against the newest runs: one run that is worse by more than the floor, and than chance explains."""
    newest = past.values[-_RUNNING:]
    usual = median(newest)
    spread = past.noise * abs(usual) * math.hypot(1, of_median(len(newest)))
    worse = worse_by(metric, value, usual)
    doubtful = spread * (margins.fleet_z if proven else reach(margins.fleet_doubted))
    if worse <= max(doubtful, _floor(metric, usual, margins.drift_floor, margins)):
        return None
    runs = f"{len(newest)} earlier runs of this node" if len(newest) > 1 else "an earlier run of this node"
    said = f"{gap(metric, value, usual)} the median {shown(usual, metric.unit)} of {runs}"
    if like_others:
        said += ": a warning if the next run is so too"
        return Comparison(Verdict.SKIP, "history", said, notable=True, again=True)
    least = max(doubtful, _floor(metric, usual, margins.history_floor, margins))
    sure = max(least, spread * _sure(past, margins))
    if worse <= sure:
        return Comparison(Verdict.SKIP, "history", again=True)
    rejects = not proven and metric.unit not in HINTS and len(past.values) >= _TO_REJECT
    limit = limit_of(metric, usual, sure, "history")
    return Comparison(Verdict.FAIL if rejects else Verdict.WARN, "history", said, limit)


class _Loss(NamedTuple):
    """The mean of the newest runs beside that of the first, and how many deviations lie between them."""

    sigmas: float
    newest: float
    of_newest: int
    first: float
    of_first: int


def _lost(metric: Metric, value: float, past: Past, margins: Margins) -> Comparison | None:
    """What the device has lost since it was accepted; None where nothing certain."""
    loss = max(_losses(metric, value, past, margins), key=lambda each: each.sigmas, default=None)
    if loss is None or loss.sigmas <= _sure(past, margins):
        return None
    first = f"first {loss.of_first} runs" if loss.of_first > 1 else "first run"
    behind = f"{gap(metric, loss.newest, loss.first)} that of its {first} ({shown(loss.first, metric.unit)})"
    said = f"the mean of its newest {loss.of_newest} runs is {behind}"
    half = _floor(metric, loss.first, margins.drift_floor, margins) / 2  # this run and the last are both beyond it
    return Comparison(Verdict.WARN, "history", said, limit_of(metric, loss.first, half, "history"))


def _losses(metric: Metric, value: float, past: Past, margins: Margins) -> Iterator[_Loss]:
    """Each pair of means that lie further apart than the floor, with this run and the last one both on that side."""
    values, runs = past.values, len(past.values) + 1
    best = max if metric.better == "higher" else min
    agreed = best(value, values[-1])
    fewest = _SETTLED if runs > max(_NEWEST) else 1
    firsts = [(count, sum(values[:count]) / count) for count in _FIRST if fewest <= count <= runs - min(_NEWEST)]
    top = best((mean for _, mean in firsts), default=agreed)
    if worse_by(metric, agreed, top) <= _floor(metric, top, margins.drift_floor, margins) / 2:
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
            if of_first + of_newest <= runs and lost > _floor(metric, first, margins.drift_floor, margins):
                spread = past.noise * abs(first) * math.sqrt(1 / of_first + 1 / of_newest)
                if worse_by(metric, agreed, first) > lost / 2:
                    yield _Loss(lost / spread if spread else math.inf, newest, of_newest, first, of_first)


def _sure(past: Past, margins: Margins) -> float:
    """The number of deviations that no good device reaches in a year of nights of so many nodes."""
    chance = (1 - NormalDist().cdf(margins.past_z)) * _NODES / min(past.nodes, _NODES)
    return reach(chance, past.freedom)


def _floor(metric: Metric, reference: float, relative: float, margins: Margins) -> float:
    return floor_of(metric, reference, margins.history_floor if metric.unit == "W" else relative, margins)
