"""From when to when something was so: where a board was, which driver a node had."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence


class Spans:
    """A table of them: a row is a key, its value, and when the value was first and last seen.

    Runs may come in any order: a record that is made again reads them from their folders.
    """

    def __init__(self, table: str, key: Sequence[str], value: Sequence[str]) -> None:
        columns = ", ".join((*key, *value, "from_epoch_s", "to_epoch_s"))
        marks = ", ".join("?" * (len(key) + len(value) + 2))
        same = " and ".join(f"{each} = ?" for each in key)
        self._find = f"select id, {columns} from {table} where {same} order by from_epoch_s, id"  # noqa: S608
        self._add = f"insert into {table} ({columns}) values ({marks})"  # noqa: S608 - names of this file
        self._from = f"update {table} set from_epoch_s = ? where id = ?"  # noqa: S608
        self._to = f"update {table} set to_epoch_s = ? where id = ?"  # noqa: S608
        self._start = 1 + len(key)

    def seen(self, base: sqlite3.Connection, key: tuple[object, ...], value: tuple[str, ...], at: float) -> None:
        """The value was seen at a time."""
        rows = base.execute(self._find, key).fetchall()
        before = next((row for row in reversed(rows) if row[-2] <= at), None)
        after = next((row for row in rows if row[-2] > at), None)
        if before and before[self._start : -2] == value:
            if at > before[-1]:
                base.execute(self._to, (at, before[0]))
            return
        if after and after[self._start : -2] == value:
            base.execute(self._from, (at, after[0]))
            return
        if before and before[-1] > at:  # it was so before and after, and is another now: what is known of after stays
            base.execute(self._to, (at, before[0]))
            base.execute(self._add, (*before[1:-2], before[-1], before[-1]))
        base.execute(self._add, (*key, *value, at, at))


PLACES = Spans("places", ("part",), ("node", "slot"))
TRAITS = Spans("traits", ("part", "name"), ("value",))
