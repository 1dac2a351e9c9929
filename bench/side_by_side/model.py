"""What 10,000 nodes would cost: the measured cost of a further node, carried on."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bench.side_by_side.figures import median

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bench.side_by_side.figures import Figures

NODES = 10_000
# Not measured here.
ROUND_TRIP_S = 4.0  # login, probe and answer of a real node with eight GPUs
AT_ONCE = (64, 256)
BASTION_SHARE = 0.5  # of what sshd uses for a login, in a bastion that forwards the encrypted connection


@dataclass(frozen=True)
class Line:
    """A cost by number of nodes: fixed and for each further node, from the smallest and largest size measured."""

    fixed: float
    each: float
    exponent: float
    sizes: tuple[int, int]

    def at(self, nodes: int) -> float:
        """The cost of so many nodes; above linear growth, with the measured exponent."""
        largest = self.sizes[1]
        straight = self.fixed + self.each * nodes
        return straight * (nodes / largest) ** max(0.0, self.exponent - 1) if nodes > largest else straight


def line(costs: Mapping[int, float]) -> Line | None:
    """Through two sizes: the largest, and the smallest that is not all start-up."""
    sizes = sorted(costs)
    if len(sizes) < 2:
        return None
    small, large = sizes[0], sizes[-1]
    each = (costs[large] - costs[small]) / (large - small)
    fixed = costs[small] - each * small
    return Line(fixed, each, exponent(costs, sizes[-2], large), (small, large))


def exponent(costs: Mapping[int, float], small: int, large: int) -> float:
    """The slope in a log-log plot between two sizes: 1 is linear, 2 quadratic."""
    if costs[small] <= 0 or costs[large] <= 0:
        return math.nan
    return math.log(costs[large] / costs[small]) / math.log(large / small)


def costs(figures: Figures, prefix: str, name: str) -> dict[int, float]:
    """The medians of a value by number of nodes, of the runs whose key is PREFIX/NUMBER."""
    keys = [key for key in figures.value["runs"] if key.rpartition("/")[0] == prefix]
    found = {int(key.rpartition("/")[2]): median(figures.runs(key), name) for key in keys if figures.runs(key)}
    return dict(sorted(found.items()))
