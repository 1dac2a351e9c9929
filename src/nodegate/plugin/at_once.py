"""Items that only need their record: judged and kept a node at a time, so that pytest runs only the others.

In a usual run no plugin and no option looks at an item that passes. Measured with all items sent through pytest's
hooks: 70 % more CPU in a passive run of 256 nodes, 14 % more in a run of 64 under load.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from nodegate.plugin.items import CheckItem
from nodegate.plugin.listeners import Listeners
from nodegate.records.finding import Record
from nodegate.records.verdict import Verdict
from nodegate.run.judging import Judging

if TYPE_CHECKING:
    import pytest


# verdicts that pytest reports without a failure
_QUIET = frozenset({Verdict.SKIP, Verdict.NOT_JUDGED, Verdict.PASS, Verdict.WARN})


class AtOnce:
    """Takes those items out of a run; `keep` is given the records of all that pass or are skipped."""

    def __init__(
        self,
        items: list[pytest.Item],
        judging: Judging,
        listeners: Listeners,
        keep: Callable[[Record], None],
    ) -> None:
        self._judging, self._keep = judging, keep
        self._waiting: dict[str, list[CheckItem]] = {}
        others = []
        for item in items:
            if isinstance(item, CheckItem) and not listeners.to_reports(item) and not listeners.to_phases(item):
                self._waiting.setdefault(item.node_name, []).append(item)
            else:
                others.append(item)
        items[:] = others

    def node_judged(self, name: str) -> list[CheckItem]:
        """Keep what is judged of a node now. Returns the items that are left; when all is judged, those that fail."""
        self._waiting[name] = [item for item in self._waiting.get(name, ()) if not self._is_done(item)]
        return self._waiting[name]

    def _is_done(self, item: CheckItem) -> bool:
        record = self._judging.known(item.check, item.node_name)
        if record is None or record.verdict not in _QUIET:
            return False
        self._keep(record)
        self._judging.forget(item.check, item.node_name)
        return True
