"""Readers of logs: what a failed job left, and a training log that grows."""

from __future__ import annotations

import gzip
import io
import json
from dataclasses import dataclass
from typing import IO

from fuzz import seeds
from fuzz.seeds import NEXT_LOG, NEXT_PATTERN
from fuzz.target import Target, text_of
from nodegate.triage import clock, details, launchers, place, read, scan
from nodegate.triage import render as triage_render
from nodegate.triage.answer import answer
from nodegate.triage.log import last_iteration
from nodegate.triage.page import page as triage_page
from nodegate.triage.reading import read as read_logs
from nodegate.triage.remarks import Remarks
from nodegate.triage.sources import Source, Sources
from nodegate.watch import marks, own_pattern, render
from nodegate.watch.formats import FORMATS, reader
from nodegate.watch.html import page
from nodegate.watch.lines import LineSplitter
from nodegate.watch.watcher import Watcher

NOW_S = 1_800_000_000.0
TIMES = clock.Times(NOW_S)


@dataclass(frozen=True)
class _Memory(Source):
    """A log that stands in memory."""

    data: bytes = b""

    def open(self) -> IO[bytes]:
        return io.BytesIO(self.data)


def _triaged(*logs: _Memory) -> None:
    given = answer(read_logs(Sources(logs), now_s=NOW_S))
    for language in ("en", "zh"):
        triage_render.text(given, language).encode()
    json.loads(triage_render.as_json(given).encode())


def _job_logs(data: bytes) -> None:
    parts = data.split(NEXT_LOG)[:8]
    _triaged(*(_Memory(f"logs/rank_{number}.log", data=part) for number, part in enumerate(parts)))


def _kernel_logs(data: bytes) -> None:
    parts = data.split(NEXT_LOG)[:8]
    _triaged(*(_Memory(f"gpu0{number}.log", kernel=True, data=part) for number, part in enumerate(parts)))


def _logs_with_page(data: bytes) -> None:
    """A job's log and its node's kernel log, and the page that is made of them."""
    job, _, kernel = data.partition(NEXT_LOG)
    logs = (_Memory("job.log", data=job), _Memory("dmesg-gpu01", node="gpu01", kernel=True, data=kernel))
    given = answer(read_logs(Sources(logs), now_s=NOW_S))
    triage_page(given).encode()


def _packed(data: bytes) -> None:
    """Packed files and archives, as they came and cut short."""
    whole = gzip.compress(data, 1, mtime=0)
    tar = data[:257].ljust(257, b"0") + b"ustar" + data
    magic = (b"\x1f\x8b", b"\xfd7zXZ\0", b"BZh91AY&SY", b"PK\3\4", b"\xff\xfe")
    for packed in (*(each + data for each in magic), tar, whole[: 10 + len(data) % max(len(whole), 1)], whole + data):
        said = Remarks()
        for _, parts in read.members(io.BytesIO(packed), "log.gz", said):
            for _ in read.chunks(parts, said):
                pass


def _line_parts(data: bytes) -> None:
    """What is read from single lines and from the names of logs."""
    near = text_of(data[: 1 << 16])  # as much as is given to these
    elastic_report = [*launchers.of_torchrun(near[:4096], TIMES), *launchers.of_mpirun(near[:4096])]
    assert all(said for *_, said in elastic_report)  # noqa: S101
    for line in scan.interesting(data):
        scan.identifies(line.text)
    last_iteration(data, 0, len(data), TIMES)
    TIMES.last(near)
    for line in text_of(data).split("\n")[:200]:
        line = line[:4000]  # noqa: PLW2901 - scan cuts there
        place.of_line(line)
        place.of_path(line)
        stamp = TIMES.first(line)
        clock.shown(stamp.epoch_s if stamp else None, zone_s=clock.zone_in(line) or 0.0)
        launchers.ENDS_WORKERS.match(line[:200])
        details.ran_s(line)
        details.peer(line)


def _watched(data: bytes, watching: Watcher) -> None:
    splitter = LineSplitter()
    middle = len(data) // 2
    for line in (*splitter.feed(data[:middle]), *splitter.feed(data[middle:]), *splitter.end()):
        watching.line(line)
    watching.idle(1000)
    watching.end()
    said = watching.answer()
    json.loads(render.answer_json(said, "log"))
    "\n".join(render.text(said, "log")).encode()
    page(said, watching.curve, "log").encode()


def _watch(data: bytes) -> None:
    _watched(data, Watcher(silence_s=300))


def _watch_own(data: bytes) -> None:
    """A user's own pattern over a log."""
    pattern, _, log = data.partition(NEXT_PATTERN)
    _watched(log, Watcher(formats={"pattern": own_pattern.OwnPattern(text_of(pattern))}))


def _watched_lines(data: bytes) -> None:
    readers = [reader(form) for form in FORMATS.values()]
    for line in text_of(data).split("\n"):
        for each in readers:
            each(line)
        marks.mark(line)
        marks.setting(line)
        marks.slowest_rank(line)


TARGETS = {
    "triage.job_logs": Target(_job_logs, seeds.job_logs),
    "triage.kernel_logs": Target(_kernel_logs, seeds.kernel_logs),
    "triage.page": Target(_logs_with_page, seeds.job_and_kernel_logs),
    "triage.packed": Target(_packed, seeds.kernel_logs),
    "triage.line_parts": Target(_line_parts, seeds.job_logs),
    "watch.log": Target(_watch, seeds.training_logs),
    "watch.lines": Target(_watched_lines, seeds.training_logs),
    # A pattern of the user's own may be slow: it is ended after ten matches of 0.1 s.
    "watch.own_pattern": Target(_watch_own, seeds.own_patterns, slow_s=4.0),
}
