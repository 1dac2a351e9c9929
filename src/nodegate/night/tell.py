"""The notices of a night. One that is lost changes nothing of it: the line that says so is kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nodegate.notices.target import parse
from nodegate.notices.tell import tell_event, tell_run

if TYPE_CHECKING:
    from pathlib import Path

    from nodegate.night.settings import NightSettings


class Teller:
    """Sends the notices of a night; what could not be sent is added to `lines`."""

    def __init__(self, wanted: NightSettings, lines: list[str]) -> None:
        self._targets = tuple(parse(each) for each in wanted.notices)
        self._record, self._lang, self._lines = wanted.record, wanted.lang, lines

    def run(self, folder: Path) -> None:
        """Send what is new in a run that has a report."""
        if self._targets:
            self._lines += tell_run(folder, self._targets, self._record, self._lang, entrance="nightly")

    def event(self, kind: str, **fields: object) -> None:
        """Send what no run says: the night was not done or was cut short, or nodes wait for too long."""
        if self._targets:
            self._lines += tell_event(kind, fields, self._targets, self._record, self._lang)
