"""The fleet's record as a run uses it. A run does not rest on it: a record that is lost costs one note."""

from __future__ import annotations

import math
import threading
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from nodegate.errors import UsageError
from nodegate.past import database, events, store
from nodegate.past.event import KEPT_TWICE
from nodegate.past.series import delivered, earlier

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Collection, Iterable, Sequence

    from nodegate.past.event import Event
    from nodegate.past.keys import KeptRun, Keys
    from nodegate.past.lemon import Told
    from nodegate.past.questions import LastVerdict
    from nodegate.past.series import Key

T = TypeVar("T")
DEFAULT = Path("reports") / "fleet.sqlite"


class FleetRecord:
    """The record in `file`. A run that only judges again reads it and writes nothing (`keeps` false).

    Once it was locked for too long, or is damaged or of a newer release, `lost` says so; it is waited for once.
    """

    def __init__(self, file: Path = DEFAULT, *, keeps: bool = True) -> None:
        self.file, self.keeps = file, keeps
        self.lost = ""
        self._one_at_a_time = threading.Lock()

    def check(self) -> None:
        """Look at the file before anything is measured; what an earlier release kept is taken over.

        Raises:
            UsageError: it is something else: a mistaken option.
        """
        beside = self.file.with_name(database.OLD_FILE)
        if not self.file.exists() and not (self.keeps and beside.is_file()):
            return
        try:
            with database.writing(self.file) if self.keeps else database.reading(self.file):
                pass
        except UsageError as broken:
            cause = broken.__cause__
            if cause is None or isinstance(cause, database.OtherTables):
                raise
            self._lose(broken)

    def known(self, keys: Keys, devices: Iterable[str], before_epoch_s: float) -> dict[Key, Sequence[float]]:
        """What the parts of a node measured in sound runs before that time, as `series.earlier`; nothing once lost."""
        return self._ask(lambda base: earlier(base, keys, devices, before_epoch_s), {})

    def delivered(self, metrics: Collection[str], before_epoch_s: float) -> dict[Key, float]:
        """As `series.delivered`; nothing once lost."""
        return self._ask(lambda base: delivered(base, metrics, before_epoch_s), {})

    def lemons(self, before_epoch_s: float) -> Told | None:
        """What failed again beyond chance before that time; None where no run is of the weeks before, and once lost."""
        from nodegate.past.lemons import of_record  # noqa: PLC0415 - a bootcheck has none

        until = before_epoch_s if math.isfinite(before_epoch_s) else None
        return self._ask(lambda base: of_record(base, until), None)

    def last_verdicts(self, nodes: Iterable[str], before_epoch_s: float) -> dict[str, LastVerdict]:
        """As `questions.last_verdicts`; nothing once lost."""
        from nodegate.past.questions import last_verdicts  # noqa: PLC0415 - a bootcheck asks for none

        return self._ask(lambda base: last_verdicts(base, nodes, before_epoch_s), {})

    def shared(self) -> frozenset[str]:
        """The serial numbers that tell nothing apart; nothing once lost."""
        return self._ask(
            lambda base: frozenset(each for (each,) in base.execute("select serial from shared")), frozenset()
        )

    def _ask(self, question: Callable[[sqlite3.Connection], T], nothing: T) -> T:
        with self._one_at_a_time:
            if self.lost or not self.file.exists():
                return nothing
            try:
                with database.reading(self.file) as base:
                    return question(base)
            except UsageError as broken:
                self._lose(broken)
                return nothing

    def keep(self, kept: KeptRun, *, resumed: bool = False) -> list[Event]:
        """Write a run that has ended; what it collected from hooks and Slurm also goes into events.jsonl.

        Returns the events that were not there yet.

        Raises:
            UsageError: it cannot be written.
        """
        added: list[Event] = []
        if self.keeps:
            with database.writing(self.file, wait_s=0.0 if self.lost else None) as base:
                added = store.store(base, kept, resumed=resumed)
                if collected := [each for each in added if each.kind in KEPT_TWICE]:
                    events.append(self.file, collected)
        return added

    def _lose(self, broken: UsageError) -> None:
        self.lost = f"{broken.file}: {broken.message}; after that no node was compared with its earlier runs"
