"""What each node measured in earlier runs: an index over months, in one SQLite file next to the run folders."""

from __future__ import annotations

import contextlib
import json
import math
import sqlite3
from pathlib import Path
from typing import TYPE_CHECKING

from nodegate.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from nodegate.metric import Metric

Key = tuple[str, str, str, str]  # device, metric, conditions, unit
DEFAULT = Path("reports") / "history.sqlite"
RUNS_COMPARED = 8  # the newest: a node that became slower gradually is compared with recent runs, not with all of them
WAIT_S = 30.0  # if another run writes: a few thousand rows take a second
_TABLE = """
create table if not exists measured (
  run text not null, started_epoch_s real not null, node text not null, device text not null, metric text not null,
  conditions text not null, value real not null, unit text not null,
  primary key (run, node, device, metric, conditions)
) without rowid
"""


class History:
    """The index in `file`, created on the first write; never by a run that only judges again (`keeps` false)."""

    def __init__(self, file: Path, *, keeps: bool = True) -> None:
        self.file, self._keeps = file, keeps

    def check(self) -> None:
        """Refuse a file that is not such an index, before anything is measured.

        Raises:
            UsageError: it is not.
        """
        self.earlier("", 0.0)

    def keep(self, run: str, started_epoch_s: float, measured: Mapping[str, Sequence[Metric]]) -> None:
        """Store what accepted nodes measured in a run: values of other nodes are not a reference.

        Raises:
            UsageError: the file cannot be written.
        """
        rows = [
            (run, started_epoch_s, node, metric.device, metric.name, _conditions(metric), metric.best, metric.unit)
            for node, metrics in measured.items()
            for metric in metrics
        ]
        if rows and self._keeps:
            with self._open() as index:
                index.execute(_TABLE)
                index.executemany("insert or replace into measured values (?, ?, ?, ?, ?, ?, ?, ?)", rows)

    def earlier(self, node: str, before_epoch_s: float) -> dict[Key, tuple[float, ...]]:
        """The node's values of earlier runs, newest first, by `key_of` the metric.

        Raises:
            UsageError: the file is not such an index.
        """
        if not self.file.exists():
            return {}
        asked = "select device, metric, conditions, unit, value from measured where node = ? and started_epoch_s < ?"
        found: dict[Key, list[float]] = {}
        with self._open() as index:
            for device, metric, conditions, unit, value in index.execute(
                f"{asked} order by started_epoch_s desc", (node, before_epoch_s)
            ):
                values = found.setdefault(_key(device, metric, conditions, unit), [])
                if len(values) < RUNS_COMPARED and isinstance(value, float) and math.isfinite(value):
                    values.append(value)
        return {key: tuple(values) for key, values in found.items()}

    @contextlib.contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        try:
            self.file.parent.mkdir(parents=True, exist_ok=True)
            with contextlib.closing(sqlite3.connect(self.file, timeout=WAIT_S)) as index, index:
                yield index
        except (sqlite3.Error, OSError, UnicodeDecodeError) as broken:  # a damaged column name
            hint = "give another file with --history, or move this one away"
            raise UsageError(f"the history cannot be used: {broken}", file=str(self.file), hint=hint) from broken


def key_of(metric: Metric) -> Key:
    """What an earlier value must share with a metric to be compared with it: device, name, conditions, unit."""
    return _key(metric.device, metric.name, _conditions(metric), metric.unit)


def _key(device: str, metric: str, conditions: str, unit: str) -> Key:
    return device, metric, conditions, unit


def _conditions(metric: Metric) -> str:
    return json.dumps(dict(sorted({**metric.conditions, **metric.over_runs}.items())), ensure_ascii=False)
