"""The rule that is used if none is named: slow is what cost the job most of a minute, and is not its own noise.

Windows of several lengths are cut into parts, and nearly all parts must be above: pauses are in some of them only. So a
factor of three needs a minute, five percent a quarter of an hour, and in a noisy job only large slow-downs are
reported. bench/slow_jobs.py measures the delays and the false alarms.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from itertools import pairwise
from statistics import median
from typing import NamedTuple

from nodegate.watch.reading import ONE, Seen, Span
from nodegate.watch.usual import NEEDS, Usual

LOST_S = 40.0  # what a slow time cost the job, at least
SHORTEST_S, LONGEST_S = 45.0, 1440.0  # windows; each is longer than the one before by the root of two
FEWEST = 3  # parts of the shortest window, one more in each next one; each part has two iterations or more
MUCH = 1.2  # windows of smaller ratios are asked at the end of a block only, and not while a job is slow
NOISES = 4.0  # deviations of such windows that are noise
PAUSE = 3.0  # times the pace: what a point took longer counts neither as pace nor as time
GIVEN = 1.05  # against a usual time from elsewhere no smaller ratio counts
SAMPLED = 5  # a line that measured one of so many steps is a sample: it counts as far as the clock agrees
POINT_S, BLOCK_S = 2.0, 20.0  # iterations are put together until they cover this; and points, to learn what is usual
GUESSED_S = 2.0  # an iteration, where the log has neither times nor a clock
SETTLED_S = 60.0  # the least time that must be normal before a slow time is over
MOST_POINTS = 2000


class Window(NamedTuple):
    """Slow is: nearly all `parts` of the last `seconds` are above `ratio` times the usual."""

    seconds: float
    ratio: float
    parts: int


class Sum(NamedTuple):
    """All up to a point: training time, iterations, and the seconds that these took without their pauses."""

    at_s: float
    iterations: int
    cost_s: float

    def pace(self, since: Sum) -> float:
        """Seconds of an iteration since then."""
        return (self.cost_s - since.cost_s) / (self.iterations - since.iterations)


def _windows() -> tuple[Window, ...]:
    lengths = [SHORTEST_S]
    while lengths[-1] < LONGEST_S * 0.99:
        lengths.append(lengths[-1] * 2**0.5)
    return tuple(Window(each, 1 + LOST_S / each, parts) for parts, each in enumerate(lengths, FEWEST))


WINDOWS = _windows()


class ScalesRule:
    """Windows of several lengths against what is usual.

    Args:
        ratio: no slow-down below this counts; 0 for the rule's own.
        given: a usual time from elsewhere; 0 if there is none. The faster of the two is compared with.
    """

    name, smoothed_by, needs = "auto", "mean", NEEDS

    def __init__(self, ratio: float = 0, given: float = 0) -> None:
        self._ratio, self._given = ratio, given
        self._usual = Usual(given)
        self._sums = [Sum(0.0, 0, 0.0)]
        self._short = Sum(0.0, 0, 0.0)  # what is too short for a point
        self._block = 0  # where the open block begins
        self._walls: deque[float] = deque(maxlen=200)  # seconds of a step between samples, by the clock
        self._slow: Window | None = None
        self._excess = 0.0

    def add(self, value: float, span: Span = ONE) -> Seen | None:
        """See `Rule`."""
        value, seconds = self._believed(value, span)
        at_s, count, cost_s = self._short
        short = Sum(at_s + seconds, count + span.iterations, cost_s + value * span.iterations)
        if short.at_s < POINT_S:
            self._short = short
            return None
        self._short = Sum(0.0, 0, 0.0)
        self._point(short)
        whole = self._sums[-1].at_s - self._sums[self._block].at_s >= BLOCK_S
        if whole:
            if self._slow is None:
                self._usual.add(self._sums[-1].at_s, self._sums[-1].pace(self._sums[self._block]))
            self._block = len(self._sums) - 1
        if self._usual.now is None:
            return None
        worse = self._changes(self._usual.now.usual, whole=whole)
        return Seen(
            self._sums[-1].pace(self._sums[self._start()]), self._usual.now.usual, self._slow is not None, worse
        )

    def restart(self) -> None:
        """See `Rule`."""
        self._short, self._sums, self._block = Sum(0.0, 0, 0.0), self._sums[-1:], 0
        self._usual.forget_last()

    def window(self) -> int:
        """See `Rule`."""
        return len(self._sums) - 1 - self._start()

    def _believed(self, value: float, span: Span) -> tuple[float, float]:
        """A value and its seconds. A sample counts only as far as the steps between were as slow, by the clock."""
        if not span.seconds:
            return value, GUESSED_S * span.iterations
        if span.alone and span.iterations >= SAMPLED:
            self._walls.append(span.seconds / span.iterations)
            if self._usual.now:
                value = min(value, self._usual.now.usual * self._walls[-1] / median(self._walls))
        return value, span.seconds

    def _point(self, new: Sum) -> None:
        last, pace = self._sums[-1], new.cost_s / new.iterations
        most = PAUSE * self._usual.now.usual * (1 + self._excess) if self._usual.now else pace
        part = min(1.0, most / pace) if pace > 0 else 1.0
        self._sums.append(
            Sum(last.at_s + new.at_s * part, last.iterations + new.iterations, last.cost_s + new.cost_s * part)
        )
        if over := max(0, len(self._sums) - MOST_POINTS):
            del self._sums[:over]
            self._block = max(0, self._block - over)

    def _changes(self, usual: float, *, whole: bool) -> bool:
        """Whether a slow time begins or ends; True if one gets much worse, which is a state of its own."""
        found = self._found(usual * (1 + self._excess), whole=whole)
        if found:
            worse = self._slow is not None
            self._slow, pace = found
            if not worse:
                self._usual.drop_after(self._sums[-1].at_s - self._slow.seconds)
            self._excess = pace / usual - 1
            return worse
        if self._slow and self._is_over(self._slow, usual):
            self._sums = self._sums[self._since(max(SETTLED_S, self._slow.seconds / 2)) :]
            self._slow, self._excess, self._block = None, 0.0, len(self._sums) - 1
            self._usual.forget_last()
        return False

    def _found(self, usual: float, *, whole: bool) -> tuple[Window, float] | None:
        """The shortest window that is slow, and its pace; the longer ones are asked at the end of a block only."""
        if self._sums[-1].pace(self._sums[-2]) <= usual:
            return None
        for window in WINDOWS:
            paces = self._paces(window.seconds, window.parts)
            if paces is None or (window.ratio < MUCH and (self._slow or not whole)):
                return None
            if self._is_above(window, paces, usual):
                return window, median(paces)
        return None

    def _is_above(self, window: Window, paces: list[float], usual: float) -> bool:
        """Whether nearly all are above the ratio, and above what the job's noise was before this window."""
        nearly_least, least = paces[_nearly_all(paces)], max(window.ratio, self._ratio)
        if nearly_least <= least * usual:
            return False
        before = self._usual.noise(self._sums[-1].at_s - window.seconds)
        if before is None:
            return False
        if before.usual == self._given:
            least = max(least, GIVEN)
        least = max(least, 1 + NOISES * before.of(window.seconds / BLOCK_S))
        return nearly_least > least * before.usual * (1 + self._excess)

    def _is_over(self, slow: Window, usual: float) -> bool:
        """Whether nearly all of the last half of its window is below half of its excess."""
        paces = self._paces(max(SETTLED_S, slow.seconds / 2), slow.parts)
        return paces is not None and paces[-1 - _nearly_all(paces)] < (1 + self._excess / 2) * usual

    def _paces(self, seconds: float, parts: int) -> list[float] | None:
        """The paces of the parts of the last seconds, in their order of size; None if there are not enough points."""
        enough = bisect_right(self._sums, self._sums[-1].iterations - 2 * parts, key=lambda each: each.iterations) - 1
        start = min(self._since(seconds), enough, len(self._sums) - 1 - parts)
        if start < 0:
            return None
        points = len(self._sums) - 1 - start
        cuts = [self._sums[start + points * part // parts] for part in range(parts + 1)]
        return sorted(later.pace(earlier) for earlier, later in pairwise(cuts))

    def _since(self, seconds: float) -> int:
        """The last point that is at least so long ago; -1 if there is none."""
        return bisect_right(self._sums, self._sums[-1].at_s - seconds, key=lambda each: each.at_s) - 1

    def _start(self) -> int:
        """Where the points of the smoothed pace begin."""
        return max(0, min(self._since((self._slow or WINDOWS[0]).seconds), len(self._sums) - 1 - FEWEST))


def _nearly_all(paces: list[float]) -> int:
    return (len(paces) - 1) // 5


def pace(points: list[tuple[float, int]]) -> float:
    """The mean of values by their iterations; of a pause only a part counts."""
    most = PAUSE * median(value for value, _ in points)
    return sum(min(value, most) * count for value, count in points) / sum(count for _, count in points)
