"""Items of which only the record counts: judged and kept a node at a time, so that pytest runs the others alone.

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

    from nodegate.finding import Record
    from nodegate.plugin.listeners import Listeners
    from nodegate.run.judging import Judging


class AtOnce:
    """Takes the items of a run, which go when they are done; `keep` is given each record that pytest need not see."""

    def __init__(
        self,
        items: list[pytest.Item],
        judging: Judging,
        listeners: Listeners,
        keep: Callable[[Record], None],
    ) -> None:
        self._judging, self._listeners, self._keep = judging, listeners, keep
        self._waiting: dict[str, list[CheckItem]] = {}
        for item in items:
            if isinstance(item, CheckItem):
                self._waiting.setdefault(item.node_name, []).append(item)
        items.clear()

    def node_judged(self, name: str) -> None:
        """Keep what is judged of a node now."""
        self._waiting[name] = [item for item in self._waiting.get(name, ()) if not self._is_done(item)]

    def judge_rest(self) -> Iterator[CheckItem]:
        """Judge what waited for every node. Yields the items that are left to pytest, node by node."""
        for name, waiting in self._waiting.items():
            for item in waiting:
                if self._is_ours(item):
                    self._judging.record(item.check, name)
            self.node_judged(name)
            yield from self._waiting[name]

    def _is_done(self, item: CheckItem) -> bool:
        record = self._judging.known(item.check, item.node_name)
        if record is None or record.verdict not in QUIET or not self._is_ours(item):
            return False
        self._keep(record)
        self._judging.forget(item.check, item.node_name)
        return True

    def _is_ours(self, item: CheckItem) -> bool:
        return not self._listeners.to_reports(item) and not self._listeners.to_phases(item)
