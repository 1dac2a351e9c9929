"""Reads the lines of one log, one by one, and gives the result."""

from collections import deque
from collections.abc import Mapping
from dataclasses import replace

from nodegate.knowledge.words import Text
from nodegate.text import counted
from nodegate.watch import marks, remarks
from nodegate.watch.answer import Answer, Silent, Slow, State
from nodegate.watch.formats import FORMATS, Reader, reader
from nodegate.watch.lines import Stamp, plain, sender, stamp
from nodegate.watch.pace import Given, Pace
from nodegate.watch.pattern import Spikes
from nodegate.watch.plot import Curve
from nodegate.watch.reading import Reading
from nodegate.watch.rule import FEWEST, INTERVAL_S
from nodegate.watch.series import Series
from nodegate.watch.silence import SILENCE_S, Silence
from nodegate.watch.trainer_lines import TrainerLines

MOST_UNREAD = 200  # lines that a log's own format did not read: then any other is looked for, at half the speed


class Watcher:
    """One log: give it lines with `line` and time without lines with `idle`, then take the `answer`."""

    def __init__(
        self,
        *,
        formats: Mapping[str, Reader] = FORMATS,
        ratio: float = 0,
        silence_s: float = SILENCE_S,
        given: Given | None = None,
    ) -> None:
        self.curve = Curve()
        self.pace = Pace(ratio, given)
        self._formats = tuple(reader(form) for name, form in formats.items() if name != "steps")
        self._tolerant = TrainerLines() if "steps" in formats else None
        self._unread = 0
        self._series = Series()
        self._spikes = Spikes()
        self._between: deque[float] = deque(maxlen=50)
        self._silence = Silence(silence_s, self._between)
        self._at: Stamp | None = None
        self._read_at: Stamp | None = None
        self._explained: Text | None = remarks.START
        self._finished = self._died = False
        self.lost: Text | None = None  # why a part of the log could not be read: what is in it is not known
        self._first = self._points = self._readings = 0

    @property
    def iteration(self) -> int | None:
        """The last iteration in the log."""
        return self._series.last.iteration if self._series.last else None

    @property
    def finished(self) -> bool:
        """Whether the log said that training is over."""
        return self._finished or self._series.finished_at > 0

    def line(self, text: str) -> list[Slow | Silent]:
        """One line; returns what begins or ends with it."""
        events: list[Slow | Silent | None] = [self._silence.ends()]
        text = plain(text)
        at = stamp(text, self._at)
        if at:
            self._at = at
            self._silence.line(at, self.iteration)
        reading = self._read(text)
        if not at:
            self._silence.untimed(iteration=reading is not None)
        if reading and reading.by_clock:
            reading = replace(reading, elapsed_s=at.s) if at else None
        if reading:
            events += self._reading(reading, sender(text), at)
        else:
            self._other(text)
        return [event for event in events if event]

    def idle(self, seconds: float) -> list[Silent]:
        """No new line for so long; returns the silence that begins."""
        found = None if self.finished else self._silence.alive(seconds, self.iteration, died=self._died)
        return [found] if found else []

    def end(self) -> list[Silent]:
        """There will be no more lines; returns a gap that was not judged yet."""
        silent = [self._silence.paced(0.0), self._silence.judged(remarks.END if self._finished else self._explained)]
        return [found for found in (*silent, self._silence.paced(0.0)) if found]

    def answer(self) -> Answer:
        """The result of the lines so far."""
        state, reason = self._state()
        notes, given = self._notes(), self.pace.given
        return Answer(
            state=state,
            reason=reason,
            source=self._series.source,
            points=self._points,
            first=self._first,
            last=self.iteration or 0,
            usual_s=self.pace.usual_s,
            per=self._series.last.per if self._series.last else "iteration",
            slow=tuple(self.pace.slow),
            silent=tuple(self._silence.found),
            compared_with=given.name if given and not self.pace.incomparable else "itself",
            period=self._spikes.period(),
            restarts=tuple(self._series.restarts),
            finished=self.finished,
            died=self._died and not self._finished,
            notes=tuple(note.en for note in notes),
            notes_zh=tuple(note.zh for note in notes),
        )

    def _read(self, text: str) -> Reading | None:
        for read in self._formats:
            if reading := read(text):
                self._unread = 0
                return reading
        self._unread += 1
        if self._tolerant and (self._unread > MOST_UNREAD or self._series.source in ("", "steps")):
            return self._tolerant(text)
        return None

    def _reading(self, reading: Reading, from_whom: str, at: Stamp | None) -> list[Slow | Silent | None]:
        before, runs = self._series.last, len(self._series.restarts)
        point = self._series.add(reading, from_whom, at.text if at else "", at.s if at else None)
        if self._series.last is before or self._series.last is None:
            return []
        self._first = self._first if self._readings else reading.iteration
        self._readings += 1
        self._finished = self._died = False
        restarted = len(self._series.restarts) > runs
        between_s = at.s - self._read_at.s if at and self._read_at and before and not restarted else None
        slow_pace = self._silence.paced(between_s or 0.0)
        silent = self._silence.judged(remarks.RESTART if restarted else self._explained)
        self._explained = None if before else self._explained
        if between_s is not None:
            self._between.append(max(0.0, between_s))
        self._read_at = at
        if point is None:
            return [slow_pace, silent]
        self._points += 1
        self.curve.add(point.first, point.last, point.seconds)
        kinds = self.pace.kinds_seen
        slow = self.pace.add(point, self._series.last.per)
        if point.restarted or self.pace.kinds_seen > kinds:
            self._spikes.forget()
        if not point.warming:
            self._spikes.add(point)
        return [slow_pace, silent, slow]

    def _other(self, text: str) -> None:
        name = marks.mark(text)
        if name:
            self._silence.mark(name)
        if name == "start":
            self._series.start()
            self._explained = remarks.RESTART
        elif name in remarks.PAUSES:
            self._series.pause(name)
            self._explained = self._explained or remarks.PAUSES[name]
        elif name == "finished":
            self._finished = True
        elif name:
            self._died = self._died or name == "died"
        elif (rank := marks.slowest_rank(text)) is not None:
            self.pace.rank(rank)
        elif said := marks.setting(text):
            self._series.setting(*said)

    def _state(self) -> tuple[State, str]:
        silent = self._silence.found
        if self.pace.slow and (not silent or silent[-1].over):
            return State.SLOW, self.pace.slow[-1].line
        if silent:
            return State.SILENT, silent[-1].line
        if reason := self._unjudged():
            return State.NOT_JUDGED, reason
        against = f" and with the usual time of {self.pace.given.name}" if self.pace.given else ""
        return State.HEALTHY, f"no slow time and no silence, compared with its own pace{against}"

    def _unjudged(self) -> str:
        """Why nothing can be said; empty if the pace was judged."""
        if self.lost:
            return f"not read to its end: {self.lost.en}"
        if not self._readings:
            return "no iteration in a known form: name the parts of a line with --pattern"
        if not self.pace.judged:
            few, needed = counted(self._points, "measurement"), f"{FEWEST} intervals of {INTERVAL_S:g} s are needed"
            return f"{few} of iteration times: too few to know what is usual ({needed})"
        return self.pace.incomparable and f"it cannot be compared as asked: {self.pace.incomparable}"

    def _notes(self) -> list[Text]:
        notes = [remarks.restarted(before, after) for before, after in self._series.restarts[:20]]
        if self.lost:
            notes.append(self.lost)
        if self.pace.kinds_seen > 1:
            notes.append(remarks.settings(self.pace.kinds_seen))
        notes += self._silence.explained[:20]
        if not self._silence.timed:
            notes.append(remarks.NO_TIMES)
        if self._died and not self._finished:
            notes.append(remarks.DIED)
        if period := self._spikes.period():
            notes.append(remarks.periodic(period))
        elif pauses := self._spikes.irregular():
            notes.append(remarks.irregular(pauses))
        if self.pace.judged and not self.pace.given:
            notes.append(remarks.ITSELF)
        return notes
