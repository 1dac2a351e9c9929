"""`nodegate watch LOG`: from the command line to the exit code."""

import sys
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TextIO

from nodegate.errors import UsageError
from nodegate.files.strict_yaml import did_you_mean
from nodegate.notices.target import targets_of
from nodegate.notices.tell import tell_line
from nodegate.text import visible
from nodegate.watch import render
from nodegate.watch.answer import Silent, Slow
from nodegate.watch.follow import CHUNK_BYTES, Stream, source
from nodegate.watch.formats import FORMATS, Reader
from nodegate.watch.lines import LineSplitter
from nodegate.watch.options import Asked
from nodegate.watch.own_pattern import OwnPattern
from nodegate.watch.pace import Given
from nodegate.watch.stop import Stop
from nodegate.watch.watcher import Watcher

POLL_S = 1.0
LINGER_S = 10.0  # after the log said that training is over


def watch(asked: Asked, out: TextIO | None = None, clock: Callable[[], float] = time.monotonic) -> int:
    """Watches one log; returns 0 healthy, 1 slow or silent, 2 could not tell.

    Raises:
        UsageError: an option or the log cannot be used.
    """
    return _Watch(asked, out or sys.stdout, clock).run()


class _Watch:
    def __init__(self, asked: Asked, out: TextIO, clock: Callable[[], float]) -> None:
        self.asked, self.out, self.clock = asked, out, clock
        self.targets = targets_of(asked.notice)
        self.watcher = Watcher(
            formats=_formats(asked), ratio=asked.ratio, silence_s=asked.silence_s, given=_given(asked)
        )
        self.splitter = LineSplitter()
        self.caught_up = asked.once
        self.found = False
        self.name = visible(str(asked.log))

    def run(self) -> int:
        stop = Stop()
        try:
            with source(self.asked.log, once=self.asked.once) as read, stop:
                self.pump(read, stop)
        except KeyboardInterrupt:
            stop.asked = True
        if stop.asked:
            print(file=self.out)  # a line of its own for what follows ^C
        self.told(self.watcher.end())
        answer = self.watcher.answer()
        if self.asked.once and answer.exit == 1:
            self.send(answer.reason)
        if self.asked.html:
            _write(self.asked.html, self.watcher, self.name)
        if self.asked.json:
            self.say(render.answer_json(answer, self.name))
        else:
            for line in render.text(answer, self.name, self.asked.lang, found=self.asked.once):
                self.say(line)
        return answer.exit

    def pump(self, read: Stream, stop: Stop) -> None:
        """Reads to the end: of the file or pipe, of the training, by Ctrl-C, or at the first finding if asked for."""
        last, age_s = self.clock(), read.idle_s()
        while not stop.asked and not (self.asked.stop and self.found):
            data = read.read(POLL_S)
            if data is None:
                break
            for line in self.splitter.feed(data):
                self.told(self.watcher.line(line))
            if data:
                last = self.clock()
            if not self.caught_up and len(data) < CHUNK_BYTES:  # all that was there: now this machine's clock counts
                self.caught_up, last = True, self.clock() - age_s
                if self.watcher.pace.lasts:  # of what was found before the watch began, only this is sent as a notice
                    self.send(self.watcher.pace.slow[-1].line)
            idle_s = self.clock() - last
            self.told(self.watcher.idle(idle_s))
            if self.watcher.finished and idle_s > LINGER_S:
                break
        for line in self.splitter.end():
            self.told(self.watcher.line(line))
        self.watcher.lost = read.lost
        if self.asked.once and self.asked.running:
            self.told(self.watcher.idle(age_s))

    def told(self, events: Iterable[Slow | Silent]) -> None:
        for event in events:
            self.found = True
            if not self.asked.once:
                self.say(render.event(event) if self.asked.json else event.line)
                if self.caught_up:
                    self.send(event.line)

    def say(self, line: str) -> None:
        print(line, file=self.out, flush=True)

    def send(self, line: str) -> None:
        for wrong in tell_line(line, self.targets, "watch"):
            print(f"nodegate: {wrong}", file=sys.stderr)  # noqa: T201 - a command line


def _formats(asked: Asked) -> Mapping[str, Reader]:
    if asked.pattern:
        return {"pattern": OwnPattern(asked.pattern)}
    return FORMATS if asked.format == "auto" else {asked.format: FORMATS[asked.format]}


def _given(asked: Asked) -> Given | None:
    if asked.platform and not asked.mfu:
        raise UsageError("--platform only says against which peak --mfu is", hint="give --mfu too")
    usual = {"--like": asked.like, "--usual": asked.usual_s, "--mfu": asked.mfu}
    words = [word for word, given in usual.items() if given]
    if len(words) > 1:
        raise UsageError(f"{' and '.join(words)} give several usual times", hint="give one of them")
    if asked.mfu:
        of = f" of {asked.platform}" if asked.platform else ""
        return Given(f"an MFU of {asked.mfu:g} %{of}", 0.0, mfu=asked.mfu, peak_tflops=_peak_tflops(asked.platform))
    if asked.like:
        return _of_earlier(asked, asked.like)
    return Given(f"--usual {asked.usual_s:g}s", asked.usual_s) if asked.usual_s else None


def _peak_tflops(platform: str) -> float:
    """The peak of a platform's GPUs in bf16; 0 without a platform."""
    from nodegate.baseline.baseline import Baselines  # noqa: PLC0415 - only where a platform is named

    if not platform:
        return 0.0
    known = Baselines.read().platforms
    if platform not in known:
        raise UsageError(f"there is no platform {platform!r}", hint=did_you_mean(platform, known))
    entry = known[platform].limits.get("burn.bf16_tflops")
    if entry is None or not entry.most:
        raise UsageError(f"the baseline of {platform} has no bf16 peak", hint="nodegate baseline show " + platform)
    return entry.most


def _of_earlier(asked: Asked, log: Path) -> Given:
    earlier, splitter = Watcher(formats=_formats(asked)), LineSplitter()
    with source(log, once=True) as read:
        while (data := read.read(POLL_S)) is not None:
            for line in splitter.feed(data):
                earlier.line(line)
    for line in splitter.end():
        earlier.line(line)
    given = earlier.pace.setting(visible(str(log)))
    if given is None:
        raise UsageError("too few iterations to know what is usual", file=str(log))
    return given


def _write(path: Path, watcher: Watcher, name: str) -> None:
    from nodegate.files.atomic import replacing  # noqa: PLC0415 - and the page below: only where a page is written
    from nodegate.watch.html import page  # noqa: PLC0415

    try:
        with replacing(path) as file:
            file.write(page(watcher.answer(), watcher.curve, name))
    except OSError as said:
        raise UsageError(f"cannot be written: {said.strerror}", file=str(path)) from said
