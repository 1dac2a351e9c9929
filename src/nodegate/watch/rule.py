"""When a job is slow: its last intervals are above what is usual, cost it most of a minute, and not by chance.

The training time is cut into intervals. Nearly all of the last 3, 4, 6, ... of them must be slow, the fewer they are
the more: pauses are in some only. So a factor of three needs a minute, five percent a quarter of an hour. How often
the intervals before were so slow says how probable that is without a cause: in a noisy job only large slow-downs are
reported. bench/slow_jobs.py measures the delays and the false alarms.
"""

from collections import deque
from collections.abc import Sequence
from itertools import islice
from math import comb
from statistics import fmean, median
from typing import NamedTuple

from nodegate.watch.reading import ONE, Span

INTERVAL_S = 12.0  # iterations, two or more, are put together until they cover this
LOST_S = 40.0  # excess times seconds of a slow time, at least: 40 s of twice the usual, 400 s of 1.1 times
LEAST = 1.035  # times the usual: no smaller ratio counts
CHANCE = 1e-6  # that as many intervals of a healthy job are as slow
PAUSE = 1.5  # times the middle one: such an interval is left out of a mean
FEW = 6  # intervals that pauses and what comes after them may fill: fewer must be as slow as these
COUNTS = (3, 4, 6, 8, 12, 17, 24, 34, 48, 68, 96)  # of last intervals, each more than before by the root of two
FEWEST = 7  # intervals before anything is judged; and as many as are compared with them
MOST = 512  # intervals that are remembered, evenly over the whole run
GUESSED_S = 2.0  # an iteration, where the log has neither times nor a clock


class Interval(NamedTuple):
    """Some points: their training time in seconds, iterations, and seconds times iterations."""

    seconds: float = 0.0
    iterations: int = 0
    cost_s: float = 0.0
    points: int = 0

    @property
    def pace(self) -> float:
        """Seconds of an iteration."""
        return self.cost_s / self.iterations


class Seen(NamedTuple):
    """The state after one more interval: smoothed and usual in the values' unit; slow or not."""

    smoothed: float
    usual: float
    slow: bool
    points: int  # in the smoothed value
    worse: bool = False  # with this interval it became much slower than was reported


class Rule:
    """Takes the values of comparable points, one by one.

    Args:
        ratio: no slow-down below this counts; 0 for LEAST.
        given: a usual time from elsewhere; 0 if there is none. The faster of the two is compared with.
    """

    def __init__(self, ratio: float = 0, given: float = 0) -> None:
        self._least, self._given = ratio or LEAST, given
        self._open = Interval()
        self._past: list[float] = []  # paces of intervals that were not slow
        self._stride, self._skipped = 1, 0
        self._last: deque[Interval] = deque(maxlen=COUNTS[-1])
        self._slow = 0  # the number of intervals that are slow; 0 if the job is not
        self._usual, self._level = 0.0, 1.0  # what was usual when it became slow, and how many times that it takes

    def add(self, value: float, span: Span = ONE) -> Seen | None:
        """The next value; None within an interval and while there are too few to judge."""
        seconds, iterations, cost_s, points = self._open
        seconds += span.seconds or GUESSED_S * span.iterations
        whole = Interval(seconds, iterations + span.iterations, cost_s + value * span.iterations, points + 1)
        if seconds < INTERVAL_S or whole.iterations < 2:
            self._open = whole
            return None
        self._open = Interval()
        if len(self._last) == COUNTS[-1] and not self._slow:
            self._remember(self._last[0].pace)
        self._last.append(whole)
        if not self._slow and len(self._past) + len(self._last) <= FEWEST:
            return None
        was_slow, now = self._slow, self._usual or self._faster(_mean(self._before(0)))
        found = self._found() if whole.pace > self._least * self._level * now else None
        if found:
            self._begins(*found)
        elif self._slow and self._is_over():
            self._slow, self._level = 0, 1.0
        shown = list(islice(reversed(self._last), self._slow or COUNTS[0]))
        return Seen(
            _mean([each.pace for each in shown]),
            self._usual or now,
            self._slow > 0,
            sum(each.points for each in shown),
            worse=bool(found and was_slow),
        )

    def restart(self) -> None:
        """The process was started again: what is usual is remembered, the last values no longer count."""
        if not self._slow:
            for each in self._last:
                self._remember(each.pace)
        self._open = Interval()
        self._last.clear()

    def _remember(self, pace: float) -> None:
        self._skipped = (self._skipped + 1) % self._stride
        if not self._skipped:
            self._past.append(pace)
        if len(self._past) > MOST:
            self._past, self._stride = self._past[::2], self._stride * 2

    def _before(self, count: int) -> list[float]:
        """The paces before the last `count` intervals."""
        return self._past + [each.pace for each in islice(self._last, len(self._last) - count)]

    def _faster(self, own: float) -> float:
        return min(own, self._given or own)

    def _found(self) -> tuple[int, float, float] | None:
        """The fewest last intervals that are slow, what was usual before them, and their pace."""
        paces = [each.pace for each in reversed(self._last)]
        for count in COUNTS:
            if count > len(paces):
                break
            before = self._past if self._slow else self._before(count)
            if len(before) < max(FEWEST, 0 if self._slow else count):
                break
            own = _mean(before)
            usual = self._usual or self._faster(own)
            normal = usual * self._level
            pace, least = _mean(paces[:count]), sorted(paces[:count])[_fewer(count)]
            seconds = sum(each.seconds * pace / each.pace for each in islice(reversed(self._last), count))
            ratio = max(self._least, 1 + LOST_S / seconds, PAUSE if count < FEW else 0)
            above = pace > ratio * normal and least > (1 + ratio) / 2 * normal
            if above and _not_by_chance(count, before, least / normal * own):
                return count, usual, pace
        return None

    def _begins(self, count: int, usual: float, pace: float) -> None:
        if not self._slow:
            for each in islice(self._last, len(self._last) - count):
                self._remember(each.pace)
        self._last = deque(islice(self._last, len(self._last) - count, None), COUNTS[-1])
        self._slow, self._usual, self._level = count, usual, pace / usual

    def _is_over(self) -> bool:
        """Whether nearly all of half as many intervals are below half of the excess."""
        count = max(COUNTS[0], self._slow // 2)
        last = list(islice(reversed(self._last), count))
        below = sum(each.pace < (1 + self._level) / 2 * self._usual for each in last)
        if len(last) < count or below < count - _fewer(count):
            return False
        self._last, self._usual = deque(reversed(last), COUNTS[-1]), 0.0
        return True


def _mean(paces: Sequence[float]) -> float:
    """The mean without the pauses."""
    middle = median(paces)
    return fmean(pace for pace in paces if pace < PAUSE * middle)


def _fewer(count: int) -> int:
    """How many of so many intervals need not be slow: less than a quarter."""
    return (count - 1) // 4


def _not_by_chance(count: int, before: Sequence[float], least: float) -> bool:
    """Whether nearly all of so many are so slow with a cause, by how often those before were."""
    often = (sum(pace >= least for pace in before) + 1 / 3) / (len(before) + 1)
    some = range(count - _fewer(count), count + 1)
    return sum(comb(count, many) * often**many * (1 - often) ** (count - many) for many in some) < CHANCE
