"""What parts measured in earlier runs: one series for each part, quantity, conditions and unit.

Of the values of runs in which nothing was wrong with the node (`sound`) the first since it was accepted are kept, and
the newest; of the others the same. Of what lies between, each month keeps its median. So neither the file nor the
reading of a node grows with the number of runs.
"""

import json
import math
import sqlite3
import sys
import time
from array import array
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import groupby
from typing import cast

from nodegate.metric import Metric
from nodegate.past.event import ACCEPT_AGAIN
from nodegate.past.keys import Keys
from nodegate.past.tables import Ids, marks

Key = tuple[str, str, str, str]  # device, metric, conditions, unit
FIRST = 16  # of each series the first values, never forgotten: what the part was when it was accepted
NEWEST = 32  # and the newest: a month of nights
MOST_DELIVERIES = 16
_TURNS = 16  # at the end of a run every 16th series is thinned: each in turn
_Row = tuple[int, float, float]  # run, when it began, value

_SERIES = """
select sequences.id, parts.key, metric, conditions, unit from parts join sequences on sequences.part = parts.id
join quantities on quantities.id = sequences.quantity where parts.key in ({marks})
"""
_VALUES = "select series, run, value from numbers where series in ({marks}) and sound order by series, run"
# Nothing before the last time that the node was accepted again.
_RUNS = "select id, cast(started_epoch_s as real) from runs where started_epoch_s < ? and started_epoch_s > ?"
_SINCE = """
select coalesce(max(epoch_s), -1) from events
where kind = ? and (node = ? or part = ?) and epoch_s < ?
"""
_DELIVERIES = """
select id from runs where profile = 'delivery' and started_epoch_s < ? order by started_epoch_s desc limit ?
"""
_OF_RUN = """
select cast(key as text), cast(metric as text), cast(conditions as text), cast(unit as text), value from quantities
join sequences on sequences.quantity = quantities.id join numbers on numbers.series = sequences.id and run = ?
join parts on parts.id = sequences.part where metric in ({marks})
"""
_LONG = "select series from numbers where series % ? = ? group by series having count(*) > ?"
_OF_SERIES = """
select run, started_epoch_s, value, sound from numbers join runs on runs.id = run where series = ?
order by sound, started_epoch_s, run
"""
_SINCE_OF_SERIES = """
select coalesce(max(epoch_s), -1) from events where kind = ? and node in (
  select node from places join sequences on sequences.part = places.part where sequences.id = ?)
"""


def key_of(metric: Metric) -> Key:
    """What an earlier value must share with a metric to be compared with it: device, name, conditions, unit."""
    conditions = tuple(sorted({**metric.conditions, **metric.over_runs}.items()))
    return metric.device, metric.name, _written(conditions), metric.unit


@lru_cache(maxsize=1024)  # a node has 150 numbers under a dozen conditions: a third of what keeping a night takes
def _written(conditions: tuple[tuple[str, str], ...]) -> str:
    return json.dumps(dict(conditions), ensure_ascii=False)


def keep(base: sqlite3.Connection, run: int, of: Iterable[tuple[Keys, bool, Sequence[Metric]]]) -> None:
    """Store what nodes measured in a run: for each its keys, whether nothing was wrong with it, and its metrics."""
    parts, quantities = Ids(base, "parts", "key"), Ids(base, "quantities", "metric", "conditions", "unit")
    series = Ids(base, "sequences", "part", "quantity")
    for keys, sound, metrics in of:
        rows = []
        for metric in metrics:
            device, *quantity = key_of(metric)
            if math.isfinite(metric.judged):
                number = series.of(parts.of(keys.of(device)), quantities.of(*quantity))
                rows.append((number, run, float(metric.judged), int(sound)))
        series.forget()
        base.executemany("insert or replace into numbers values (?, ?, ?, ?)", rows)


def earlier(
    base: sqlite3.Connection, keys: Keys, devices: Iterable[str], before_epoch_s: float
) -> dict[Key, Sequence[float]]:
    """What the parts of a node measured in sound runs before that time, oldest first: the first and the newest.

    What another board than now (`keys`) measured in the place of these `devices` does not count.
    """
    device_of = {key: device for device in devices for key in keys.all_of(device)}
    before = min(before_epoch_s, sys.float_info.max)
    (since,) = base.execute(_SINCE, (ACCEPT_AGAIN, keys.node, keys.machine, before)).fetchone()
    runs = dict(base.execute(_RUNS, (before, since)).fetchall())
    keys_of = {
        number: key
        for number, part, *rest in base.execute(_SERIES.format(marks=marks(device_of)), tuple(device_of))
        if (key := _texts(device_of.get(part), *rest))
    }
    found: dict[Key, list[tuple[float, float]]] = {}
    asked = _VALUES.format(marks=marks(keys_of))
    for series, rows in groupby(base.execute(asked, tuple(keys_of)), key=lambda row: row[0]):
        values = [(runs[run], value) for _, run, value in rows if run in runs and _is_number(value)]
        if series in keys_of:  # a damaged page holds any
            found.setdefault(keys_of[series], []).extend(values)
    kept: dict[Key, Sequence[float]] = {}
    for key, dated in found.items():
        dated.sort(key=lambda each: each[0])
        own = array("d", (value for _, value in dated))
        if own:
            kept[key] = own if len(own) <= FIRST + NEWEST else own[:FIRST] + own[-NEWEST:]
    return kept


def delivered(base: sqlite3.Connection, metrics: Collection[str], before_epoch_s: float) -> dict[Key, float]:
    """What each part measured in the last delivery run before that time that has it; by its key in place of a device.

    The newest deliveries are looked at.
    """
    asked = _OF_RUN.format(marks=marks(metrics))
    runs = base.execute(_DELIVERIES, (min(before_epoch_s, sys.float_info.max), MOST_DELIVERIES)).fetchall()
    rows = (row for (run,) in reversed(runs) for row in base.execute(asked, (run, *metrics)))
    return {key: value for *texts, value in rows if _is_number(value) and (key := _texts(*texts))}


def _is_number(value: object) -> bool:
    return isinstance(value, float) and math.isfinite(value)


def thin(base: sqlite3.Connection, run: int) -> None:
    """Delete what lies between the first and the newest values but for each month's median, of the series in turn."""
    for (series,) in base.execute(_LONG, (_TURNS, run % _TURNS, FIRST + NEWEST)).fetchall():
        (since,) = base.execute(_SINCE_OF_SERIES, (ACCEPT_AGAIN, series)).fetchone()
        rows = base.execute(_OF_SERIES, (series,)).fetchall()
        for _, own in groupby(rows, key=lambda row: row[3]):
            spare = _spare([(number, at, value) for number, at, value, _ in own], since)
            base.executemany("delete from numbers where series = ? and run = ?", ((series, each) for each in spare))


def _spare(rows: Sequence[_Row], since: float) -> Iterator[int]:
    """The runs whose values may go: of each month that is over, and of one with more than a month of nights."""
    first = sum(at <= since for _, at, _ in rows) + FIRST
    between, newest = rows[first:-NEWEST], rows[-NEWEST:]
    for month, own in groupby(between, key=lambda row: _month(row[1])):
        within = list(own)
        if len(within) >= NEWEST or month != _month(newest[0][1]):
            within.sort(key=lambda row: row[2])
            within.pop((len(within) - 1) // 2)
            yield from (run for run, _, _ in within)


def _month(epoch_s: float) -> tuple[int, int]:
    try:
        at = time.gmtime(epoch_s)
    except (OverflowError, OSError, ValueError):
        return 0, 0
    return at.tm_year, at.tm_mon


def _texts(*words: object) -> Key | None:
    """The key of a series as it is stored; None where a damaged or edited row has no text."""
    texts = [sys.intern(word) for word in words if isinstance(word, str)]
    return cast("Key", tuple(texts)) if len(texts) == len(words) else None
