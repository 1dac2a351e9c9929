"""The fleet's record as tables of pandas: what `nodegate.open_record` gives. docs/guide/record.md lists the columns."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from nodegate.errors import UsageError
from nodegate.past import database

if TYPE_CHECKING:
    import pandas as pd

QUESTIONS = {
    "runs": "select name as run, started_epoch_s, finished_epoch_s, profile, folder, suite_version from runs",
    "verdicts": """
select runs.name as run, started_epoch_s, node, key as machine, verdict, platform, refuted, open
from decisions join runs on runs.id = run join parts on parts.id = part""",
    "causes": """
select runs.name as run, started_epoch_s, node, cause as id, place as part, key, condition, class, severity, verdict,
texts.text as message, check_id as 'check', waiver from causes join runs on runs.id = run
join problems on problems.id = problem join parts on parts.id = problems.part join texts on texts.id = causes.text""",
    "values": """
select runs.name as run, started_epoch_s, key, metric, value, unit, conditions, sound
from numbers join runs on runs.id = run join sequences on sequences.id = series
join parts on parts.id = sequences.part join quantities on quantities.id = sequences.quantity""",
    "events": "select epoch_s, kind, node, part as key, source, text from events",
    "places": "select key, node, slot, from_epoch_s, to_epoch_s from places join parts on parts.id = part",
    "traits": "select key as machine, name, value, from_epoch_s, to_epoch_s from traits join parts on parts.id = part"
    " where name != 'uuid'",
}


class OpenedRecord:
    """A record; each table is read when it is first asked for. Times are seconds since the epoch."""

    def __init__(self, file: Path) -> None:
        if not file.exists():
            raise UsageError("there is no record", file=str(file), hint="the first run that ends makes it")
        self.file = file

    @cached_property
    def runs(self) -> pd.DataFrame:
        """A row a run; one whose folder is gone too."""
        return self._table("runs")

    @cached_property
    def verdicts(self) -> pd.DataFrame:
        """A row a node and run, with the claims that were refuted and open."""
        return self._table("verdicts")

    @cached_property
    def causes(self) -> pd.DataFrame:
        """A row a cause, node and run."""
        return self._table("causes")

    @cached_property
    def values(self) -> pd.DataFrame:
        """A row a number and run; `sound`: nothing was wrong with the node, so that later runs are compared with it."""
        return self._table("values")

    @cached_property
    def events(self) -> pd.DataFrame:
        """A row an Xid, boot, repair or node accepted again."""
        return self._table("events")

    @cached_property
    def places(self) -> pd.DataFrame:
        """A row for each time that a part was in one place."""
        return self._table("places")

    @cached_property
    def traits(self) -> pd.DataFrame:
        """A row for each time that a version, a firmware or a model was one."""
        return self._table("traits")

    def _table(self, name: str) -> pd.DataFrame:
        import pandas as pd  # noqa: PLC0415 - heavy

        with database.reading(self.file) as base:
            found: pd.DataFrame = pd.read_sql_query(QUESTIONS[name], base)
        return found.astype({"sound": bool}) if "sound" in found else found
