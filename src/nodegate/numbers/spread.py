"""The robust spread of values: the median absolute deviation, and what it is in standard deviations."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

_NORMAL = 1.4826  # of a normal distribution: standard deviation / median absolute deviation


def mad(values: Iterable[float], middle: float) -> float:
    """The median absolute deviation from `middle`."""
    return median(abs(value - middle) for value in values)


def robust(deviation: float) -> float:
    """The standard deviation of a normal distribution with this median absolute deviation."""
    return _NORMAL * deviation
