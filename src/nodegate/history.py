"""What each node measured in earlier runs: an index over months, in one SQLite file next to the run folders.

A series is one number of one device under the same conditions; a board that is replaced begins its own. Of each series
the first values since the node was accepted are kept, and the newest: what lies between is deleted, so neither the file
nor the reading of a node grows with the number of runs.
"""

from __future__ import annotations

import contextlib
import json
import math
import sqlite3
import sys
import threading
from array import array
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, cast

from nodegate.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from nodegate.metric import Metric

Key = tuple[str, str, str, str]  # device, metric, conditions, unit
DEFAULT = Path("reports") / "history.sqlite"
FIRST = 16  # of each series the first values, never forgotten: what the device was when it was accepted
NEWEST = 32  # and the newest: a month of nights
WAIT_S = 30.0  # if another run writes: a few thousand rows take a second
_LAST_EPOCH_S = 253_402_300_799.0  # of the year 9999
_TURNS = 16  # at the end of a run every 16th series is cleared of what lies between: each in turn
_OLD = "measured"  # the table of earlier releases, with all values of a run together
_TABLES = (
    """
create table if not exists run (
  id integer primary key, name text not null unique, started_epoch_s real not null
)""",
    """
create table if not exists series (
  id integer primary key, node text not null, device text not null, metric text not null, conditions text not null,
  unit text not null, serial text not null default '', unique (node, device, metric, conditions, unit, serial)
)""",
    """
create table if not exists kept (
  series integer not null, started_epoch_s real not null, run integer not null, value real not null,
  primary key (series, started_epoch_s, run)
) without rowid""",
    """
create table if not exists accepted (node text not null, epoch_s real not null, reason text not null,
  primary key (node, epoch_s)
) without rowid""",
)
_MOVED = (
    "insert or ignore into run (name, started_epoch_s) select run, min(started_epoch_s) from measured group by run",
    """
insert or ignore into series (node, device, metric, conditions, unit)
select distinct node, device, metric, conditions, unit from measured""",
    """
insert or replace into kept (series, started_epoch_s, run, value)
select series.id, old.started_epoch_s, run.id, old.value from measured as old join run on run.name = old.run
join series using (node, device, metric, conditions, unit) where serial = '' and typeof(old.value) = 'real'""",
    "drop table measured",
)
_NEW_SERIES = "insert or ignore into series (node, device, metric, conditions, unit, serial) values (?, ?, ?, ?, ?, ?)"
_KEEP = """
insert or replace into kept select id, ?, ?, ? from series
where node = ? and device = ? and metric = ? and conditions = ? and unit = ? and serial = ?
"""
# Nothing before the last time that the node was accepted again. The series of an older release have no serials.
_EARLIER = """
select series.id, device, metric, conditions, unit, serial, value
from series join kept on kept.series = series.id
where node = :node and started_epoch_s < :before and started_epoch_s > (
  select coalesce(max(epoch_s), -1) from accepted where node = :node and epoch_s < :before
) order by series.id, started_epoch_s, run
"""
_IN_TURN = """
select id, (select coalesce(max(epoch_s), -1) from accepted where node = series.node) from series where id % ? = ?
"""
_CLEAR = """
delete from kept where series = :series
and started_epoch_s > (select started_epoch_s from kept where series = :series and started_epoch_s > :since
  order by started_epoch_s limit 1 offset :first)
and started_epoch_s < (select started_epoch_s from kept where series = :series
  order by started_epoch_s desc limit 1 offset :newest)
"""


@dataclass(frozen=True)
class Again:
    """Somebody has accepted a node again: what it measured before does not count any more."""

    epoch_s: float
    reason: str


class History:
    """The index in `file`, created on the first write; never by a run that only judges again (`keeps` false).

    A run does not rest on it: once it was locked for too long, or is damaged, `lost` says so, and the run goes on as if
    nothing had been kept; no check waits for it again.
    """

    def __init__(self, file: Path, *, keeps: bool = True) -> None:
        self.file, self._keeps = file, keeps
        self.lost = ""
        self._one_at_a_time = threading.Lock()

    def check(self) -> None:
        """Refuse a file that is not such an index, before anything is measured; one of an older form is moved over.

        One that is locked is only `lost`: what holds it may be a backup.

        Raises:
            UsageError: it is not.
        """
        try:
            if self.file.exists():
                with self._open():
                    pass
        except UsageError as broken:
            if not _is_locked(broken.__cause__):
                raise
            self._lose(broken)

    def keep(
        self,
        run: str,
        started_epoch_s: float,
        measured: Iterable[tuple[str, Sequence[Metric]]],
        serial: Callable[[str, str], str] = lambda _node, _device: "",
    ) -> None:
        """Store what accepted nodes measured in a run: values of other nodes are not a reference.

        Args:
            run: its id.
            started_epoch_s: when it began.
            measured: by node, one at a time, which keeps few metrics in memory.
            serial: the serial number of a device of a node; empty where it has none.

        Raises:
            UsageError: the file cannot be written.
        """
        each = (_rows(node, metrics, serial) for node, metrics in measured)
        known = (rows for rows in each if rows)
        first = next(known, None)
        if first is None or not self._keeps:
            return
        with self._open() as index:
            index.execute("insert or ignore into run (name, started_epoch_s) values (?, ?)", (run, started_epoch_s))
            (number,) = index.execute("select id from run where name = ?", (run,)).fetchone()
            for rows in chain([first], known):
                index.executemany(_NEW_SERIES, (row[1:] for row in rows))
                index.executemany(_KEEP, ((started_epoch_s, number, *row) for row in rows))
            _clear(index, number)

    def known(
        self, node: str, before_epoch_s: float, serial: Callable[[str], str] = lambda _device: ""
    ) -> dict[Key, Sequence[float]]:
        """As `earlier`, for a run: nothing where the index cannot be read, and then `lost` says why."""
        with self._one_at_a_time:
            try:
                return {} if self.lost else self.earlier(node, before_epoch_s, serial)
            except UsageError as broken:
                self._lose(broken)
                return {}

    def _lose(self, broken: UsageError) -> None:
        self.lost = f"{broken.file}: {broken.message}; after that no node was compared with its earlier runs"

    def earlier(
        self, node: str, before_epoch_s: float, serial: Callable[[str], str] = lambda _device: ""
    ) -> dict[Key, Sequence[float]]:
        """The node's values of runs before that time, oldest first, by `key_of` the metric: the first and the newest.

        Args:
            node: its name.
            before_epoch_s: runs that began then or later do not count.
            serial: the serial number that a device has now: what another board measured in its place does not count.

        Raises:
            UsageError: the file is not such an index.
        """
        if not self.file.exists():
            return {}
        before = min(before_epoch_s, sys.float_info.max)
        found: dict[Key, array[float]] = {}
        values, last = array("d"), -1
        with self._open() as index:
            for number, device, metric, conditions, unit, board, value in index.execute(
                _EARLIER, {"node": node, "before": before}
            ):
                if number != last:
                    last, values = number, array("d")
                    key = _key(device, metric, conditions, unit)
                    now = serial(device) if key else ""
                    if key and (not (board and now) or board == now):
                        values = found.setdefault(key, values)
                if isinstance(value, float) and math.isfinite(value):
                    values.append(value)
        few = FIRST + NEWEST
        return {key: each if len(each) <= few else each[:FIRST] + each[-NEWEST:] for key, each in found.items()}

    def accept_again(self, nodes: Sequence[str], epoch_s: float, reason: str) -> None:
        """What these nodes measured before that time does not count any more: the next run is their acceptance.

        Raises:
            UsageError: the file cannot be written, or knows nothing of one of them.
        """
        self._refuse_unknown(nodes)
        with self._open() as index:
            index.executemany(
                "insert or replace into accepted values (?, ?, ?)", ((node, epoch_s, reason) for node in nodes)
            )

    def accepted_again(self, node: str) -> tuple[Again, ...]:
        """When a node was accepted again, oldest first.

        Raises:
            UsageError: the file is not such an index, or knows nothing of this node.
        """
        self._refuse_unknown([node])
        with self._open() as index:
            asked = "select epoch_s, reason from accepted where node = ? order by epoch_s"
            return tuple(Again(*row) for row in index.execute(asked, (node,)) if _is_again(*row))

    def _refuse_unknown(self, nodes: Sequence[str]) -> None:
        unknown = list(nodes)
        if self.file.exists():
            with self._open() as index:
                asked = "select 1 from series where node = ? limit 1"
                unknown = [node for node in nodes if index.execute(asked, (node,)).fetchone() is None]
        if unknown:
            hint = "only runs in which a node had no fault are kept"
            raise UsageError(f"nothing was kept of {', '.join(unknown)}", file=str(self.file), hint=hint)

    @contextlib.contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        hint = "give another file with --history, or move this one away"
        if self.file.exists() and not self.file.is_file():
            raise UsageError("the history cannot be used: it is not a regular file", file=str(self.file), hint=hint)
        try:
            self.file.parent.mkdir(parents=True, exist_ok=True)
            wait_s = 0.0 if self.lost else WAIT_S
            with contextlib.closing(sqlite3.connect(self.file, timeout=wait_s)) as index, index:
                _prepare(index)
                yield index
        except (sqlite3.Error, OSError, UnicodeDecodeError) as broken:  # a damaged column name
            raise UsageError(f"the history cannot be used: {broken}", file=str(self.file), hint=hint) from broken


def _is_locked(broken: object) -> bool:
    return isinstance(broken, sqlite3.OperationalError) and "locked" in str(broken)  # Python 3.10 has no code of it


def _key(*words: object) -> Key | None:
    """The key of a series as it is stored; None where a damaged or edited row has no text."""
    texts = [sys.intern(word) for word in words if isinstance(word, str)]
    return cast("Key", tuple(texts)) if len(texts) == len(words) else None


def _is_again(epoch_s: object, reason: object) -> bool:
    return isinstance(epoch_s, float) and 0 <= epoch_s <= _LAST_EPOCH_S and isinstance(reason, str)


def _rows(
    node: str, metrics: Sequence[Metric], serial: Callable[[str, str], str]
) -> list[tuple[float, str, str, str, str, str, str]]:
    """What is stored of a node."""
    return [
        (metric.judged, node, *key_of(metric), serial(node, metric.device))
        for metric in metrics
        if math.isfinite(metric.judged)
    ]


def _prepare(index: sqlite3.Connection) -> None:
    """Make the tables in an empty file, and move over what an earlier release has stored."""
    if _is_ready(index):
        return
    index.execute("begin immediate")  # another run may do the same now
    held = _tables(index)
    if held and not held & {"kept", _OLD}:
        raise sqlite3.DatabaseError(f"it holds other tables ({', '.join(sorted(held))})")
    for statement in (*_TABLES, *(_MOVED if _OLD in held else ())):
        index.execute(statement)
    index.commit()


def _is_ready(index: sqlite3.Connection) -> bool:
    held = _tables(index)
    return "kept" in held and _OLD not in held


def _tables(index: sqlite3.Connection) -> set[str]:
    return {name for (name,) in index.execute("select name from sqlite_master where type = 'table'")}


def _clear(index: sqlite3.Connection, run: int) -> None:
    """Delete what lies between the first and the newest values, of the series whose turn it is."""
    own = index.execute(_IN_TURN, (_TURNS, run % _TURNS)).fetchall()
    bounds = {"first": FIRST - 1, "newest": NEWEST - 1}
    index.executemany(_CLEAR, ({"series": series, "since": since, **bounds} for series, since in own))


def key_of(metric: Metric) -> Key:
    """What an earlier value must share with a metric to be compared with it: device, name, conditions, unit."""
    conditions = dict(sorted({**metric.conditions, **metric.over_runs}.items()))
    return metric.device, metric.name, json.dumps(conditions, ensure_ascii=False), metric.unit
