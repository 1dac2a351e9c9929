"""Judges the pace: the rule over comparable points, and the slow times that it finds."""

from collections import Counter, deque
from dataclasses import dataclass, field, replace
from itertools import islice
from statistics import median

from nodegate.watch.answer import Slow
from nodegate.watch.reading import Point
from nodegate.watch.rule import Rule, Seen

MOST_KINDS = 16  # settings (batch, sequence length, world size) whose usual time is kept
MOST_FOUND = 1000
MOST_BACK = 3000  # how many points back the beginning of a slow time is searched
MORE = 1.05  # times the excess that was reported: then the numbers of the slow time are replaced
MUCH_MORE = 1.2  # times the time that was reported: then it is reported again
PAUSES_AT_MOST = 0.5  # share of the last points after a pause: above it, pauses are normal for this job
SETTINGS = {3: "global batch size", 4: "sequence length", 5: "number of ranks"}  # by their place in a point's key


@dataclass(frozen=True)
class Given:
    """What is usual by someone else's word."""

    name: str  # where it comes from, as users read it
    seconds: float  # of an iteration (or sample, or token)
    per: str = "iteration"  # what `seconds` is the time of
    setting: tuple[object, ...] = ()  # the key of the earlier run's points; empty if only the time is known
    tokens: float | None = None  # of an iteration of the earlier run; None if it did not count them
    mfu: float = 0.0  # the share of the GPUs' peak that is usual, in percent; then there is no time: `seconds` is 0
    peak_tflops: float = 0.0  # the peak of a GPU, for logs that name TFLOP/s and no MFU; 0 if it is not known

    def differs(self, point: Point, per: str) -> str:
        """Why these points cannot be compared with it; empty if they can."""
        if self.mfu:
            if point.mfu is None and point.tflops is None:
                return f"{self.name}: this log names neither an MFU nor TFLOP/s"
            lacks_peak = point.mfu is None and not self.peak_tflops
            return f"{self.name}: this log names TFLOP/s: give --platform for the GPU's peak" if lacks_peak else ""
        if per != self.per:
            return f"{self.name} is the time of one {self.per}, this log has that of one {per}"
        for place, what in SETTINGS.items() if self.setting else ():
            there, here = self.setting[place], point.key[place]
            if there is not None and here is not None and there != here:
                return f"another {what}: {there} in {self.name}, {here} here"
        if self.setting and (self.tokens is None) != (point.tokens is None):
            return f"only one of the two counts tokens: {self.name} and this log"
        return ""

    def seconds_for(self, point: Point) -> float:
        """The time for as many tokens as an iteration of this point has; the time of the same work at the usual MFU."""
        if self.mfu:
            share = point.mfu if point.mfu is not None else 100 * (point.tflops or 0.0) / self.peak_tflops
            return point.seconds * share / self.mfu
        return self.seconds * point.tokens / self.tokens if point.tokens and self.tokens else self.seconds


@dataclass
class _Kind:
    """Points of one setting: its rule, the last points with their values, and the tokens per iteration."""

    rule: Rule
    tokens: float
    given_s: float = 0.0
    recent: deque[tuple[Point, float]] = field(default_factory=lambda: deque(maxlen=MOST_BACK))
    pauses: deque[bool] = field(default_factory=lambda: deque(maxlen=16))
    seen: Seen | None = None


class Pace:
    """The slow times of a job; the last one may still continue."""

    def __init__(self, ratio: float = 0, given: Given | None = None) -> None:
        self.slow: list[Slow] = []
        self.judged = 0
        self.kinds_seen = 0
        self.given = given
        self.incomparable = ""  # why the given time could not be compared with
        self._ratio = ratio
        self._kinds: dict[tuple[object, ...], _Kind] = {}
        self._now: _Kind | None = None
        self._per = "iteration"
        self._ranks: Counter[int] = Counter()
        self._cold: deque[float] = deque(maxlen=MOST_BACK)  # times of warming points, and of the others
        self._warm: deque[float] = deque(maxlen=MOST_BACK)

    @property
    def lasts(self) -> bool:
        """Whether the job is slow now."""
        return bool(self.slow) and self.slow[-1].until is None

    @property
    def usual_s(self) -> float | None:
        """The usual time of an iteration (or sample) in seconds: the baseline, or the median before there is one."""
        if self._now and self._now.seen:
            return self._now.seen.usual
        return median(self._warm or self._cold) if self._warm or self._cold else None

    def rank(self, number: int) -> None:
        """A rank that the straggler detector named."""
        if self.lasts and (number in self._ranks or len(self._ranks) < 1000):
            self._ranks[number] += 1
            self.slow[-1] = replace(self.slow[-1], slowest_rank=self._ranks.most_common(1)[0][0])

    def add(self, point: Point, per: str) -> Slow | None:
        """The next point; returns the slow time that begins or ends with it."""
        if point.restarted:
            for kept in self._kinds.values():
                kept.rule.restart()
                kept.recent.clear()
        (self._cold if point.warming else self._warm).append(point.seconds)
        if point.warming:
            return None
        self._per = per
        kind = self._now = self._kind(point, per)
        kind.pauses.append(bool(point.pause))
        if point.pause and sum(kind.pauses) <= PAUSES_AT_MOST * len(kind.pauses) + 1:
            return None
        value = point.seconds * kind.tokens / point.tokens if point.tokens else point.seconds
        kind.recent.append((point, value))
        seen = kind.rule.add(value, point.span)
        if seen is None:
            return None
        kind.seen = seen
        self.judged += 1
        if self.lasts:
            return self._goes_on(kind, seen, point, per)
        return self._begins(kind, seen, per) if seen.slow and len(self.slow) < MOST_FOUND else None

    def _kind(self, point: Point, per: str) -> _Kind:
        kind = self._kinds.pop(point.key, None)
        if kind is None:
            self.kinds_seen += 1
            self.incomparable = self.given.differs(point, per) if self.given else ""
            given_s = self.given.seconds_for(point) if self.given and not self.incomparable else 0.0
            kind = _Kind(Rule(self._ratio, given_s), point.tokens or 1.0, given_s)
            if len(self._kinds) >= MOST_KINDS:
                del self._kinds[next(iter(self._kinds))]
        if self._now is not None and self._now is not kind and self.lasts:
            self.slow[-1] = replace(self.slow[-1], until=point.first)  # another setting: it cannot be followed any more
        self._kinds[point.key] = kind
        return kind

    def setting(self, name: str) -> Given | None:
        """What is usual in this log, for a later one to be compared with; None if it could not be judged."""
        now = self._now
        if now is None or now.seen is None or not now.recent:
            return None
        point = now.recent[-1][0]
        return Given(name, now.seen.usual, self._per, point.key, now.tokens if point.tokens else None)

    def _begins(self, kind: _Kind, seen: Seen, per: str) -> Slow:
        """A slow time begins, or a much slower one inside it."""
        self._ranks.clear()
        known = self.slow[-1] if self.lasts else None
        before = known.smoothed_s if known else seen.usual
        back = _beginning(kind, before, seen.smoothed)
        points = list(islice(kind.recent, len(kind.recent) - back, None))
        since = points[0][0]
        if known:
            self.slow[-1] = replace(known, until=since.first)
        self.slow.append(
            Slow(
                since=since.first,
                time=since.time,
                window=(max(since.first, _window(kind, seen)[0]), points[-1][0].last),
                smoothed_s=seen.smoothed,
                baseline_s=seen.usual,
                per=per,
                against=self.given.name if self.given and kind.given_s == seen.usual else "",
            )
        )
        return self.slow[-1]

    def _goes_on(self, kind: _Kind, seen: Seen, point: Point, per: str) -> Slow | None:
        """While it lasts, the worst value is kept; when it ends, the slow time is returned again, with its end."""
        now = self.slow[-1]
        if not seen.slow:
            self.slow[-1] = replace(now, until=point.last)
            kind.recent.clear()
            return self.slow[-1]
        if seen.worse and seen.smoothed > MUCH_MORE * now.smoothed_s and len(self.slow) < MOST_FOUND:
            return self._begins(kind, seen, per)
        if seen.smoothed / seen.usual - 1 > MORE * now.excess:
            self.slow[-1] = replace(now, window=_window(kind, seen), smoothed_s=seen.smoothed, baseline_s=seen.usual)
        return None


def _window(kind: _Kind, seen: Seen) -> tuple[int, int]:
    last = list(islice(reversed(kind.recent), seen.points))
    return last[-1][0].first, last[0][0].last


def _beginning(kind: _Kind, usual: float, slow: float) -> int:
    """How many points ago it most probably became slow: where the points from there on are the most above the middle.

    One spike counts no more than two slow points.
    """
    middle, most = (usual + slow) / 2, (slow - usual) / 2
    sum_so_far = best = 0.0
    back = 1
    for count, (_, value) in enumerate(reversed(kind.recent), 1):
        sum_so_far += max(-most, min(2 * most, value - middle))
        if sum_so_far > best:
            best, back = sum_so_far, count
    return back
