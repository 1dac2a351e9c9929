"""The tables of the fleet's record, and how they come into a file. Times are seconds since the epoch, UTC.

A board is one row of `parts` wherever it is. Equal texts are kept once. `places` and `traits` have a row for each time
that something changed, with when it was first and last seen so. `judged` of a decision is the text with the checks that
passed, warned or failed: of the others nothing is known.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import sqlite3

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
