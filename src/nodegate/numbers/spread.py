"""How far values of one kind lie apart: robust scales, and how far out one may lie by chance."""

from __future__ import annotations

import math
from statistics import NormalDist, median
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_NORMAL = 1.4826  # of a normal distribution: standard deviation / median absolute deviation
_CLIP = 1.5  # Huber's usual constant
_CLIPPED = 0.7785  # the mean of min(z, _CLIP) squared of a normal distribution
_FAR, _FAR_OF_FEW = 4.0, 20.0  # robust deviations, more of few values, whose deviation may be small by chance
_EFFICIENCY = 0.75  # what a value is worth for this scale, beside the plain deviation of normal values


def mad(values: Iterable[float], middle: float) -> float:
    """The median absolute deviation from `middle`."""
    return median(abs(value - middle) for value in values)


def robust(deviation: float) -> float:
    """The standard deviation of a normal distribution with this median absolute deviation."""
    return _NORMAL * deviation


def scale(residuals: Sequence[float]) -> float:
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


def around_median(values: float) -> float:
    """By what the spread of so many values around their own median is too small for one more value.

    The median is a guess of its own, and lies nearer to those that it is of: of normal values its variance is pi / 2n,
    and its covariance with each of them 1 / n.
    """
    return math.sqrt((1 + math.pi / 2 / values) / (1 + (math.pi / 2 - 2) / values)) if values >= 1 else 1.0


def degrees(values: int, medians: int) -> float:
    """The degrees of freedom of a scale from so many residuals, from so many medians of their own."""
    return max(2.0, _EFFICIENCY * (values - medians))


def reach(chance: float, freedom: float = math.inf) -> float:
    """How many spreads out a good value lies with this chance, on one side.

    Of Student's t where the spread itself is a guess: the expansion of Abramowitz and Stegun, 26.7.5.
    """
    z = NormalDist().inv_cdf(1 - chance)
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
    )
    return z + sum(term / freedom**power for power, term in enumerate(terms, 1))
