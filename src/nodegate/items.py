"""One pytest item per (check, node): it looks up the record and says it in pytest's own words."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from nodegate.judge.verdict import Record, Verdict

if TYPE_CHECKING:
    from _pytest._code.code import TerminalRepr

    from nodegate.acceptance import Acceptance
    from nodegate.suite import Check

ACCEPTANCE: pytest.StashKey[Acceptance] = pytest.StashKey()


class CheckFailed(Exception):  # noqa: N818 - pytest says FAILED
    """The verdict is fail: pytest's FAILED."""


class CheckError(Exception):
    """The verdict is error: raised in set-up, so pytest's ERROR."""


class CheckItem(pytest.Item):
    """A check on one node.

    Not a pytest.Function: 75,000 of those cost 38 s and 0.44 GB, these a quarter, and a check judges the same way
    here, in bootcheck and in the tests: by `nodegate.judge.run.judge`.
    """

    check: Check
    node_name: str
    record: Record | None = None

    @classmethod
    def of(cls, module: pytest.Collector, function: str, check: Check, node: str) -> CheckItem:
        """The item `function[node]` of a check module."""
        item: CheckItem = cls.from_parent(module, name=f"{function}[{node}]")
        item.check, item.node_name = check, node
        for mark in getattr(check.function, "pytestmark", ()):
            item.add_marker(mark)
        return item

    def setup(self) -> None:
        """Judge, and stop here when there is nothing to judge."""
        self.record = self.config.stash[ACCEPTANCE].record(self.check, self.node_name)
        if self.record.verdict is Verdict.ERROR:
            raise CheckError(self.record.message)
        if self.record.verdict is Verdict.SKIP:
            pytest.skip(self.record.message)

    def runtest(self) -> None:
        """Say the verdict; pass and warn return."""
        if self.record is None or self.record.verdict is not Verdict.FAIL:
            return
        if self.record.waiver:
            pytest.xfail(self.record.waiver)
        raise CheckFailed(self.record.message)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: object = None) -> str | TerminalRepr:
        """The findings, one a line; a traceback only for a fault of our own."""
        if self.record is not None and isinstance(excinfo.value, (CheckFailed, CheckError)):
            return "\n".join(f.message for f in self.record.findings if f.verdict is self.record.verdict)
        return super().repr_failure(excinfo, style)  # type: ignore[arg-type]

    def reportinfo(self) -> tuple[object, int, str]:  # type: ignore[override]
        """Where the check stands, and its name for -v."""
        return self.path, self.check.function.__code__.co_firstlineno - 1, f"{self.check.id}[{self.node_name}]"
