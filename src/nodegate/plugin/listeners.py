"""Who looks at an item while it runs; the others are judged and kept a node at a time, without pytest.

In a usual run no plugin and no option looks at an item that passes. Measured with all items sent through pytest's
hooks: 70 % more CPU in a passive run of 256 nodes, 14 % more in a run of 64 under load.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from nodegate.plugin.items import CheckItem
from nodegate.records.finding import Record
from nodegate.records.verdict import Verdict
from nodegate.run.judging import Judging

if TYPE_CHECKING:
    import pytest
    from pluggy import HookCaller

_INTO_THE_PHASES = ("usepdb", "trace", "setuponly", "setupshow", "setupplan")  # options that look into them
_ACT_ON_ITEMS = frozenset({"skip", "skipif", "xfail", "usefixtures"})  # marks
# What hooks into phases here does nothing to such an item that is not a function.
_KNOWN = frozenset({"_pytest", "xdist", "nodegate", "_hypothesis_pytestplugin"})
# What hooks into an item or its reports here does nothing for one that passes or is skipped, in a run that prints none.
_SILENT = frozenset(
    f"_pytest.{module}"
    for module in (
        *("assertion", "cacheprovider", "faulthandler", "logging", "main", "runner", "terminal", "unittest"),
        "warnings",
    )
)
# verdicts that pytest reports without a failure
_QUIET = frozenset({Verdict.SKIP, Verdict.NOT_JUDGED, Verdict.PASS, Verdict.WARN})


class Listeners:
    """What the answers depend on is known once for each file of checks: it decides whose hooks are called."""

    def __init__(self, config: pytest.Config) -> None:
        option = config.option
        self._look_into = any(getattr(option, name, False) for name in _INTO_THE_PHASES)
        self._stops_early = bool(getattr(option, "maxfail", 0))
        failed = getattr(config.pluginmanager.get_plugin("lfplugin"), "lastfailed", ())
        self._failed_before = frozenset(map(str, failed))  # pytest strikes out of them what passes
        self._to_phases: dict[Path, bool] = {}
        self._to_reports: dict[Path, bool] = {}

    def to_phases(self, item: CheckItem) -> bool:
        """Whether anything but pytest's own acts in the phases of this item."""
        if item.path not in self._to_phases:
            hook, above = item.ihook, (mark for node in item.listchain()[:-1] for mark in node.own_markers)
            hooks = (hook.pytest_runtest_setup, hook.pytest_runtest_call, hook.pytest_runtest_teardown)
            called = {module.partition(".")[0] for module in _modules(*hooks, hook.pytest_runtest_makereport)}
            act = any(mark.name in _ACT_ON_ITEMS for mark in above)
            self._to_phases[item.path] = self._look_into or act or not called <= _KNOWN
        return self._to_phases[item.path] or any(mark.name in _ACT_ON_ITEMS for mark in item.own_markers)

    def to_reports(self, item: CheckItem) -> bool:
        """Whether the reports of this item, if it passes or is skipped, say anything to others than nodegate."""
        if item.path not in self._to_reports:
            hook = item.ihook
            hooks = (hook.pytest_runtest_protocol, hook.pytest_runtest_logstart, hook.pytest_runtest_logfinish)
            called = _modules(*hooks, hook.pytest_runtest_logreport)
            others = any(module not in _SILENT and not module.startswith("nodegate.") for module in called)
            self._to_reports[item.path] = self._stops_early or others
        return self._to_reports[item.path] or item.nodeid in self._failed_before


def _modules(*hooks: HookCaller) -> Iterator[str]:
    """The modules of all functions that these hooks call."""
    return (each.function.__module__ for hook in hooks for each in hook.get_hookimpls())


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
