"""nodegate decides whether a GPU node may carry work."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nodegate.records import part
from nodegate.records.finding import Limit
from nodegate.records.verdict import Verdict
from nodegate.verdicts import Verdicts

if TYPE_CHECKING:
    from os import PathLike

    from nodegate.past.frames import OpenedRecord
    from nodegate.report.frames import OpenedRun

__all__ = ["Limit", "Verdict", "Verdicts", "open_record", "open_run", "part"]


def open_record(file: str | PathLike[str] = "reports/fleet.sqlite") -> OpenedRecord:
    """The fleet's record as tables of pandas: runs, verdicts, causes, values, events, places and traits.

    docs/guide/record.md says what they hold. It may be read while runs go on.

    Raises:
        UsageError: there is none, or it cannot be read.
    """
    from pathlib import Path  # noqa: PLC0415 - as in `open_run`

    from nodegate.past.frames import OpenedRecord  # noqa: PLC0415

    return OpenedRecord(Path(file))


def open_run(folder: str | PathLike[str]) -> OpenedRun:
    """The run of a folder as tables of pandas: `nodes`, `causes`, `findings` and `values` (docs/guide/api.md).

    Folders of the release before are read too. Of a run that was killed there are `findings` and `values` alone, of
    the nodes that were judged until then; a UserWarning says so.

    Raises:
        UsageError: it is no run folder, or one of its files is not as nodegate wrote it.
    """
    from pathlib import Path  # noqa: PLC0415 - as the next

    from nodegate.report.frames import opened  # noqa: PLC0415 - a bootcheck needs no reports

    return opened(Path(folder))
