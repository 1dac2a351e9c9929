"""What happened between runs: repairs, accepting again, and what the kernel log has. The first are in a file too.

No run folder holds them, so they are appended to `events.jsonl` beside the record, which nothing deletes: a record that
is made again takes them from there.
"""

import contextlib
import math
import os
import sqlite3
from collections.abc import Iterable, Iterator
from dataclasses import astuple
from pathlib import Path

from nodegate.errors import UsageError
from nodegate.files.bounded import open_regular
from nodegate.past.event import BOOT, HOOK, HOOK_DROPPED, HOOK_FIT, HOOK_UNREAD, OF_SLURM, Event
from nodegate.records.store import from_bytes, to_bytes

FILE = "events.jsonl"
MOST_LINE_BYTES = 1 << 16
SAME_S = 5.0  # two boots may compute the time of one kernel line so far apart
_NEAR = "select 1 from events where part = ? and kind = ? and text = ? and epoch_s between ? and ? limit 1"
_SAME = "select 1 from events where part = ? and kind = ? and source = ? limit 1"
_NEAR_ON_NODE = _NEAR.replace("part = ?", "node = ?")  # a node that is out may not be reached: its part is not known
_COLLECTED = "select 1 from decisions join runs on runs.id = run where node = ? and started_epoch_s >= ? limit 1"
_DAY = "select text from events where part = ? and kind = ? and source = ? and epoch_s = ?"
_LESS = "delete from events where part = ? and kind = ? and source = ? and epoch_s = ?"
_MOST_DIGITS = 10
_ADD = "insert or ignore into events (epoch_s, kind, node, part, source, text) values (?, ?, ?, ?, ?, ?)"


def append(record: Path, events: Iterable[Event]) -> None:
    """Add events to the file beside a record; they are on disk when this returns.

    Raises:
        UsageError: they cannot be written.
    """
    file = record.with_name(FILE)
    raw = b"".join(to_bytes(each) + b"\n" for each in events)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        if not _ends_a_line(file):
            raw = b"\n" + raw  # a line that was cut by a crash must not take this one with it
        handle = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
        try:
            os.write(handle, raw)
            os.fsync(handle)
        finally:
            os.close(handle)
    except OSError as broken:
        raise UsageError(f"cannot be written: {broken.strerror}", file=str(file)) from broken


def _ends_a_line(file: Path) -> bool:
    if not file.exists() or not file.stat().st_size:
        return True
    with open_regular(file) as opened:
        opened.seek(-1, os.SEEK_END)
        return opened.read(1) == b"\n"


def read(record: Path) -> Iterator[Event | int]:
    """The events of the file beside a record; of a line that is none its number.

    Raises:
        UsageError: the file cannot be read.
    """
    file = record.with_name(FILE)
    if not file.exists():
        return
    try:
        with open_regular(file) as lines:
            number = 0
            while raw := lines.readline(MOST_LINE_BYTES):
                number += raw.endswith(b"\n")
                if raw.strip():
                    event = None
                    with contextlib.suppress(ValueError):
                        event = from_bytes(Event, raw.rstrip(b"\n"), MOST_LINE_BYTES)
                    yield event or number
    except OSError as broken:
        raise UsageError(f"cannot be read: {broken.strerror}", file=str(file)) from broken


def keep(base: sqlite3.Connection, events: Iterable[Event]) -> list[Event]:
    """Add events to a record; those that were not there yet. One that was seen twice is kept once."""
    return [each for each in events if _is_new(base, each) and base.execute(_ADD, astuple(each)).rowcount > 0]


def _is_new(base: sqlite3.Connection, event: Event) -> bool:
    if event.kind == HOOK_DROPPED and base.execute(_COLLECTED, (event.node, event.epoch_s)).fetchone():
        return False  # an earlier run has them
    if event.kind in (HOOK, HOOK_DROPPED, HOOK_UNREAD):
        return base.execute(_SAME, (event.part, event.kind, event.source)).fetchone() is None
    if event.kind == HOOK_FIT:  # the day goes on, or the node has dropped a part of it
        day = (event.part, event.kind, event.source, event.epoch_s)
        known = base.execute(_DAY, day).fetchone()
        return known is None or (_number(event.text) > _number(known[0]) and bool(base.execute(_LESS, day).rowcount))
    span_s = math.inf if event.kind == BOOT else SAME_S  # a boot has an id, and its time is as the clock is now
    near = (event.kind, event.text, event.epoch_s - span_s, event.epoch_s + span_s)
    asked, where = (_NEAR_ON_NODE, event.node) if event.kind in OF_SLURM else (_NEAR, event.part)
    return base.execute(asked, (where, *near)).fetchone() is None


def _number(text: str) -> int:
    return int(text) if text.isdecimal() and len(text) < _MOST_DIGITS else 0
