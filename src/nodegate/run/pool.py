"""The threads of a run: many jobs at once, each with its own failure, all ended with the run."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Mapping
from typing import TypeVar

from nodegate.errors import END_OF_THE_RUN, CannotMeasure
from nodegate.run.progress import Progress

Jobs = queue.SimpleQueue[tuple[str, Callable[[], "T"]]]
T = TypeVar("T")
MOST_THREADS = 2048
WAIT_SLICE_S = 0.2  # a wait is split into slices, so that the end of the run is noticed


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
