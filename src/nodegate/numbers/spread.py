"""How far values of one kind lie apart: robust scales, and how far out one may lie by chance."""

from __future__ import annotations

import math
from functools import lru_cache
from statistics import NormalDist, fmean, median, stdev, variance
from typing import TYPE_CHECKING

from nodegate.metric import counted_looks

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import numpy as np
    from numpy.typing import NDArray

_NORMAL = 1.4826  # of a normal distribution: standard deviation / median absolute deviation
_CLIP = 1.5  # Huber's usual constant
_CLIPPED = 0.7785  # the mean of min(z, _CLIP) squared of a normal distribution
_FAR, _FAR_OF_FEW = 4.0, 20.0  # robust deviations, more of few values, whose deviation may be small by chance
_KIN = 3  # quantities of a kind, from which on they say how alike their spreads are
_POOLED_FROM = 0.25  # the chance of an F test, as Bozivich, Bancroft and Hartley advise
_UNLIKE = 0.05  # the chance of an F test by which a spread is another one than was expected
_EFFICIENCY = (
    0.6  # what a value is worth for this scale, beside the deviation of normal values (simulated: 0.60 to 0.71)
)


def mad(values: Iterable[float], middle: float) -> float:
    """The median absolute deviation from `middle`."""
    return median(abs(value - middle) for value in values)


def robust(deviation: float) -> float:
    """The standard deviation of a normal distribution with this median absolute deviation."""
    return _NORMAL * deviation


def scale(residuals: Sequence[float] | NDArray[np.float64]) -> float:
    """The spread of residuals around zero, in standard deviations of a normal distribution; 0 of none.

    What lies far beyond the median absolute deviation is of sick devices and set aside: nearly half may be. Of the rest
    Huber's proposal 2 (1964, Robust estimation of a location parameter): each residual counts at most as 1.5 spreads.
    Of normal values it is nearly as good as their deviation, where the median absolute deviation wastes two thirds.
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


# Of the mean of the best two thirds of 1, 2, ... normal looks: its middle in spreads of one look, and its variance.
_MIDDLE = (0.0, 0.0, 0.562, 0.423, 0.341, 0.552, 0.477, 0.422, 0.551, 0.499)
_VARIANCE = (1.0, 1.0, 0.682, 0.390, 0.277, 0.245, 0.196, 0.162, 0.151, 0.130)


def of_looks(looks: int) -> tuple[float, float]:
    """Where the usual value of so many normal looks lies, in spreads of one look, and its variance (simulated)."""
    at = min(looks, len(_MIDDLE) - 1)
    return _MIDDLE[at], _VARIANCE[at]


_FEWEST_LOOKS = 6  # that tell how unsteady a device is by itself
_OF_COUNTED = 0.72  # the deviation of the best two thirds of normal looks around their mean, in theirs (simulated)


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
    """The factor by which the spread of a number of values around their own median is too small for one more.

    The median is a guess of its own, and lies nearer to those that it is of: of normal values its variance is pi / 2n,
    and its covariance with each of them 1 / n.
    """
    return math.sqrt((1 + math.pi / 2 / values) / (1 + (math.pi / 2 - 2) / values)) if values >= 1 else 1.0


def of_median(values: float) -> float:
    """The spread of the median of n normal values, relative to theirs: its variance is pi / 2n."""
    return math.sqrt(math.pi / 2 / values)


def degrees(values: int, medians: int) -> float:
    """The degrees of freedom of a scale from a number of residuals around a number of medians."""
    return max(2.0, _EFFICIENCY * (values - medians))


def moderated(own: tuple[float, float], kin: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """A spread known from few values, with what its kin know: those of the other quantities of one kind, and their own.

    Each is a spread and its degrees of freedom. How unlike the kin are, beyond what chance makes of equal ones, says
    how much they count: the empirical Bayes estimate of G. K. Smyth, Linear models and empirical Bayes methods, 2004,
    section 6.2. A quantity that is noisier than its kin keeps most of its noise.
    """
    known = [each for each in kin if each[0] > 0]
    if own[0] <= 0 or len(known) < _KIN:
        return own
    halves = [freedom / 2 for _, freedom in known]
    logs = [
        2 * math.log(spread) - _digamma(half) + math.log(half) for (spread, _), half in zip(known, halves, strict=True)
    ]
    middle = fmean(logs)
    unlike = variance(logs) - fmean(map(_trigamma, halves))
    total = sum(freedom for _, freedom in known)
    prior = min(2 * _inverse_trigamma(unlike), total) if unlike > 0 else total
    usual = math.exp(middle + _digamma(prior / 2) - math.log(prior / 2))
    square = (prior * usual + own[1] * own[0] ** 2) / (prior + own[1])
    return math.sqrt(square), min(prior + own[1], max(total, own[1]))


def with_looks(own: tuple[float, float], square: float, freedom: float) -> tuple[float, float]:
    """A spread of few nodes, with what the looks at each of them tell, if nodes differ by no more than these explain.

    Pooled where an F test at 25 % sees no more between the nodes than within them (H. Bozivich, T. Bancroft and H.
    Hartley, Power of analysis of variance test procedures for certain incompletely specified models, 1956).

    Args:
        own: the spread between the nodes, and its degrees of freedom.
        square: the variance of one value by the noise of its looks alone.
        freedom: the degrees of freedom of that.
    """
    from scipy.special import fdtri  # noqa: PLC0415 - heavy: only where fleets are compared

    if not freedom or not square or own[0] ** 2 > square * fdtri(own[1], freedom, 1 - _POOLED_FROM):
        return own
    total = own[1] + freedom
    return math.sqrt((own[1] * own[0] ** 2 + freedom * square) / total), total


def of_joined(
    own: tuple[float, float], inside: float, singles: Sequence[tuple[float, float, float]]
) -> tuple[float, float]:
    """The spread of a number that joins several: what its looks explain, and what nodes differ in all of them.

    Few nodes tell their own spread badly; the numbers that it joins tell together how far nodes differ beyond their
    looks. Its own spread counts where it is larger than that by more than chance (an F test at 5 %).

    Args:
        own: the spread between the nodes, and its degrees of freedom.
        inside: the variance of one value by the noise of its looks alone.
        singles: the spread of each number that it joins, its degrees of freedom, and its variance by looks alone.
    """
    from scipy.special import fdtri  # noqa: PLC0415 - heavy: only where fleets are compared

    between = fmean(spread**2 - square for spread, _, square in singles)
    expected, freedom = inside + max(0.0, between), sum(each[1] for each in singles)
    if not inside or own[0] ** 2 > expected * fdtri(own[1], freedom, 1 - _UNLIKE):
        return own
    return math.sqrt(expected), freedom


@lru_cache(maxsize=4096)
def _digamma(value: float) -> float:
    from scipy.special import digamma  # noqa: PLC0415 - heavy: only where fleets are compared

    return float(digamma(value))


@lru_cache(maxsize=4096)
def _trigamma(value: float) -> float:
    from scipy.special import zeta  # noqa: PLC0415 - heavy: only where fleets are compared

    return float(zeta(2, value))  # what scipy's polygamma(1, value) gives, after a dozen calls of its own


def _inverse_trigamma(value: float) -> float:
    """Where the trigamma function has this value, by Newton's method (Smyth 2004, appendix)."""
    from scipy.special import zeta  # noqa: PLC0415 - heavy

    found = 0.5 + 1 / value
    for _ in range(50):
        there = float(zeta(2, found))
        step = there * (1 - there / value) / (-2 * float(zeta(3, found)))
        found += step
        if abs(step) < 1e-8 * found:
            break
    return found


@lru_cache(maxsize=4096)
def reach(chance: float, freedom: float = math.inf) -> float:
    """How many spreads out a good value lies with this chance, on one side: of Student's t, the spread is a guess."""
    if math.isinf(freedom):
        return NormalDist().inv_cdf(1 - chance)
    from scipy.special import stdtrit  # noqa: PLC0415 - heavy: only where fleets are compared

    return float(-stdtrit(freedom, chance))
