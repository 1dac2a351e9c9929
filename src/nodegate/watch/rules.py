"""The rules by which a series of iteration times is called slow, by name; the default is in scales.py.

The medians compare a running median with the running 10th percentile of such medians: spikes do not lift a median, and
a percentile does not sink for ever as a minimum does. They count lines of the log, not time.
"""

from bisect import bisect_left, insort
from collections import deque

from nodegate.watch.reading import ONE, Rule, Seen, Span
from nodegate.watch.scales import ScalesRule

MOST_HISTORY = 10_000  # points for the 10th percentile
FEWEST = 10  # medians before anything is judged


class MedianRule:
    """A running median over `ratio` times the running 10th percentile of such medians, `in_a_row` times.

    Those of slow times are left out of the percentile.
    """

    smoothed_by = "median"

    def __init__(self, window: int, ratio: float, in_a_row: int) -> None:
        self.name = f"median-{window}"
        self.needs = window + FEWEST - 1
        self._window, self._ratio, self._turns = window, ratio or 1.1, in_a_row
        self._last: deque[float] = deque(maxlen=window)
        self._in_order: deque[float] = deque()  # the medians in their order, and sorted
        self._sorted: list[float] = []
        self._in_a_row = 0
        self._slow = False

    def add(self, value: float, span: Span = ONE) -> Seen | None:  # noqa: ARG002 - it counts lines
        """See `Rule`."""
        self._last.append(value)
        if len(self._last) < self._window:
            return None
        smoothed = sorted(self._last)[self._window // 2]
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
        return self._window

    def _judge(self, ratio: float) -> None:
        """Slow after enough in a row above the limit; normal again after as many below half of the excess."""
        limit = self._ratio
        turns = ratio < 1 + (limit - 1) / 2 if self._slow else ratio > limit
        self._in_a_row = self._in_a_row + 1 if turns else 0
        if self._in_a_row >= self._turns:
            self._slow, self._in_a_row = not self._slow, 0

    def _remember(self, smoothed: float) -> None:
        if len(self._in_order) >= MOST_HISTORY:
            del self._sorted[bisect_left(self._sorted, self._in_order.popleft())]
        self._in_order.append(smoothed)
        insort(self._sorted, smoothed)


class FastestRule:
    """The mean of 5 against the fastest mean of 5 so far: an old rule, kept by name. One spike of 3x triggers it."""

    name, smoothed_by, needs = "fastest-5", "mean", 5

    def __init__(self, ratio: float = 0) -> None:
        self._ratio = ratio or 1.2
        self._last: deque[float] = deque(maxlen=5)
        self._fastest = float("inf")

    def add(self, value: float, span: Span = ONE) -> Seen | None:  # noqa: ARG002 - it counts lines
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


def rule(name: str, ratio: float = 0, given: float = 0) -> Rule:
    """A new rule by its name in RULES.

    Args:
        name: one of RULES.
        ratio: what smoothed over baseline must exceed; 0 for the rule's own.
        given: a usual time from elsewhere, for `auto` only; 0 if there is none.
    """
    if name == "fastest-5":
        return FastestRule(ratio)
    if name == "auto":
        return ScalesRule(ratio, given)
    return MedianRule(15, ratio, 5) if name == "median-15" else MedianRule(31, ratio, 10)
