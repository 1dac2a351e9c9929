"""What a run found is sent to the targets of --notice, after its files are written."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nodegate.notices.target import parse_all
from nodegate.notices.tell import tell_event, tell_run

if TYPE_CHECKING:
    from nodegate.plugin.run import PytestRun


class RunNotices:
    """The hooks for --notice; of a run that only judges again nothing is sent. The targets are read at the start."""

    def __init__(self, run: PytestRun) -> None:
        self._run, self._settings = run, run.prepared.settings
        self._targets = () if self._settings.replay else parse_all(self._settings.notices)

    def pytest_sessionfinish(self) -> None:
        """Send what is new. Nothing of it changes the exit code."""
        results = self._run.results
        if results is None or not self._run.has_answer or not self._targets:
            return
        results.notes += [each.warning for each in self._targets if each.warning]
        to = (self._targets, self._settings.record, self._settings.lang)
        try:
            if results.report is None:
                about = {"run": results.folder.path, "reason": self._run.trouble}
                results.notes += tell_event("no-report", about, *to, entrance="pytest")
            else:
                results.notes += tell_run(results.folder.path, *to, report=results.report)
        except Exception as fault:  # noqa: BLE001 - a notice ends no run and changes no exit code
            results.notes.append(f"no notice was sent: an internal error ({type(fault).__name__}), please report it")
