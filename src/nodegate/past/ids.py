"""Rows that are there once and have a number: texts, parts, quantities."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import sqlite3


class Ids:
    """The numbers of the rows of a table, by the values that make each the only one. Names are never a stranger's."""

    def __init__(self, base: sqlite3.Connection, table: str, *columns: str) -> None:
        self._base, self._known = base, dict[tuple[object, ...], int]()
        names, same = ", ".join(columns), " and ".join(f"{each} = ?" for each in columns)
        marks = ", ".join("?" * len(columns))
        self._find = f"select id from {table} where {same}"  # noqa: S608 - as the docstring says
        self._add = f"insert into {table} ({names}) values ({marks})"  # noqa: S608

    def of(self, *values: object) -> int:
        """The number of this row, which is added where it is not there."""
        number = self._known.get(values)
        if number is None:
            found = self._base.execute(self._find, values).fetchone()
            number = int(found[0]) if found else self._base.execute(self._add, values).lastrowid or 0
            self._known[values] = number
        return number

    def forget(self) -> None:
        """Keep nothing in memory: of a table with many rows, each of which is asked for once."""
        self._known.clear()
