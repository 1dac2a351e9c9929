"""The tables of the fleet's record, and how they come into a file. Times are seconds since the epoch, UTC.

A board is one row of `parts` wherever it is. Equal texts are kept once. `places` and `traits` have a row for each time
that something changed, with when it was first and last seen so. `judged` of a decision is the text with the checks that
passed, warned or failed: of the others nothing is known.
"""

import sqlite3
from collections.abc import Collection, Sequence

APPLICATION, VERSION = 0x6E676672, 1  # "ngfr": which program wrote the file, and the form of its tables
TABLES = (
    "create table parts (id integer primary key, key text not null unique)",
    """
create table runs (
  id integer primary key, name text not null, started_epoch_s real not null, finished_epoch_s real not null,
  profile text not null, folder text not null, manifest_sha256 text not null, suite_version text not null,
  unique (name, started_epoch_s)
)""",
    """
create table decisions (
  run integer not null, node text not null, part integer not null, verdict text not null, platform text not null,
  refuted text not null, open text not null, judged integer not null, primary key (run, node)
) without rowid""",
    "create index decisions_of_node on decisions (node, run)",
    "create index decisions_of_part on decisions (part, run)",
    "create table texts (id integer primary key, text text not null unique)",
    """
create table problems (
  id integer primary key, node text not null, cause text not null, part integer not null, place text not null,
  condition text not null, class text not null, unique (node, cause, part, place, condition, class)
)""",
    "create index problems_of_part on problems (part)",
    """
create table causes (
  run integer not null, problem integer not null, severity text not null, verdict text not null, text integer not null,
  check_id text not null, waiver text not null, primary key (run, problem)
) without rowid""",
    "create index causes_of_problem on causes (problem, run)",
    """
create table events (
  id integer primary key, epoch_s real not null, kind text not null, node text not null, part text not null,
  source text not null, text text not null, unique (kind, node, part, epoch_s, text)
)""",
    "create index events_of_part on events (part, kind, epoch_s)",
    """
create table places (
  id integer primary key, part integer not null, node text not null, slot text not null,
  from_epoch_s real not null, to_epoch_s real not null
)""",
    "create index places_of_part on places (part)",
    "create index places_of_node on places (node)",
    """
create table traits (
  id integer primary key, part integer not null, name text not null, value text not null,
  from_epoch_s real not null, to_epoch_s real not null
)""",
    "create index traits_of_part on traits (part, name)",
    """
create table quantities (
  id integer primary key, metric text not null, conditions text not null, unit text not null,
  unique (metric, conditions, unit)
)""",
    """
create table sequences (
  id integer primary key, part integer not null, quantity integer not null, unique (part, quantity)
)""",
    """
create table numbers (
  series integer not null, run integer not null, value real not null, sound integer not null,
  primary key (series, run)
) without rowid""",
    "create table shared (serial text primary key) without rowid",
)
OLD = frozenset(("run", "series", "kept", "accepted"))  # the tables of history.sqlite, until 0.3


def is_ready(base: sqlite3.Connection) -> bool:
    """Whether a file has these tables.

    Raises:
        sqlite3.DatabaseError: a newer nodegate wrote it, or it is damaged.
    """
    (application,), (version,) = (
        base.execute(f"pragma {name}").fetchone() for name in ("application_id", "user_version")
    )
    if application == APPLICATION and version > VERSION:
        raise base.DatabaseError(f"a newer nodegate wrote it (form {version}, this one knows {VERSION})")
    return bool(application == APPLICATION and version == VERSION)


def make(base: sqlite3.Connection) -> None:
    """Make the tables, inside a transaction of the caller's."""
    for statement in TABLES:
        base.execute(statement)
    base.execute(f"pragma application_id = {APPLICATION}")
    base.execute(f"pragma user_version = {VERSION}")


def names(base: sqlite3.Connection, schema: str = "main") -> frozenset[str]:
    """The tables that there are."""
    asked = f"select name from {schema}.sqlite_master where type = 'table'"  # noqa: S608 - `schema` is ours
    return frozenset(name for (name,) in base.execute(asked))


def marks(of: Collection[object]) -> str:
    """As many places for values in a question as there are of them."""
    return ", ".join("?" * len(of))


class Ids:
    """The numbers of the rows of a table, by the values that make each the only one. Names are never a stranger's."""

    def __init__(self, base: sqlite3.Connection, table: str, *columns: str) -> None:
        self._base, self._known = base, dict[tuple[object, ...], int]()
        names, same = ", ".join(columns), " and ".join(f"{each} = ?" for each in columns)
        self._find = f"select id from {table} where {same}"  # noqa: S608 - as the docstring says
        self._add = f"insert into {table} ({names}) values ({marks(columns)})"  # noqa: S608

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


class Spans:
    """A table of them: a row is a key, its value, and when the value was first and last seen.

    Runs may come in any order: a record that is made again reads them from their folders.
    """

    def __init__(self, table: str, key: Sequence[str], value: Sequence[str]) -> None:
        names = (*key, *value, "from_epoch_s", "to_epoch_s")
        columns = ", ".join(names)
        same = " and ".join(f"{each} = ?" for each in key)
        self._find = f"select id, {columns} from {table} where {same} order by from_epoch_s, id"  # noqa: S608
        self._add = f"insert into {table} ({columns}) values ({marks(names)})"  # noqa: S608 - names of this file
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
