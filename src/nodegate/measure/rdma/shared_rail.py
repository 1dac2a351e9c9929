"""A rail that is slow on many nodes, and only that one: no NIC, but what they share, such as a leaf switch."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

from nodegate.numbers.margins import Margins
from nodegate.numbers.pool import PeerGroup
from nodegate.numbers.spread import reach
from nodegate.records.finding import AT_LEAST, Limit, LimitKind

if TYPE_CHECKING:
    from nodegate.baseline.baseline import Baseline
    from nodegate.metric import Metric
    from nodegate.numbers.peers import NodePeers
    from nodegate.records.finding import NumberLimit

_RAILS = 4  # of three and fewer it cannot be said which is the odd one
_NODES = 4  # so many slow NICs of one rail are beyond chance, where the other rails have a quarter of them at most
_OF_OTHERS = 4
_WHOLE = 0.75  # of the nodes: then it is the whole rail, and no leaf of several
_MEDIAN = math.sqrt(math.pi / 2)  # the spread of a median of n normal values, in their spread / sqrt(n)
_KINDS = 20  # of numbers that a run judges: by how many the chance of a false alarm is divided


@dataclass(frozen=True)
class SharedRail:
    """Whether a node's number is low because its rail is: on how many of the nodes, and what the other rails reach.

    `reference` is the median of the other rails, `bound` what this one would have to reach. `slow` are the nodes on
    which it does not; all of them, where the rail as a whole is behind: then `whole` is set.
    """

    reference: float
    bound: float
    slow: int
    nodes: int
    whole: bool

    @property
    def limit(self) -> NumberLimit:
        """What the rail would have to reach, by the others."""
        return Limit(round(self.bound, 3), "Gb/s", "the other rails", AT_LEAST, LimitKind.FLEET)

    @property
    def note(self) -> str:
        """On how many nodes it does not, and what the others reach."""
        which = "the whole rail, " if self.whole else "so "
        return f"{which}on {self.slow} of {self.nodes} nodes; the other rails reach {self.reference:.4g} Gb/s"


def shared_rail(metric: Metric, baseline: Baseline, peers: NodePeers) -> SharedRail | None:
    """What many nodes share on the rail of a number; None where it is a good one, a single one, or too few tell."""
    margins = Margins.of(baseline)
    group, medians = peers.group(metric, margins), peers.medians_of_devices(metric)
    others = [value for device, value in medians.items() if device != metric.device]
    if not isinstance(group, PeerGroup) or not group.device or len(others) + 1 < _RAILS:
        return None
    reference = median(others)
    chance = reach(margins.wronged / (_KINDS * len(medians)), group.freedom)
    rail_floor = max(margins.fleet_floor, chance * group.spread * _MEDIAN / math.sqrt(group.count + 1))
    own_floor = max(margins.fleet_floor, reach(margins.doubted) * group.spread)
    bounds = [reference * (1 - floor) for floor in (rail_floor, own_floor)]
    nodes = group.nodes + 1
    if medians[metric.device] < bounds[0] and metric.best < bounds[0]:
        slow = sum(value < bounds[0] for value in peers.of_device(metric).values())
        if slow >= _WHOLE * nodes:
            return SharedRail(reference, bounds[0], slow, nodes, whole=True)
    if metric.best >= bounds[1]:
        return None
    counts = peers.count_below(metric, bounds[1])
    mine = counts.pop(metric.device, 0)
    if mine < _NODES or max(counts.values(), default=0) * _OF_OTHERS > mine:
        return None
    return SharedRail(reference, bounds[1], mine, nodes, whole=False)
