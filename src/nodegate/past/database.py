"""The file of the fleet's record: how it is opened for a reader or a writer, and what is refused.

It is in WAL mode: readers do not wait for a writer, and a program that was killed leaves whole transactions.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from typing import TYPE_CHECKING

from nodegate.errors import UsageError
from nodegate.past import from_03, tables

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

WAIT_S = 30.0  # if another run writes: 200,000 values take seconds
_HINT = "give another file with --record, or move this one away"


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
            from_03.make(base, file)
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
