"""Items that pass or are skipped answer in one step: pytest's three empty phases would cost more than the judging."""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING, Literal

import pytest

from nodegate.plugin.items import ACCEPTANCE, CheckItem
from nodegate.verdict import Verdict

if TYPE_CHECKING:
    from pathlib import Path

_PASSED = frozenset({Verdict.PASS, Verdict.WARN})
_SKIPPED = frozenset({Verdict.SKIP, Verdict.NOT_JUDGED})
_Phase = Literal["setup", "call", "teardown"]
_LATER: tuple[_Phase, ...] = ("call", "teardown")  # phases after the first
_OF_A_SKIP: tuple[_Phase, ...] = ("teardown",)
_INTO_THE_PHASES = (
    "usepdb",
    "trace",
    "setuponly",
    "setupshow",
    "setupplan",
)  # options that look into them
_ACT_ON_ITEMS = frozenset({"skip", "skipif", "xfail", "usefixtures"})  # marks
# What hooks into phases here does nothing to such an item that is not a function.
_KNOWN = frozenset({"_pytest", "xdist", "nodegate", "_hypothesis_pytestplugin"})


class OneStep:
    """Gives the reports of an item whose verdict is known and no failure, as pytest's own runner gives them.

    Everything else goes through that runner: what is not judged yet, so that what a check prints is captured; what
    fails; the last item of a file, after which pytest tears down; and all items on whose phases a
    plugin, a conftest.py, a mark or an option acts.
    """

    def __init__(self, config: pytest.Config) -> None:
        self._is_off = any(getattr(config.option, name, False) for name in _INTO_THE_PHASES)
        self._is_plain: dict[Path, bool] = {}  # by the file of the items, which decides whose hooks are called

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
        """Answer for an item that is judged, and passes or is skipped; None leaves it to pytest."""
        if self._is_off or not isinstance(item, CheckItem) or nextitem is None or nextitem.parent is not item.parent:
            return None
        judging = item.config.stash[ACCEPTANCE]
        record = judging.known(item.check, item.node_name)
        if record is None or record.verdict not in _PASSED | _SKIPPED or not self._plain(item):
            return None
        is_skipped = record.verdict in _SKIPPED
        hook, nodeid, location = item.ihook, item.nodeid, item.location
        hook.pytest_runtest_logstart(nodeid=nodeid, location=location)
        item.record = record
        first = pytest.TestReport.from_item_and_call(
            item, pytest.CallInfo.from_call(item.setup if is_skipped else _nothing, when="setup")
        )
        for report in [first, *(_passed_then(first, phase) for phase in (_OF_A_SKIP if is_skipped else _LATER))]:
            item.tell(report)
            hook.pytest_runtest_logreport(report=report)
        item.teardown()
        hook.pytest_runtest_logfinish(nodeid=nodeid, location=location)
        return True

    def _plain(self, item: CheckItem) -> bool:
        """Whether the hooks around the phases of this item are pytest's own, and no mark acts on it."""
        if item.path not in self._is_plain:
            hook = item.ihook
            hooks = (hook.pytest_runtest_setup, hook.pytest_runtest_call, hook.pytest_runtest_teardown)
            called = (each for of in (*hooks, hook.pytest_runtest_makereport) for each in of.get_hookimpls())
            self._is_plain[item.path] = all(each.function.__module__.partition(".")[0] in _KNOWN for each in called)
        return self._is_plain[item.path] and not any(mark.name in _ACT_ON_ITEMS for mark in item.iter_markers())


def _passed_then(report: pytest.TestReport, phase: _Phase) -> pytest.TestReport:
    """The report of a later phase with nothing left to do, from that of an earlier one."""
    later = copy(report)
    later.when, later.outcome, later.longrepr = phase, "passed", None
    later.sections, later.user_properties = [], list(report.user_properties)
    later.duration, later.start = 0.0, later.stop
    return later


def _nothing() -> None:
    """What is left to do in a phase."""
