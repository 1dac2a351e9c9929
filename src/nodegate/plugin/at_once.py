"""Items that only need their record: judged and kept a node at a time, so that pytest runs only the others.

In a usual run no plugin and no option looks at an item that passes. 1,250 nodes have 150,000 of them: to send each
through pytest's hooks costs as much as judging it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nodegate.plugin.items import CheckItem
from nodegate.plugin.one_step import QUIET

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pytest

    from nodegate.plugin.listeners import Listeners
    from nodegate.records.finding import Record
    from nodegate.run.judging import Judging


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

    def node_judged(self, name: str) -> None:
        """Keep the records of a node that is judged now, and drop its items."""
        self._waiting[name] = [item for item in self._waiting.get(name, ()) if not self._is_done(item)]

    def judge_rest(self) -> Iterator[CheckItem]:
        """Judge what waited for every node. Yields the items that fail, node by node: pytest is to run these."""
        for name, waiting in self._waiting.items():
            for item in waiting:
                self._judging.record(item.check, name)
            self.node_judged(name)
            yield from self._waiting[name]

    def _is_done(self, item: CheckItem) -> bool:
        record = self._judging.known(item.check, item.node_name)
        if record is None or record.verdict not in QUIET:
            return False
        self._keep(record)
        self._judging.forget(item.check, item.node_name)
        return True
