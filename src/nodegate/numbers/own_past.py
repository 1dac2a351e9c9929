"""A device's own past: its values in earlier runs, and how far two of its runs lie apart by chance."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from nodegate.metric import Metric
from nodegate.numbers.margins import Margins
from nodegate.numbers.peers import Earlier, NoPeers
from nodegate.numbers.pool import PeerGroup
from nodegate.numbers.spread import of_looks, scale

_OF_DIFFERENCES = 0.5  # degrees of freedom that each difference of two runs in a row gives to their robust spread
_KNOWN, _KNOWN_OF_FLEET = 16.0, 64.0  # degrees of freedom up to which a spread from elsewhere is added, of one device
_LEAST = 8.0  # and of several devices together, at least
_FEWEST_LOOKS = 3  # that tell how far they lie apart
_QUIET = 0.25  # of the usual noise: less is not believed, for runs of other days differ by more than looks of one
_CENTRED = 4  # devices from which the change of this run can be taken around their median


@dataclass(frozen=True)
class Past:
    """A device's earlier values under equal conditions, oldest first: the first ones, and the newest.

    `noise` is how far two runs of a good device lie apart by chance: a standard deviation, as a part of the value,
    known with `freedom` degrees of freedom. `nodes` are compared with their pasts in this run.
    """

    values: Sequence[float]
    noise: float
    freedom: float
    nodes: int = 1


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
        if self._own is None:
            self._own = self._noise()
        own, freedom = self._own
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
        steps = [each for metric in self._alike for each in _differences(metric.values)]
        if looks < _FEWEST_LOOKS:
            return margins.past_noise
        found = scale(steps) * math.sqrt(of_looks(looks)[1] / 2)
        return min(max(found, _QUIET * margins.past_noise), margins.past_noise)

    def _noise(self) -> tuple[float, float]:
        """The spread of all devices' differences from run to run (von Neumann 1941: no drift is in them)."""
        parts = [each for metric in self._alike for each in _differences(self._values[id(metric)])]
        last = [_part(metric.judged, self._values[id(metric)]) for metric in self._alike if self._values[id(metric)]]
        if len(last) >= _CENTRED:
            middle = median(last)
            parts += [each - middle for each in last]
        return scale(parts) / 2**0.5, _OF_DIFFERENCES * len(parts)


def _differences(values: Sequence[float]) -> Iterator[float]:
    middle = abs(median(values)) if values else 0.0
    if middle:
        yield from ((after - before) / middle for before, after in pairwise(values))


def _part(now: float, values: Sequence[float]) -> float:
    middle = abs(median(values))
    return (now - values[-1]) / middle if middle else 0.0
