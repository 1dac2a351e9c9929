"""Items that pass or are skipped answer in one step: pytest's three empty phases would cost more than the judging."""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING, Literal

import pytest

from nodegate.plugin.items import ACCEPTANCE, CheckItem
from nodegate.records.verdict import Verdict

if TYPE_CHECKING:
    from nodegate.plugin.listeners import Listeners

_SKIPPED = frozenset({Verdict.SKIP, Verdict.NOT_JUDGED})
QUIET = _SKIPPED | {Verdict.PASS, Verdict.WARN}  # verdicts that pytest reports without a failure
_Phase = Literal["setup", "call", "teardown"]
_LATER: tuple[_Phase, ...] = ("call", "teardown")  # phases after the first
_OF_A_SKIP: tuple[_Phase, ...] = ("teardown",)


class OneStep:
    """Gives the reports of an item whose verdict is known and no failure, as pytest's own runner gives them.

    Everything else goes through that runner: what is not judged yet, so that what a check prints is captured; what
    fails; the last item of a file, after which pytest tears down; and all items on whose phases a
    plugin, a conftest.py, a mark or an option acts.
    """

    def __init__(self, listeners: Listeners) -> None:
        self._listeners = listeners

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
        """Answer for an item that is judged, and passes or is skipped; None leaves it to pytest."""
        if not isinstance(item, CheckItem) or nextitem is None or nextitem.parent is not item.parent:
            return None
        judging = item.config.stash[ACCEPTANCE]
        record = judging.known(item.check, item.node_name)
        if record is None or record.verdict not in QUIET or self._listeners.to_phases(item):
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


def _passed_then(report: pytest.TestReport, phase: _Phase) -> pytest.TestReport:
    """The report of a later phase with nothing left to do, from that of an earlier one."""
    later = copy(report)
    later.when, later.outcome, later.longrepr = phase, "passed", None
    later.sections, later.user_properties = [], list(report.user_properties)
    later.duration, later.start = 0.0, later.stop
    return later


def _nothing() -> None:
    """What is left to do in a phase."""
