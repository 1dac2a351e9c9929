"""The notices of a night. One that is lost changes nothing of it: the line that says so is kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nodegate.notices.tell import tell_event, tell_run

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from nodegate.night.settings import NightSettings
    from nodegate.notices.target import Target
    from nodegate.report.model import Report


class Teller:
    """Sends the notices of a night; what could not be sent is added to `lines`."""

    def __init__(self, targets: Sequence[Target], wanted: NightSettings, lines: list[str]) -> None:
        self._targets = targets
        self._record, self._lang, self._lines = wanted.record, wanted.lang, lines

    def run(self, folder: Path, report: Report) -> None:
        """Send what is new in a run."""
        if self._targets:
            to = (self._targets, self._record, self._lang)
            self._lines += tell_run(folder, *to, entrance="nightly", report=report)

    def event(self, kind: str, **fields: object) -> None:
        """Send what no run says: the night was not done or was cut short, or nodes wait for too long."""
        if self._targets:
            self._lines += tell_event(kind, fields, self._targets, self._record, self._lang)
