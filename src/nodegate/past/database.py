"""The file of the fleet's record: how it is opened for a reader or a writer, and what is refused.

It is in WAL mode: readers do not wait for a writer, and a program that was killed leaves whole transactions.
"""

import contextlib
import os
import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from nodegate.errors import UsageError
from nodegate.past import events, tables
from nodegate.past.event import ACCEPT_AGAIN, Event
from nodegate.past.keys import Keys, Placed
from nodegate.past.tables import PLACES, Ids

WAIT_S = 30.0  # if another run writes: 200,000 values take seconds
_HINT = "give another file with --record, or move this one away"
OLD_FILE = "history.sqlite"  # of 0.3, beside the record

_SERIES = "select id, node, device, metric, conditions, unit, serial from {old}.series"
_RUNS = """
insert into runs (name, started_epoch_s, finished_epoch_s, profile, folder, manifest_sha256, suite_version)
select name, started_epoch_s, started_epoch_s, '', '', '', '' from {old}.run where typeof(started_epoch_s) = 'real'
"""
_NUMBERS = """
insert or ignore into numbers select ?, runs.id, kept.value, 1 from {old}.kept as kept
join {old}.run as run on run.id = kept.run join runs using (name, started_epoch_s)
where kept.series = ? and typeof(kept.value) = 'real'
"""
_AGAIN = "select epoch_s, node, reason from {old}.accepted where typeof(epoch_s) = 'real' and typeof(reason) = 'text'"
_BETWEEN = """
select min(started_epoch_s), max(started_epoch_s) from numbers join runs on runs.id = run where series = ?
"""
_MARK = "attached"


@contextlib.contextmanager
def reading(file: Path, *, wait_s: float | None = None) -> Iterator[sqlite3.Connection]:
    """The record, for questions: all of them see one state of it. It is not changed, nor taken over.

    Raises:
        UsageError: it is something else, is damaged, locked or of a newer release.
    """
    alone = not os.access(file.parent, os.W_OK) and not file.with_name(f"{file.name}-wal").exists()
    with _opened(file, "mode=ro&immutable=1" if alone else "mode=ro", wait_s) as base:
        if not tables.is_ready(base):
            held = tables.names(base)
            old = "it is the history of an earlier release, which the next run takes over"
            raise sqlite3.DatabaseError(old if held >= tables.OLD else "it is not a record of nodegate")
        base.execute("begin")
        yield base


@contextlib.contextmanager
def writing(file: Path, *, wait_s: float | None = None) -> Iterator[sqlite3.Connection]:
    """The record, made where it is not there, for one transaction: all of it or, after an exception, nothing.

    Raises:
        UsageError: as `reading`, or it cannot be written.
    """
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
    except OSError as broken:
        raise _refused(file, broken) from broken
    with _opened(file, "mode=rwc", wait_s) as base:
        if not tables.is_ready(base):
            _make(base, file)
        base.execute("begin immediate")
        yield base
        base.execute("commit")


@contextlib.contextmanager
def _opened(file: Path, how: str, wait_s: float | None) -> Iterator[sqlite3.Connection]:
    if file.exists() and not file.is_file():
        raise UsageError("the record cannot be used: it is not a regular file", file=str(file), hint=_HINT)
    address = f"{file.absolute().as_uri()}?{how}"
    try:
        timeout = WAIT_S if wait_s is None else wait_s
        with contextlib.closing(sqlite3.connect(address, timeout, uri=True, isolation_level=None)) as base:
            yield base
    except (sqlite3.Error, OSError, UnicodeDecodeError, ValueError) as broken:  # a damaged column name, a path
        raise _refused(file, broken) from broken


def _refused(file: Path, broken: Exception) -> UsageError:
    return UsageError(f"the record cannot be used: {broken}", file=str(file), hint=_HINT)


class OtherTables(sqlite3.DatabaseError):
    """The file is the database of another program."""


def _make(base: sqlite3.Connection, file: Path) -> None:
    """Make the tables of a record, and fill them with what an earlier release kept in this file or beside it.

    Raises:
        sqlite3.Error: the file holds something else, or one of both is damaged.
    """
    beside = file.with_name(OLD_FILE)
    has_other = beside.is_file() and beside.absolute() != file.absolute()
    if has_other:
        base.execute(f"attach ? as {_MARK}", (f"{beside.absolute().as_uri()}?mode=ro",))
    held = tables.names(base)
    if held and not held >= tables.OLD and not tables.is_ready(base):
        raise OtherTables(f"it holds other tables ({', '.join(sorted(held))})")
    base.execute("pragma main.journal_mode = wal")
    base.execute("begin immediate")
    if not tables.is_ready(base):  # another run may have done it by now
        held = tables.names(base)
        tables.make(base)
        if held:
            _take(base, "main", file)
            for name in sorted(tables.OLD):
                base.execute(f"drop table {name}")
        elif has_other and tables.names(base, _MARK) >= tables.OLD:
            _take(base, _MARK, file)
    base.execute("commit")


def _take(base: sqlite3.Connection, old: str, file: Path) -> None:
    base.execute(_RUNS.format(old=old))
    parts, quantities = Ids(base, "parts", "key"), Ids(base, "quantities", "metric", "conditions", "unit")
    series = Ids(base, "sequences", "part", "quantity")
    rows = [row for row in base.execute(_SERIES.format(old=old)) if all(isinstance(each, str) for each in row[1:])]
    shared = _shared(rows)
    for was, node, device, metric, conditions, unit, serial in rows:
        placed = [Placed(device.partition(":")[0], serial)] if serial and serial not in shared else []
        part = parts.of(Keys(node, placed).of(device))
        number = series.of(part, quantities.of(metric, conditions, unit))
        base.execute(_NUMBERS.format(old=old), (number, was))
        for at in base.execute(_BETWEEN, (number,)).fetchone():
            if at is not None:
                PLACES.seen(base, (part,), (node, device), at)
    again = [
        Event(at, ACCEPT_AGAIN, node, Keys(node).machine, OLD_FILE, reason)
        for at, node, reason in base.execute(_AGAIN.format(old=old))
        if isinstance(node, str)
    ]
    if again:
        events.append(file, again)
        events.keep(base, again)


def _shared(rows: Iterable[tuple[object, ...]]) -> frozenset[object]:
    """The serial numbers that several boards of one node had: they tell none apart."""
    boards = Counter(
        (node, serial) for node, _, serial in {(row[1], str(row[2]).partition(":")[0], row[6]) for row in rows}
    )
    return frozenset(serial for (_, serial), count in boards.items() if count > 1)
