"""The rules by which a series of iteration times is called slow. None needs to know in advance what is normal.

The default compares a running median with the running 10th percentile: spikes (checkpoints, evaluations, garbage
collection) do not lift a median, and a percentile does not drift down forever as a minimum does. The simulation in
tests/watch/test_rules_simulated.py measures the rates of false alarms and the delays.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque
from dataclasses import dataclass, replace
from statistics import median
from typing import Protocol

MOST_HISTORY = 10_000  # points for the 10th percentile
MOST_NOISE = 500  # differences for the noise
FEWEST = 10  # medians before anything is judged


@dataclass(frozen=True)
class Seen:
    """The state of a rule after one more value: smoothed and baseline in the values' unit; slow or not."""

    smoothed: float
    baseline: float
    slow: bool


class Rule(Protocol):
    """Takes the values of comparable points, one by one."""

    name: str
    smoothed_by: str
    needs: int

    def add(self, value: float) -> Seen | None:
        """The next value; None while there are too few to judge."""

    def restart(self) -> None:
        """The process was started again: what is normal is remembered, the last values no longer count."""

    def window(self) -> int:
        """The number of values in the smoothed one."""


@dataclass(frozen=True)
class Shape:
    """Median of `window` values over `ratio` times the baseline, `in_a_row` times."""

    window: int
    ratio: float
    in_a_row: int


STEADY = Shape(15, 1.1, 5)
NOISY = Shape(31, 1.1, 10)
NOISE_LIMIT = 0.05  # standard deviation over mean, above which the longer median is needed


class MedianRule:
    """A running median against the running 10th percentile of such medians, those of slow times left out."""

    smoothed_by = "median"

    def __init__(self, shape: Shape) -> None:
        self.name = f"median-{shape.window}"
        self.needs = shape.window + FEWEST - 1
        self._shape = shape
        self._last: deque[float] = deque(maxlen=shape.window)
        self._in_order: deque[float] = deque()  # the medians in their order, and sorted
        self._sorted: list[float] = []
        self._in_a_row = 0
        self._slow = False

    def add(self, value: float) -> Seen | None:
        """See `Rule`."""
        self._last.append(value)
        if len(self._last) < self._shape.window:
            return None
        smoothed = sorted(self._last)[self._shape.window // 2]
        if not self._slow:
            self._remember(smoothed)
        if len(self._sorted) < FEWEST:
            return None
        baseline = self._sorted[len(self._sorted) // 10]
        self._judge(smoothed / baseline)
        return Seen(smoothed, baseline, self._slow)

    def restart(self) -> None:
        """See `Rule`."""
        self._last.clear()
        self._in_a_row = 0

    def window(self) -> int:
        """See `Rule`."""
        return self._shape.window

    def _judge(self, ratio: float) -> None:
        """Slow after enough in a row above the limit; normal again after as many below half of the excess."""
        limit = self._shape.ratio
        turns = ratio < 1 + (limit - 1) / 2 if self._slow else ratio > limit
        self._in_a_row = self._in_a_row + 1 if turns else 0
        if self._in_a_row >= self._shape.in_a_row:
            self._slow, self._in_a_row = not self._slow, 0

    def _remember(self, smoothed: float) -> None:
        if len(self._in_order) >= MOST_HISTORY:
            del self._sorted[bisect_left(self._sorted, self._in_order.popleft())]
        self._in_order.append(smoothed)
        insort(self._sorted, smoothed)


class AutoRule:
    """The short median if the times are steady, the long one if they are noisy."""

    name, smoothed_by = "auto", "median"

    def __init__(self, ratio: float = 0) -> None:
        self._steady, self._noisy = (MedianRule(_with(shape, ratio)) for shape in (STEADY, NOISY))
        self._before = 0.0
        self._differences: deque[float] = deque(maxlen=MOST_NOISE)
        self._noise, self._noise_age = 0.0, 0
        self.needs = self._steady.needs

    def add(self, value: float) -> Seen | None:
        """See `Rule`."""
        if self._before:
            self._differences.append(abs(value - self._before) / (value + self._before) * 2)
            self._noise_age += 1
        self._before = value
        seen = {self._steady: self._steady.add(value), self._noisy: self._noisy.add(value)}
        return seen[self._chosen()]

    def restart(self) -> None:
        """See `Rule`."""
        self._before = 0.0
        self._steady.restart()
        self._noisy.restart()

    def window(self) -> int:
        """See `Rule`."""
        return self._chosen().window()

    def noise(self) -> float:
        """Standard deviation over mean, from the differences of neighbours: spikes and steps do not lift it."""
        if self._differences and (self._noise_age >= 20 or not self._noise):
            self._noise, self._noise_age = median(self._differences) / 0.954, 0  # 0.6745 * sqrt(2)
        return self._noise

    def _chosen(self) -> MedianRule:
        return self._noisy if self.noise() > NOISE_LIMIT else self._steady


def _with(shape: Shape, ratio: float) -> Shape:
    return replace(shape, ratio=ratio) if ratio else shape


class FastestRule:
    """The mean of 5 against the fastest mean of 5 so far: an old rule, kept by name. One spike of 3x triggers it."""

    name, smoothed_by, needs = "fastest-5", "mean", 5

    def __init__(self, ratio: float = 0) -> None:
        self._ratio = ratio or 1.2
        self._last: deque[float] = deque(maxlen=5)
        self._fastest = float("inf")

    def add(self, value: float) -> Seen | None:
        """See `Rule`."""
        self._last.append(value)
        if len(self._last) < 5:
            return None
        mean = sum(self._last) / 5
        self._fastest = min(self._fastest, mean)
        return Seen(mean, self._fastest, mean > self._ratio * self._fastest)

    def restart(self) -> None:
        """See `Rule`."""
        self._last.clear()

    def window(self) -> int:
        """See `Rule`."""
        return 5


RULES = ("auto", "median-15", "median-31", "fastest-5")


def rule(name: str, ratio: float = 0) -> Rule:
    """A new rule by its name in RULES; `ratio` (0: the rule's own) is what smoothed over baseline must exceed."""
    if name == "fastest-5":
        return FastestRule(ratio)
    if name == "auto":
        return AutoRule(ratio)
    return MedianRule(_with({"median-15": STEADY, "median-31": NOISY}[name], ratio))
