"""The reports of a run, written once more from its report.json."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nodegate.errors import UsageError
from nodegate.records.manifest import Manifest
from nodegate.records.results import RESULTS
from nodegate.report.held_against import held_against
from nodegate.report.reader import load
from nodegate.report.redact import redact
from nodegate.report.render import render

if TYPE_CHECKING:
    from pathlib import Path


def rerender(run: Path, *, redacted: bool = False, to: Path | None = None, everything: bool = False) -> Path:
    """Write the reports into `to`; by default the run's own folder, or one beside it for the redacted ones.

    `everything`: results.csv with every finding and junit.xml with every check, too.

    Raises:
        UsageError: there is no good report.json, the reports cannot be written, or a redacted one would take the place
            of its original.
    """
    loaded = load(run)
    report = held_against(loaded, Manifest(run), run)
    home = run.resolve()
    folder = to or (home.with_name(f"{home.name}-redacted") if redacted else run)
    if redacted and folder.resolve() == home:
        raise UsageError("the redacted report would replace the original", file=str(folder), hint="name another folder")
    # the results of an earlier release are written once more in the form of today
    is_as_it_was = all(now is then for now, then in zip(report.nodes, loaded.nodes, strict=True))
    has_results = folder.resolve() == home and is_as_it_was and (run / RESULTS).exists()
    try:
        render(redact(report) if redacted else report, folder, has_results=has_results, everything=everything)
    except OSError as broken:
        raise UsageError(f"cannot be written: {broken.strerror}", file=str(folder)) from broken
    return folder
