"""A fleet in two parts: when many nodes are slow, their own median calls them healthy."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median, stdev

from nodegate.numbers.spread import mad, robust, scale

# Values from which on the robust spread of a part is steady; below, its standard deviation is steadier. Of normal
# fleets of 32 nodes and more, fewer than one in 300 looks like two such parts at 4.5 deviations (simulated).
_MANY = 16
# How many deviations apart two groups are two. The halves of a normal or an even spread lie 2.7 apart; further than
# this lie those of about one normal fleet in 2,000 (simulated: 11.3 of 8 values, 6.8 of 12, 5.8 of 16, 4.6 of 32).
_APART, _APART_OF_FEW = 4.2, 450.0  # the second over the square of the number of values
# Of larger fleets both parts together tell the spread inside them better than each by itself: the same chance,
# simulated (4.0 of 64 values, 3.2 of 128).
_LARGE = 48
_APART_TOGETHER, _APART_TOGETHER_OF_FEW = 3.2, 3100.0
_PEELS = 16  # dead nodes at the ends, a few at a time, are set aside before the parts are looked for


@dataclass(frozen=True)
class Split:
    """Two groups of values, clearly apart: the median of each, and how many nodes have a value in it.

    `inside`: how far values lie apart within a part, in standard deviations.
    """

    slow: float
    fast: float
    slow_nodes: int
    fast_nodes: int
    inside: float = 0.0


def find_split(
    held: list[tuple[float, str]], *, slow_part_min: float, fast_part_min: float, higher_is_better: bool
) -> Split | None:
    """The two parts of a fleet, or None when it is one.

    The values are parted where the squares within the parts become least (two means on a line, Otsu 1979). A part that
    is too small to be one is set aside and the rest parted again. The parts are real when their medians lie further
    apart than chance puts them.

    Args:
        held: each value with its node.
        slow_part_min: the least share of values that makes a slow part; fewer do not move the median.
        fast_part_min: the least share that makes a fast part, with two nodes at least: one is luck.
        higher_is_better: which end is the fast one.
    """
    held = sorted(held)
    least = (slow_part_min, fast_part_min) if higher_is_better else (fast_part_min, slow_part_min)
    for _ in range(_PEELS):
        if len(held) < 4 or held[0][0] == held[-1][0]:
            return None
        cut = _cut([value for value, _ in held])
        low, high = held[:cut], held[cut:]
        if _too_small(low, least[0], len(held)):
            held = high
        elif _too_small(high, least[1], len(held)):
            held = low
        else:
            return _split(low, high) if higher_is_better else _split(high, low)
    return None


def _too_small(part: list[tuple[float, str]], least: float, total: int) -> bool:
    return len(part) < least * total or len({node for _, node in part}) < 2


def _cut(values: list[float]) -> int:
    """How many of the sorted values make the lower part."""
    import numpy as np  # noqa: PLC0415 - heavy: only where fleets are compared

    array = np.asarray(values)
    count = np.arange(1, len(array))
    sums = np.cumsum(array)
    below, above = sums[:-1] / count, (sums[-1] - sums[:-1]) / (len(array) - count)
    apart = count * (len(array) - count) * (above - below) ** 2
    apart[array[1:] == array[:-1]] = -1.0  # equal values stay together
    return int(np.argmax(apart)) + 1


def _split(slow: list[tuple[float, str]], fast: list[tuple[float, str]]) -> Split | None:
    slow_values, fast_values = [value for value, _ in slow], [value for value, _ in fast]
    slow_median, fast_median = median(slow_values), median(fast_values)
    count = len(slow) + len(fast)
    distance = abs(fast_median - slow_median)
    within = max(_spread(slow_values, slow_median), _spread(fast_values, fast_median))
    each_apart = distance > (_APART + _APART_OF_FEW / count**2) * within
    if not each_apart and (count < _LARGE or distance <= _apart_together(count) * _together(slow_values, fast_values)):
        return None
    slow_nodes, fast_nodes = len({node for _, node in slow}), len({node for _, node in fast})
    return Split(slow_median, fast_median, slow_nodes, fast_nodes, _together(slow_values, fast_values))


def _apart_together(count: int) -> float:
    return _APART_TOGETHER + _APART_TOGETHER_OF_FEW / count**2


def _together(slow: list[float], fast: list[float]) -> float:
    """The spread inside both parts, each value around the median of its own."""
    middles = median(slow), median(fast)
    return scale([value - middle for part, middle in zip((slow, fast), middles, strict=True) for value in part])


def _spread(values: list[float], middle: float) -> float:
    return robust(mad(values, middle)) if len(values) >= _MANY else stdev(values)
