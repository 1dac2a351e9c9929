"""From the readings of a log to one series of points: one source, restarts seen, the first iterations marked."""

from dataclasses import replace

from nodegate.watch.formats import FORMATS
from nodegate.watch.reading import Point, Reading, Span

WARM_UP_ITERATIONS = 20  # after each start: compilation, caches, allocator, first data
OF_INTERVAL = 10  # iterations, at least, of a log interval
ENOUGH_ELAPSED_S = 10  # of a clock in whole seconds; errors of neighbouring points cancel out
MOST_BETWEEN_S = 3600  # between two lines: more is a pause
ENDED = 0.9  # of its total: a counter that begins again then is that of the next epoch
SAMPLED = 5  # a line that measured one of so many steps is a sample: the clock says what all of them took
LOST_AFTER = 20  # readings of another source without one of the present source: the present one has ended
LOST_AFTER_S = 1800  # readings of another progress bar: more than any evaluation has, so a new run

_RANK = {name: number for number, name in enumerate(FORMATS)}


class Series:
    """Makes points out of readings.

    Several ranks may print the same iteration, and a log may hold several formats: the best format and the sender that
    is ahead make the series, the others are ignored until only they continue.
    """

    def __init__(self) -> None:
        self.restarts: list[tuple[int, int]] = []  # the last iteration before, the first after
        self.finished_at = 0  # the last iteration that the run announced, once it is reached
        self.source = ""
        self.last: Reading | None = None
        self._from = ""
        self._others = 0
        self._started_at = 0
        self._started = False
        self._start_marked = False
        self._anchor: Reading | None = None
        self._pause = ""
        self._settings: dict[str, int] = {}
        self._last_at_s: float | None = None
        self._lap: tuple[int | None, int] = (None, 0)
        self._laps_before, self._next_lap = 0, False

    def start(self) -> None:
        """A line said that training (re)starts."""
        self._start_marked = True

    def pause(self, what: str) -> None:
        """A line said that a checkpoint or an evaluation is between two iterations."""
        self._pause = what

    def setting(self, name: str, value: int) -> None:
        """A line of the start-up text."""
        self._settings[name] = value

    def add(self, reading: Reading, sender: str, time: str, at_s: float | None = None) -> Point | None:
        """The point that ends with this reading, whose line was written at `time`; None if it makes none (yet)."""
        if not self._ours(reading, sender):
            return None
        reading = self._counted(reading)
        before, restarted = self.last, self._restarts(reading)
        if restarted or before is None:
            self._begin(reading, before)
        between_s = at_s - self._last_at_s if at_s is not None and self._last_at_s is not None else 0.0
        self._last_at_s = at_s
        steps = reading.iteration - before.iteration if before and not restarted else 0
        if reading.alone and steps >= SAMPLED and between_s > 0:
            reading = replace(reading, seconds=between_s / steps, per="iteration", alone=False)
        self.last = reading
        if reading.total and self._lap[1] >= reading.total:
            self.finished_at = reading.iteration
        own = reading.seconds is not None or reading.lap_s is not None
        measured = self._by_itself(reading, before, restarted) if own else self._by_clock(reading)
        if measured is None:
            return None
        since, seconds = measured
        tokens, per_line = self._tokens(reading), reading.per == "log interval"
        point = Point(
            first=since + 1,
            last=reading.iteration,
            seconds=seconds,
            key=self._key(reading, tokens),
            tokens=tokens,
            time=time,
            pause=self._pause,
            warming=(since - self._started_at) * (OF_INTERVAL if per_line else 1) < WARM_UP_ITERATIONS,
            restarted=self._started,
            span=_span(reading, None if restarted else before, since, seconds, between_s),
            tflops=reading.tflops,
            mfu=reading.mfu,
        )
        self._anchor, self._pause, self._started = reading, "", False
        return point

    def _ours(self, reading: Reading, sender: str) -> bool:
        """Whether the reading belongs to the series; others are counted until this source must have ended."""
        last = self.last
        if last is None:
            self.source, self._from = reading.source, sender
            return True
        same = reading.source == last.source and reading.bar == last.bar and reading.kind == last.kind
        if same and sender == self._from:
            self._others = 0
            return True
        if reading.bar and last.bar and reading.bar != last.bar:
            over = self._start_marked or 0 < last.total <= self._lap[1]
            mine = over or (reading.elapsed_s or 0) > LOST_AFTER_S
            self._pause = "evaluation"
        else:
            better = _RANK.get(reading.source, -1) < _RANK.get(last.source, -1) or (
                last.by_clock and not reading.by_clock and reading.source == last.source
            )
            if same and reading.iteration > last.iteration and reading.seconds is not None:  # another sender is ahead
                self._others, self._from = 0, sender
                return True
            self._others += 1
            mine = better or self._others > LOST_AFTER
        if mine:
            self._others, self.source, self._from = 0, reading.source, sender
            self.last = self._anchor = None
        return mine

    def _counted(self, reading: Reading) -> Reading:
        """Iterations that each epoch counts from 1 are counted on from those of the epochs before in this log."""
        # An epoch is named, or the counter begins again after it has come to its end.
        lap, last = self._lap
        if reading.lap is not None and lap is not None:
            again = reading.lap > lap and reading.iteration <= last
            self._laps_before = 0 if reading.lap < lap else self._laps_before
        else:
            same = self.last is not None and self.last.total == reading.total and not self._start_marked
            again = same and 0 < reading.total <= last / ENDED and reading.iteration < last / 2
        self._next_lap = again
        if again:
            self._laps_before, self.finished_at = self._laps_before + last, 0
        self._lap = (reading.lap, reading.iteration)
        return replace(reading, iteration=self._laps_before + reading.iteration) if self._laps_before else reading

    def _restarts(self, reading: Reading) -> bool:
        """Whether a new run begins: a start was printed, or the iterations (or their clock) went back."""
        last = self.last
        if last is None:
            return False
        steps = reading.iteration - last.iteration
        clock_back = (reading.elapsed_s or 0) < (last.elapsed_s or 0) and reading.total > 0 and not self._next_lap
        return self._start_marked or steps < 0 or (not steps and reading.elapsed_s is None) or clock_back

    def _begin(self, reading: Reading, before: Reading | None) -> None:
        if before is not None:
            self.restarts.append((before.iteration, reading.iteration))
            del self.restarts[1000:]
        self.finished_at = 0
        self._started_at = reading.iteration if reading.elapsed_s is not None else max(0, reading.iteration - 1)
        if before is None and reading.seconds is not None and not reading.alone and reading.iteration <= 100:
            self._started_at = 0  # the first line of a run: all iterations up to it
        self._started, self._start_marked, self._pause, self._anchor = True, False, "", None

    def _by_itself(self, reading: Reading, before: Reading | None, restarted: bool) -> tuple[int, float] | None:
        if reading.alone and reading.seconds is not None:
            return reading.iteration - 1, reading.seconds
        since = self._started_at if before is None or restarted else before.iteration
        since = min(since, reading.iteration - 1)
        if reading.seconds is None:
            known = before is not None and not restarted and reading.lap_s is not None
            return (since, (reading.lap_s or 0.0) / (reading.iteration - since)) if known else None
        return since, reading.seconds

    def _by_clock(self, reading: Reading) -> tuple[int, float] | None:
        """The line has the time since the start: long enough intervals of it make points."""
        anchor, now_s = self._anchor, reading.elapsed_s
        if anchor is None or anchor.elapsed_s is None or now_s is None or now_s < anchor.elapsed_s:
            self._anchor = reading
            return None
        steps, spent_s = reading.iteration - anchor.iteration, now_s - anchor.elapsed_s
        return None if steps < 1 or spent_s < ENOUGH_ELAPSED_S else (anchor.iteration, spent_s / steps)

    def _tokens(self, reading: Reading) -> float | None:
        anchor = self._anchor
        if anchor is None or anchor.tokens is None or reading.tokens is None:
            return None
        steps, tokens = reading.iteration - anchor.iteration, reading.tokens - anchor.tokens
        return tokens / steps if steps > 0 and tokens > 0 else None

    def _key(self, reading: Reading, tokens: float | None) -> tuple[object, ...]:
        own = {"batch": reading.batch, "sequence": reading.sequence, "world": reading.world}
        settings = (self._settings.get(name) if value is None else value for name, value in own.items())
        return (reading.source, reading.per, reading.bar, *settings, tokens is not None)


def _span(reading: Reading, before: Reading | None, since: int, seconds: float, between_s: float) -> Span:
    """What a point stands for; the time of samples and tokens is the one between the lines."""
    steps = reading.iteration - since
    covered = reading.iteration - before.iteration if reading.alone and before else steps
    spent_s = seconds * covered if reading.per == "iteration" else between_s
    if reading.per == "log interval":
        covered *= OF_INTERVAL
    return Span(max(1, covered), spent_s if 0 < spent_s < MOST_BETWEEN_S else 0.0)
