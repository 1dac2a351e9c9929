"""Silence: between two lines by the times that they carry, and now by the clock of this machine."""

from collections import deque
from dataclasses import replace
from statistics import median

from nodegate.knowledge.words import Text
from nodegate.watch import remarks
from nodegate.watch.answer import Silent
from nodegate.watch.lines import Stamp

SILENCE_S = 300.0
TIMES_USUAL = 4  # a job that writes every 14 minutes is not silent after 5
MOST_SLOWER = 10  # times the usual: a longer gap is a silence in any case
MOST_FOUND = 1000
MOST_UNTIMED = 20  # lines without a time between two with one: they belong to the line before, such as a traceback
NO_CLOCK_S = 30 * 86400


class Silence:
    """The silences of a log that nothing explains.

    A gap is judged when the next iteration is there: its explanation ("saved checkpoint") may come after it.
    """

    def __init__(self, limit_s: float, between: deque[float]) -> None:
        self.found: list[Silent] = []
        self.explained: list[Text] = []
        self.timed = 0  # lines that had a time
        self._limit_s = limit_s
        self._between = between
        self._last: Stamp | None = None
        self._untimed = 0
        self._gap: Silent | None = None
        self._doubtful: Silent | None = None
        self._mark_after = ""

    def limit_s(self) -> float:
        """The limit, longer for a job that has few lines, or has become slow."""
        return max(self._limit_s, TIMES_USUAL * max(self._usual_s(), self._usual_s(3)))

    def _usual_s(self, last: int = 0) -> float:
        """The time between two lines, of all or of the last ones; 0 if it is not known."""
        between = list(self._between)[-last:]
        return median(between) if between else 0.0

    def line(self, at: Stamp, iteration: int | None) -> None:
        """The next line with a time, and the last iteration before it."""
        self.timed += 1
        self._untimed = 0
        before = self._last
        if before is not None and (at.s <= before.s or at.s - before.s > NO_CLOCK_S):
            return  # several machines in different time zones; or a date that is not a clock
        self._last = at
        if before is None or at.s - before.s <= self.limit_s():
            return
        if self._gap is None or at.s - before.s > self._gap.seconds:
            self._gap = Silent(at.s - before.s, self.limit_s(), iteration, before.text, over=True)
            self._mark_after = ""

    def untimed(self, *, iteration: bool) -> None:
        """A line without a time: an iteration, or many others, may be anywhere between two times."""
        self._untimed += 1
        if iteration or self._untimed > MOST_UNTIMED:
            self._last = None

    def mark(self, name: str) -> None:
        """A line that explains something; the first one after a gap says what the silent process did."""
        self._mark_after = self._mark_after or name

    def judged(self, explained: Text | None) -> Silent | None:
        """The next iteration is there, or the end; `explained` is what was between it and the one before."""
        gap, self._gap = self._gap, None
        if gap is None:
            return None
        if self._mark_after == "died":  # it was silent, then reported its end: it was hung
            gap = replace(gap, died=True)
        elif explained:
            if len(self.explained) < MOST_FOUND:
                self.explained.append(remarks.explained(gap.seconds, gap.time, explained))
            return None
        elif gap.seconds <= MOST_SLOWER * self._usual_s():
            self._doubtful = gap  # of a job that writes rarely: it may have become so slow
            return None
        return self._told(gap)

    def paced(self, between_s: float) -> Silent | None:
        """The next interval after a gap that may have been a slow pace; a silence if this one is much shorter."""
        gap, self._doubtful = self._doubtful, None
        return self._told(gap) if gap and between_s < gap.seconds / 2 else None

    def _told(self, gap: Silent) -> Silent:
        if len(self.found) < MOST_FOUND:
            self.found.append(gap)
        return gap

    def alive(self, seconds: float, iteration: int | None, *, died: bool) -> Silent | None:
        """By the clock of this machine no line came for so long; returns the silence when it begins."""
        if seconds < self.limit_s():
            return None
        now = Silent(seconds, self.limit_s(), iteration, self._last.text if self._last else "", died=died)
        if self.found and not self.found[-1].over:
            self.found[-1] = now
            return None
        self.found.append(now)
        return now

    def ends(self) -> Silent | None:
        """A line came; returns the silence that it ends."""
        if not self.found or self.found[-1].over:
            return None
        self._last = None  # the times of the lines would report the same silence again
        self.found[-1] = replace(self.found[-1], over=True)
        return self.found[-1]
