"""The threads of a run, and its progress for the person who waits.

Progress is a live line on a terminal, or a line every ten seconds in a log file.
"""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections.abc import Callable, Mapping
from typing import TextIO, TypeVar

from nodegate.errors import END_OF_THE_RUN, CannotMeasure

LINE_EVERY_S = 10.0
REFRESH_EVERY_S = 0.2
JUDGING = "judging"
ENOUGH = 20  # after a twentieth of a stage its time shows how long the rest takes
Jobs = queue.SimpleQueue[tuple[str, Callable[[], "T"]]]
T = TypeVar("T")
MOST_THREADS = 2048
WAIT_SLICE_S = 0.2  # a wait is split into slices, so that the end of the run is noticed


class Progress:
    """Counts what is done and prints it on its own stream, which it closes. `live`: a live line on a terminal."""

    def __init__(self, stream: TextIO | None, *, live: bool = True) -> None:
        self._stream = stream
        self._live = bool(live and stream and stream.isatty())
        self._guard = threading.Lock()
        self._name, self._total, self._done, self._failed, self._judged = "", 0, 0, 0, 0
        self._expected_s, self._of = 0.0, "nodes"
        self._started = self._said = self._first = time.monotonic()
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    def stage(self, name: str, total: int, *, of: str = "nodes", expected_s: float = 0.0) -> None:
        """A stage begins with this many nodes, or `of` something else; `expected_s` is how long it takes, if known."""
        with self._guard:
            self._expected_s, self._of = expected_s, of
            self._name, self._total, self._done, self._failed, self._judged = name, total, 0, 0, 0
            self._started = self._said = time.monotonic()
        if self._stream and self._thread is None:
            self._thread = threading.Thread(target=self._tell, name="progress", daemon=True)
            self._thread.start()

    def node_done(self, *, failed: bool) -> None:
        """One more node is done; `failed`: it could not be measured."""
        with self._guard:
            if self._name == JUDGING and not self._done:
                self._first = time.monotonic()
            self._done += 1
            self._failed += failed

    def node_judged(self) -> None:
        """One more node is judged; shown when all are measured and judging continues."""
        with self._guard:
            self._first = self._first if self._judged else time.monotonic()
            self._judged += 1

    def done(self) -> None:
        """The last stage has ended. May be called twice."""
        if self._ended.is_set():
            return
        self._ended.set()
        if self._thread:
            self._thread.join(timeout=2)
        if self._live:
            self._write("\r\x1b[K")
        self._close()

    def line(self) -> str:
        """The state of a stage: "facts: 120 of 128 nodes, 2 could not be measured, 14 s".

        Time left is an estimate for judging alone, which comes last: what is before it says nothing of the whole.
        """
        with self._guard:
            now = time.monotonic()
            took = f"{now - self._started:.0f} s"
            if 0 < self._judged < self._total == self._done:
                return ", ".join(
                    (f"judging: {self._judged} of {self._total} {self._of}", took, *self._left(self._judged, now))
                )
            parts = [f"{self._name}: {self._done} of {self._total} {self._of}"]
            if self._failed:
                parts.append(f"{self._failed} could not be measured")
            parts.append(f"{took} of about {self._expected_s:.0f} s" if self._expected_s else took)
            if self._name == JUDGING:
                parts += self._left(self._done, now)
        return ", ".join(parts)

    def _left(self, done: int, now: float) -> list[str]:
        """How long the rest takes, at the pace since the first was judged, once enough are."""
        if not 1 < done < self._total or done * ENOUGH < self._total:
            return []
        return [f"about {(now - self._first) / (done - 1) * (self._total - done):.0f} s left"]

    def _tell(self) -> None:
        while not self._ended.wait(REFRESH_EVERY_S):
            if self._live:
                self._write(f"\r\x1b[K{self.line()}")
            elif time.monotonic() - self._said >= LINE_EVERY_S:
                self._said = time.monotonic()
                self._write(f"{self.line()}\n")

    def _write(self, text: str) -> None:
        if self._stream:
            try:
                self._stream.write(text)
                self._stream.flush()
            except (OSError, ValueError):  # the reader is gone: the run matters more than its progress
                self._close()

    def _close(self) -> None:
        stream, self._stream = self._stream, None
        if stream:
            with contextlib.suppress(OSError):
                stream.close()


class ThreadPool:
    """See `measure.measurement.Pool`. `ended` is set when the run ends."""

    def __init__(self, progress: Progress, ended: threading.Event) -> None:
        self._progress, self._ended = progress, ended
        self._stage, self._until_s = "", 0.0

    def begin(self, stage: str, expected_s: float = 0.0) -> None:
        """The next calls of `at_once`, one or many, are this stage; `expected_s` is how long all of it takes."""
        self._stage, self._until_s = stage, time.monotonic() + expected_s

    @property
    def cancelled(self) -> bool:
        """Whether the run was ended: then nothing is started any more."""
        return self._ended.is_set()

    def at_once(self, jobs: Mapping[str, Callable[[], T]]) -> dict[str, T | CannotMeasure]:
        """Do all jobs at the same time; returns when the last has ended, or when the run has."""
        of = "pairs" if any(" " in name for name in jobs) else "nodes"
        left_s = max(0.0, self._until_s - time.monotonic())
        self._progress.stage(self._stage, len(jobs), of=of, expected_s=left_s)
        waiting: Jobs[T] = queue.SimpleQueue()
        for job in jobs.items():
            waiting.put(job)
        done: dict[str, T | CannotMeasure] = {}
        threads = [
            threading.Thread(target=self._work, args=(waiting, done), name=f"load-{number}", daemon=True)
            for number in range(min(MOST_THREADS, len(jobs)))
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            while thread.is_alive() and not self.cancelled:
                thread.join(WAIT_SLICE_S)
        ended = CannotMeasure("the run was ended", next_step="go on with --resume", lacks=END_OF_THE_RUN)
        return {name: done.get(name, ended) for name in jobs}

    def _work(self, waiting: Jobs[T], done: dict[str, T | CannotMeasure]) -> None:
        while not self.cancelled:
            try:
                name, job = waiting.get_nowait()
            except queue.Empty:
                return
            done[name] = result = _result(job)
            self._progress.node_done(failed=isinstance(result, CannotMeasure))


def _result(job: Callable[[], T]) -> T | CannotMeasure:
    try:
        return job()
    except CannotMeasure as said:
        return said
    except Exception as fault:  # noqa: BLE001 - one job's surprise must not end the fleet's run
        reason = f"nodegate itself failed on this measurement ({type(fault).__name__}: {fault})"
        return CannotMeasure(reason, next_step="report this as a fault of nodegate")
