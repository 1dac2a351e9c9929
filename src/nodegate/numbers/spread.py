"""How far values of one kind lie apart: robust scales, and how far out one may lie by chance."""

from __future__ import annotations

import math
from array import array
from bisect import bisect_left, bisect_right
from functools import lru_cache
from operator import itemgetter
from statistics import NormalDist, fmean, median, stdev, variance
from typing import TYPE_CHECKING

from nodegate.metric import counted_looks

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from nodegate.numbers.parts import Split

FEW = 512  # residuals up to which a node's own are left out of the spread: one node cannot hide itself
_NORMAL = 1.4826  # of a normal distribution: standard deviation / median absolute deviation
_CLIP, _CLIPPED = 1.5, 0.7785  # Huber's usual constant; the mean of min(z, 1.5) squared of a normal distribution
_FAR, _FAR_OF_FEW = 4.0, 20.0  # robust deviations, more of few values, whose deviation may be small by chance
_KIN = 3  # quantities of a kind, from which on they say how alike their spreads are
_POOLED_FROM, _UNLIKE = 0.25, 0.05  # chances of F tests: to pool two spreads, to call one another than was expected
_EFFICIENCY = 0.6  # what a value is worth for this scale, beside the deviation of normal values
_FEWEST_LOOKS = 6  # that tell how unsteady a device is by itself
_OF_COUNTED = 0.72  # the deviation of the best two thirds of normal looks around their mean, in theirs
# Of the mean of the best two thirds of 1, 2, ... normal looks: its middle in spreads of one look, and its variance.
_MIDDLE = (0.0, 0.0, 0.562, 0.423, 0.341, 0.552, 0.477, 0.422, 0.551, 0.499)
_VARIANCE = (1.0, 1.0, 0.682, 0.390, 0.277, 0.245, 0.196, 0.162, 0.151, 0.130)

Known = tuple[float, float]  # a spread, and in degrees of freedom how well it is known


def mad(values: Iterable[float], middle: float) -> float:
    """The median absolute deviation from `middle`."""
    return median(abs(value - middle) for value in values)


def robust(deviation: float) -> float:
    """The standard deviation of a normal distribution with this median absolute deviation."""
    return _NORMAL * deviation


def scale(residuals: Sequence[float] | NDArray[np.float64]) -> float:
    """The spread of residuals around zero, in standard deviations of a normal distribution; 0 of none.

    What lies far beyond the median absolute deviation is of sick devices and set aside: nearly half may be. Of the rest
    Huber's proposal 2 (1964): each residual counts at most as 1.5 spreads.
    """
    import numpy as np  # noqa: PLC0415 - heavy: only where fleets are compared

    squares = np.sort(np.square(np.asarray(residuals, dtype=float)))
    if not len(squares):
        return 0.0
    far = (_FAR + _FAR_OF_FEW / len(squares)) * robust(math.sqrt(float(np.median(squares))))
    squares = squares[squares <= far**2]
    count, clip = len(squares), _CLIP**2
    inside = np.arange(1, count + 1)  # how many residuals may count in full: then the rest count `clip` each
    room = _CLIPPED * count - clip * (count - inside)
    found = np.cumsum(squares)[room > 0] / room[room > 0]
    fits = squares[room > 0] <= clip * found * (1 + 1e-9)
    return math.sqrt(float(found[fits][-1])) if fits.any() else 0.0


def of_looks(looks: int) -> tuple[float, float]:
    """Where the usual value of so many normal looks lies, in spreads of one look, and its variance (simulated)."""
    at = min(looks, len(_MIDDLE) - 1)
    return _MIDDLE[at], _VARIANCE[at]


def of_own_looks(looks: Sequence[float], *, better: str) -> float:
    """How far the usual value of these looks may lie from the true one, as a part of it, by their own deviation.

    One device in thousands has several bad looks where noise dips below a ceiling: then they lie far apart.
    """
    if len(looks) < _FEWEST_LOOKS:
        return 0.0
    counted = sorted(looks, reverse=better == "higher")[: counted_looks(len(looks))]
    middle = fmean(counted)
    return stdev(counted) / middle / _OF_COUNTED * math.sqrt(of_looks(len(looks))[1]) if middle > 0 else 0.0


def around_median(values: float) -> float:
    """The factor by which the spread of so many values around their own median is too small for one more.

    Of normal values the variance of the median is pi / 2n, and its covariance with each of them 1 / n.
    """
    return math.sqrt((1 + math.pi / 2 / values) / (1 + (math.pi / 2 - 2) / values)) if values >= 1 else 1.0


def of_median(values: float) -> float:
    """The spread of the median of n normal values, relative to theirs: its variance is pi / 2n."""
    return math.sqrt(math.pi / 2 / values)


def degrees(values: int, medians: int) -> float:
    """The degrees of freedom of a scale from a number of residuals around a number of medians."""
    return max(2.0, _EFFICIENCY * (values - medians))


def moderated(own: Known, kin: Sequence[Known]) -> Known:
    """A spread known from few values, with what its kin know: those of the other quantities of one kind, and their own.

    How unlike the kin are, beyond what chance makes of equal ones, says how much they count: the empirical Bayes
    estimate of G. K. Smyth, 2004, section 6.2. A quantity that is noisier than its kin keeps most of its noise.
    """
    known = [each for each in kin if each[0] > 0]
    if own[0] <= 0 or len(known) < _KIN:
        return own
    halves, logs = [freedom / 2 for _, freedom in known], []
    for (spread, _), half in zip(known, halves, strict=True):
        logs.append(2 * math.log(spread) - _special("digamma", half) + math.log(half))
    unlike = variance(logs) - fmean(_special("zeta", 2, half) for half in halves)
    total = sum(freedom for _, freedom in known)
    prior = min(2 * _inverse_trigamma(unlike), total) if unlike > 0 else total
    usual = math.exp(fmean(logs) + _special("digamma", prior / 2) - math.log(prior / 2))
    square = (prior * usual + own[1] * own[0] ** 2) / (prior + own[1])
    return math.sqrt(square), min(prior + own[1], max(total, own[1]))


def with_looks(own: Known, square: float, freedom: float) -> Known:
    """A spread of few nodes, with what the looks at each of them tell, if nodes differ by no more than these explain.

    `square` is the variance of one value by the noise of its looks alone, with its degrees of freedom. Pooled where an
    F test at 25 % sees no more between the nodes than within them (H. Bozivich, T. Bancroft and H. Hartley, 1956).
    """
    if not freedom or not square or _is_more(own, square, freedom, _POOLED_FROM):
        return own
    total = own[1] + freedom
    return math.sqrt((own[1] * own[0] ** 2 + freedom * square) / total), total


def of_joined(own: Known, inside: float, singles: Sequence[tuple[Known, float]]) -> Known:
    """The spread of a number that joins several: what its looks explain, and what nodes differ in all of them.

    Few nodes tell their own spread badly; the numbers that it joins tell together how far nodes differ beyond their
    looks. Its own spread counts where it is larger than that by more than chance (an F test at 5 %).

    Args:
        own: the spread between the nodes.
        inside: the variance of one value by the noise of its looks alone.
        singles: the spread of each number that it joins, and its variance by looks alone.
    """
    between = fmean(spread**2 - square for (spread, _), square in singles)
    expected, freedom = inside + max(0.0, between), sum(known for (_, known), _ in singles)
    if not inside or _is_more(own, expected, freedom, _UNLIKE):
        return own
    return math.sqrt(expected), freedom


def _is_more(own: Known, square: float, freedom: float, chance: float) -> bool:
    """Whether a spread is larger than a variance explains, by an F test."""
    return own[0] ** 2 > square * _special("fdtri", own[1], freedom, 1 - chance)


@lru_cache(maxsize=16384)
def _special(name: str, *values: float) -> float:
    """A function of scipy.special, which takes long and is asked the same again and again."""
    from scipy import special  # noqa: PLC0415 - heavy: only where fleets are compared

    return float(getattr(special, name)(*values))


def _inverse_trigamma(value: float) -> float:
    """Where the trigamma function (Hurwitz's zeta of power 2) has this value, by Newton (Smyth 2004, appendix)."""
    found = 0.5 + 1 / value
    for _ in range(50):
        there = _special("zeta", 2, found)
        step = there * (1 - there / value) / (-2 * _special("zeta", 3, found))
        found += step
        if abs(step) < 1e-8 * found:
            break
    return found


def reach(chance: float, freedom: float = math.inf) -> float:
    """How many spreads out a good value lies with this chance, on one side: of Student's t, the spread is a guess."""
    return NormalDist().inv_cdf(1 - chance) if math.isinf(freedom) else -_special("stdtrit", freedom, chance)


class Pool:
    """The values that are compared with each other, prepared so that leaving one node out costs no sorting.

    What many nodes measured together is one value, under the name of their launch.
    """

    def __init__(self, device: str, held: Iterable[tuple[float, str]]) -> None:
        self.device = device
        pairs = sorted(held)
        self._sorted, self._whose = array("d", (value for value, _ in pairs)), [node for _, node in pairs]
        pairs.sort(key=itemgetter(1))  # in columns, for a fleet has hundreds of pools
        self._of_nodes, self._nodes = array("d", (value for value, _ in pairs)), [node for _, node in pairs]
        self._count = len(set(self._nodes))
        self.splits: dict[tuple[float, float], Split | None] = {}  # the fleet in two parts, once it was looked for

    def __len__(self) -> int:
        return len(self._sorted)

    @property
    def held(self) -> list[tuple[float, str]]:
        """Each value with its node, the lowest first."""
        return list(zip(self._sorted, self._whose, strict=True))

    def own(self, node: str) -> Sequence[float]:
        """The values of a node."""
        return self._of_nodes[bisect_left(self._nodes, node) : bisect_right(self._nodes, node)]

    def others(self, node: str) -> int:
        """From how many others than this node there are values."""
        return self._count - bool(self.own(node))

    def values_of_others(self, node: str) -> tuple[float, ...]:
        """The values without those of this node."""
        return tuple(value for value, whose in self.held if whose != node)

    def median_without(self, node: str) -> float:
        """The median of the others."""
        gone: list[int] = []
        for value in sorted(self.own(node)):
            place = bisect_left(self._sorted, value)
            gone.append(max(place, gone[-1] + 1) if gone else place)
        count = len(self._sorted) - len(gone)
        return (self._at((count - 1) // 2, gone) + self._at(count // 2, gone)) / 2

    def _at(self, rank: int, gone: Sequence[int]) -> float:
        for place in gone:
            rank += rank >= place
        return self._sorted[rank]


class Spread:
    """How far good values lie apart, from all slots together: seven values tell it badly, eight times seven well."""

    def __init__(self, pools: Sequence[Pool]) -> None:
        self._pools = pools
        self.count = sum(map(len, pools))
        self._known: dict[str, Known] = {}

    def without(self, node: str) -> Known:
        """The spread as a part of the median, and its degrees of freedom; of few values without this node's own."""
        left_out = node if self.count <= FEW else ""
        if left_out not in self._known:
            residuals: list[float] = []  # how far each value of the others lies from their median, as a part of it
            for pool in self._pools:
                middle = pool.median_without(left_out) if pool.others(left_out) else 0.0
                residuals += [value / middle - 1.0 for value in pool.values_of_others(left_out)] if middle else []
            pools = max(len(self._pools), 1)
            self._known[left_out] = (
                around_median(len(residuals) / pools) * scale(residuals),
                degrees(len(residuals), len(self._pools)),
            )
        return self._known[left_out]
