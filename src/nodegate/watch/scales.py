"""The rule that is used if none is named: several windows, short ones for large slow-downs, long ones for small.

A window is slow if most of it is above its ratio, and further above the usual time than this job's own noise explains.
So a factor of three needs a minute, five percent need most of an hour, and in a noisy job only large
slow-downs are reported. bench/slow_jobs.py measures the delays and the false alarms.
"""

from __future__ import annotations

from collections import deque
from statistics import fmean, median
from typing import TYPE_CHECKING, NamedTuple

from nodegate.watch.seen import ONE, Seen, Span
from nodegate.watch.usual import NEEDS, Block, Noise, Usual, deviation_of_neighbours, middle

if TYPE_CHECKING:
    from collections.abc import Sequence

SHORTEST_S = 2.0  # of a point: shorter ones are put together
BLOCK_S = 20.0  # points are put together until they cover this
SPIKE = 1.4  # times the median of its block: left out of the block's mean
MOST_POINTS, MOST_BLOCKS = 600, 400
GUESSED_S = 2.0  # an iteration, where the log has neither times nor a clock
NOISES, NOISES_OF_ONE = 5.0, 3.0  # deviations of a window, and of a single point, that are noise


class Level(NamedTuple):
    """Slow is: a window of `seconds` and `iterations` is above `ratio` times the usual."""

    ratio: float
    seconds: float
    iterations: int


SUDDEN = (Level(2.5, 45, 6), Level(1.6, 100, 8), Level(1.3, 240, 10))
FEWEST_BLOCKS = 8
LONGEST = 3.0  # times the usual: what a point took longer does not count as time, it may be a pause
FEW = 7  # points: up to so many must all be above, about equally far, and more of them the more pauses a job has
EVEN = 1.35  # the largest over the smallest of these
BY_CHANCE = 3e-7
SAMPLED, FEWEST = 5, 3  # a line that measured one of so many steps is a sample; of such lines so many that agree
WALLS, FEWEST_WALLS = 200, 20  # times between lines that are remembered, and from how many on the usual one is known
OFTEN = Level(1.15, 300, 30)  # the mean, pauses and all, where many single steps are slow and the others are not
OFTEN_SHARE, TIMES_OFTEN = 0.3, 3  # of the steps are raised, and so many times as often as before
MOST_OF_IT = 0.8  # of the points of a sudden window are above, and the last one
STEADY = (Level(1.15, 420, 12), Level(1.05, 1200, 20), Level(1.03, 2400, 40))
FEW_STEPS, LONG_BLOCK_S = 4, 100.0  # a pause is not left out of the pace of a block with few steps, or of a long line:
STEADY_SHARE, NOISES_OF_BLOCK = 0.7, 2.0  # so much of a steady window must be above half of its excess and the noise
GIVEN = 1.05  # against a usual time from elsewhere no smaller ratio counts
EARLY, EARLY_MORE = 120, 0.01  # in so many first blocks the ratio of a steady window is larger by this
SMOOTH_S = 100.0  # the smoothed time that is reported covers this
SETTLED_S = 60.0  # the least time that must be normal before a slow time is over


class ScalesRule:
    """Windows of several lengths against what is usual.

    Args:
        ratio: no slow-down below this counts; 0 for the rule's own.
        given: a usual time from elsewhere; 0 if there is none. The faster of the two is compared with.
    """

    name, smoothed_by, needs = "auto", "mean", NEEDS

    def __init__(self, ratio: float = 0, given: float = 0) -> None:
        self._ratio, self._given = ratio, given
        self._points: deque[tuple[float, Span]] = deque(maxlen=MOST_POINTS)
        self._open: list[tuple[float, Span]] = []
        self._blocks: deque[Block] = deque(maxlen=MOST_BLOCKS)
        self._usual = Usual()
        self._short: tuple[float, Span] | None = None
        self._at_s = 0.0
        self._noise: Noise | None = None
        self._point_noise = 0.0
        self._seen = self._raised = self._pending = 0
        self._walls: deque[float] = deque(maxlen=WALLS)  # seconds of a step between the lines, by the clock
        self._slow: Level | None = None
        self._from_s = 0.0
        self._excess = 0.0

    def add(self, value: float, span: Span = ONE) -> Seen | None:
        """See `Rule`."""
        value, span, complete = self._joined(value, span)
        if not complete:
            return None
        if span.alone and span.iterations >= SAMPLED and span.seconds > 0:
            self._walls.append(span.seconds / span.iterations)
        else:
            self._walls.clear()
        if self._noise:
            self._count(raised=value > SUDDEN[-1].ratio * self._noise.usual)
            span = span._replace(seconds=span.seconds * min(1.0, LONGEST * self._noise.usual / value))
        self._at_s += span.seconds
        self._points.append((value, span))
        self._open.append((value, span))
        whole = sum(each.seconds for _, each in self._open) >= BLOCK_S
        if whole:
            self._close()
        if self._noise is None:
            return None
        worse = False
        if self._slow is None:
            self._begins(self._noise, whole=whole)
        elif not (worse := self._worse(self._noise)):
            self._ends(self._slow, self._noise)
        return Seen(self._smoothed(), self._noise.usual, self._slow is not None, worse, self._slow is OFTEN)

    def restart(self) -> None:
        """See `Rule`."""
        self._short = None
        self._points.clear()
        self._open.clear()
        self._blocks.clear()
        self._usual.forget_last()

    def window(self) -> int:
        """See `Rule`."""
        level = self._slow or SUDDEN[0]
        seconds = max(min(level.seconds, SUDDEN[-1].seconds), min(SMOOTH_S, self._at_s - self._from_s))
        return len(self._last_points(seconds, level.iterations) or self._points)

    def _count(self, *, raised: bool) -> None:
        """Counts the points, and those that were raised for a while only."""
        self._seen += 1
        if self._slow:
            self._pending = 0
        elif raised:
            self._pending += 1
        else:
            self._raised, self._pending = self._raised + self._pending, 0

    def _joined(self, value: float, span: Span) -> tuple[float, Span, bool]:
        """The point together with those before it that were too short; whether they are long enough now."""
        span = span if span.seconds > 0 else span._replace(seconds=GUESSED_S * span.iterations)
        if self._short:
            before, past = self._short
            count = past.iterations + span.iterations
            value = (before * past.iterations + value * span.iterations) / count
            span = Span(count, past.seconds + span.seconds, span.alone)
        complete = span.seconds >= SHORTEST_S
        self._short = None if complete else (value, span)
        return value, span, complete

    def _close(self) -> None:
        """A block is complete; it is part of what is usual unless the job is slow."""
        spans = [span for _, span in self._open]
        measured = sum(1 if span.alone else span.iterations for span in spans)
        block = Block(self._at_s, pace(self._open), sum(span.iterations for span in spans), measured)
        self._open = []
        self._blocks.append(block)
        if self._slow is None:
            self._usual.add(block)
            if self._usual.blocks % 10 == 1:
                self._point_noise = deviation_of_neighbours([value for value, _ in self._points])
        self._noise = self._against(self._usual.noise())

    def _against(self, own: Noise | None) -> Noise | None:
        """The usual time to compare with: the job's own, or a faster one that was given."""
        if not self._given or (own and own.usual <= self._given):
            return own
        if own:
            return own._replace(usual=self._given)
        if len(self._blocks) < NEEDS:
            return None
        return Noise(self._given, deviation_of_neighbours([each.pace for each in self._blocks]), 0.0, 0.0)

    def _begins(self, noise: Noise, *, whole: bool) -> None:
        found = next((level for level in SUDDEN if self._sudden(level, noise)), None)
        if found is None and whole:
            found = next((level for level in STEADY if self._steady(level)), None)
            found = found or (OFTEN if self._often(noise) else None)
        if found is None:
            return
        self._slow, self._from_s = found, self._at_s - found.seconds
        self._usual.drop_after(self._at_s - found.seconds)
        self._noise = self._against(self._usual.noise()) or noise
        self._excess = self._now(found) / self._noise.usual - 1

    def _now(self, level: Level) -> float:
        """The pace of a slow time that was just found; the first of its points may be from before it."""
        if level in SUDDEN and (values := self._last_points(level.seconds, level.iterations)):
            return median(values[:-1])
        return self._smoothed()

    def _often(self, noise: Noise) -> bool:
        """Whether far more single steps are slow than before, though the usual step is not."""
        values = self._last_points(OFTEN.seconds, OFTEN.iterations, OFTEN.iterations)
        if values is None:
            return False
        above = [value > SUDDEN[-1].ratio * noise.usual for value in values]
        raised, before = sum(above) / len(above), (self._raised + 1) / (self._seen + 60)
        if sum(above[:10]) >= 10 * MOST_OF_IT:  # each step is slow now: the other windows report that
            return False
        mean = fmean(min(value, LONGEST * noise.usual) for value in values)
        least = max(OFTEN.ratio, self._ratio) * noise.usual
        return raised >= max(OFTEN_SHARE, TIMES_OFTEN * before) and mean > least

    def _worse(self, noise: Noise) -> bool:
        """Whether it is suddenly slower than the slow time that was reported; that is a state of its own."""
        known = noise._replace(usual=noise.usual * (1 + self._excess))
        found = next((level for level in SUDDEN if self._sudden(level, known)), None)
        if found is None:
            return False
        self._slow, self._from_s = found, self._at_s - found.seconds
        self._excess = self._now(found) / noise.usual - 1
        return True

    def _ends(self, level: Level, noise: Noise) -> None:
        values = self._last_points(max(SETTLED_S, level.seconds / 2), level.iterations)
        limit = (1 + self._excess / 2) * noise.usual
        if level in STEADY:
            paces = self._last_blocks(level.seconds / 2, level.iterations // 2)
            over = paces is not None and middle(paces) < limit
        else:
            over = values is not None and sum(value < limit for value in values) >= MOST_OF_IT * len(values)
        if over:
            self._slow = None
            self._usual.forget_last()
            self._blocks.clear()
            self._points = deque(list(self._points)[-len(values or "x") :], maxlen=MOST_POINTS)

    def _sudden(self, level: Level, noise: Noise) -> bool:
        """Whether the last points are above the level; the first of a few may be from before and after at once."""
        one = max(noise.block, self._point_noise)
        limit = max(level.ratio, self._ratio, 1 + NOISES_OF_ONE * one) * noise.usual
        if self._points[-1][0] <= limit:
            return False
        agrees = self._clock_agrees()
        if agrees is False:
            return False
        lines = FEWEST if agrees else self._lines_needed()
        values = self._last_points(level.seconds, level.iterations, lines)
        if values is None:
            return False
        if len(values) > FEW:
            return sum(value > limit for value in values) >= MOST_OF_IT * len(values)
        whole = values[: lines - 1]
        even = max(whole) <= (EVEN + 4 * one) * min(whole)
        partly = noise.usual + (limit - noise.usual) / 5
        return even and min(values[:-1]) > limit and values[-1] > partly

    def _clock_agrees(self) -> bool | None:
        """Whether the steps between the last samples were as slow as these, by the clock; None: it cannot tell.

        If they were, no pauses made the samples; if they were as fast as ever, the samples are hiccups.
        """
        if self._noise is None or len(self._walls) < FEWEST_WALLS:
            return None
        usual = median(self._walls)
        lines = [
            (value / self._noise.usual, self._walls[-at] / usual, span.iterations)
            for at in range(1, FEWEST)
            for value, span in (self._points[-at],)
        ]
        if all(wall - 1 < 2 * (sample - 1) / steps for sample, wall, steps in lines):
            return False
        return all(1 / EVEN < sample / wall < EVEN for sample, wall, _ in lines) or None

    def _lines_needed(self) -> int:
        """So many pauses in neighbouring lines, about equally long, would be less than one in a million lines."""
        share = (self._raised + 1) / (self._seen + 60)
        return next((lines for lines in range(3, FEW) if share**lines * 0.25 ** (lines - 2) < BY_CHANCE), FEW)

    def _steady(self, level: Level) -> bool:
        paces = self._last_blocks(level.seconds, level.iterations)
        noise = self._against(self._usual.noise(self._at_s - level.seconds)) if paces else None
        if paces is None or noise is None:
            return False
        least = max(level.ratio, self._ratio, GIVEN if noise.usual == self._given else 0.0)
        least += EARLY_MORE * (self._usual.blocks < EARLY)
        if middle(paces) <= max(least, 1 + NOISES * noise.of(len(paces))) * noise.usual:
            return False
        if not self._hide_pauses(level, len(paces)):
            return True
        half = max((1 + level.ratio) / 2, 1 + NOISES_OF_BLOCK * noise.block) * noise.usual
        above = sum(each > half for each in paces)
        return above >= STEADY_SHARE * len(paces)

    def _hide_pauses(self, level: Level, blocks: int) -> bool:
        """Whether the last blocks are such that a single pause raises the pace of the one that it is in."""
        if level is STEADY[0]:
            return sum(block.measured for block in list(self._blocks)[-blocks:]) <= FEW_STEPS * blocks
        return blocks * LONG_BLOCK_S < level.seconds

    def _smoothed(self) -> float:
        """The pace now: a slow time is not mixed with what was before it."""
        if self._slow is OFTEN:
            return fmean(value for value, _ in list(self._points)[-self.window() :])
        if self._slow in STEADY and (paces := self._last_blocks(self._slow.seconds, self._slow.iterations)):
            return middle(paces)
        return pace(list(self._points)[-self.window() :])

    def _last_points(self, seconds: float, iterations: int, lines: int = 2) -> list[float] | None:
        """The last values that cover this time, newest first; None if there are not enough.

        Lines for single iterations must be five at least.
        """
        spent_s, covered, values, single = 0.0, 0, [], 0
        for value, span in reversed(self._points):
            values.append(value)
            spent_s, covered = spent_s + span.seconds, covered + span.iterations
            single += span.alone or span.iterations < 3
            fewest = max(lines, 2 if not single else 3 if covered >= 5 * len(values) else 5)
            if spent_s >= seconds and covered >= iterations and len(values) >= fewest:
                return values
        return None

    def _last_blocks(self, seconds: float, iterations: int) -> list[float] | None:
        """The paces of the last blocks that cover this time; None if there are not enough."""
        paces: list[float] = []
        covered = 0
        for block in reversed(self._blocks):
            if self._at_s - block.at_s >= seconds and covered >= iterations and len(paces) >= FEWEST_BLOCKS:
                return paces
            paces.append(block.pace)
            covered += block.iterations
        return None


def pace(points: Sequence[tuple[float, Span]]) -> float:
    """The mean of neighbouring points by iterations, the spikes left out."""
    limit = SPIKE * median(value for value, _ in points)
    steady = [(value, span.iterations) for value, span in points if value <= limit]
    return sum(value * count for value, count in steady) / sum(count for _, count in steady)
