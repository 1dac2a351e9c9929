"""One pytest item per (check, node): it looks up the record and reports it in pytest's own words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, MutableMapping
from typing import Any

import pytest

from nodegate.claims.table import homes
from nodegate.errors import NotDemanded, NotDone
from nodegate.judge.judge import record_of, refusal
from nodegate.records.finding import Record
from nodegate.records.store import to_bytes
from nodegate.records.verdict import Verdict
from nodegate.run.judging import Judging
from nodegate.suite import Check

ACCEPTANCE: pytest.StashKey[Judging] = pytest.StashKey()
_FILE: pytest.StashKey[str] = pytest.StashKey()  # of a module: its path as pytest's reports have it


class CheckItem(pytest.Item):
    """A check on one node.

    Not a pytest.Function: 75,000 of those cost 38 s and 0.44 GB, these a quarter, and a check judges the same way
    here, in bootcheck and in the tests: by `nodegate.judge.judge.judge`.
    """

    __slots__ = ("check", "node_name", "record")  # as keys of its dictionary they take 400 bytes an item

    check: Check
    node_name: str
    record: Record | None

    @classmethod
    def each(cls, module: pytest.Collector, function: str, check: Check, nodes: Iterable[str]) -> Iterator[CheckItem]:
        """The items `function[node]` of a check module."""
        # A file outside the rootdir has half an id or none: two checks would be the same for --lf and pytest-xdist.
        path, marks = module.path, getattr(check.function, "pytestmark", ())
        file = module.nodeid if path.is_relative_to(module.config.rootpath) else f"{path.parent.name}/{path.name}"
        # pytest 9.2 splits an id into path, name and parameter, which --lf needs: here the items share the first two.
        shared = type(module.id).parse(f"{file}::{function}") if hasattr(module, "id") else None
        for node in nodes:
            name = f"{function}[{node}]"
            nodeid = shared.with_params(node) if shared else f"{file}::{name}"
            item: CheckItem = cls.from_parent(module, name=name, nodeid=nodeid)
            item.check, item.node_name, item.record = check, node, None
            item.own_markers.extend(marks)
            yield item

    def setup(self) -> None:
        """Judge, and stop here if there is nothing to judge."""
        self.record = self.config.stash[ACCEPTANCE].record(self.check, self.node_name)
        if self.record.verdict is Verdict.ERROR:
            pytest.fail(self._said(self.record), pytrace=False)  # in set-up, so pytest reports ERROR
        if self.record.verdict in (Verdict.SKIP, Verdict.NOT_JUDGED):
            pytest.skip(self.record.message)

    def runtest(self) -> None:
        """Report the verdict; pass and warn return."""
        if self.record is None or self.record.verdict is not Verdict.FAIL:
            return
        if self.record.waiver:
            pytest.xfail(self.record.waiver)
        pytest.fail(self._said(self.record), pytrace=False)

    def teardown(self) -> None:
        """Drop the record, which the report has now: a fleet's records twice over would take a gigabyte."""
        self.config.stash[ACCEPTANCE].forget(self.check, self.node_name)
        self.record = None

    def tell(self, report: pytest.TestReport) -> None:
        """Put the record into the report with the verdict; from a worker of pytest-xdist it goes to the controller."""
        report.is_nodegate = True  # type: ignore[attr-defined]
        says = report.when == "call" or (report.when == "setup" and not report.passed)
        if says and self.record is None and report.skipped:  # by a pytest mark, before this hook
            reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else "skipped"
            said = NotDone(reason) if self.check.id in homes() else NotDemanded(reason)  # by a site of its own check
            self.record = record_of(self.check, self.node_name, [refusal(said, node="")])
        if says and self.record is not None:
            self.send(report, self.record)

    def send(self, report: pytest.TestReport, record: Record) -> None:
        """Put a record into a report: as bytes if another process reads it."""
        is_sent = hasattr(self.config, "workerinput")
        report.nodegate = to_bytes(record) if is_sent else record  # type: ignore[attr-defined]

    @staticmethod
    def _said(record: Record) -> str:
        """The decisive findings, one per line: a traceback would only show this code, and costs 20 ms to format."""
        return "\n".join(finding.message for finding in record.findings if finding.verdict is record.verdict)

    def reportinfo(self) -> tuple[object, int, str]:  # type: ignore[override]
        """The file and line of the check, and its name for -v."""
        return self.path, self.check.function.__code__.co_firstlineno - 1, f"{self.check.id}[{self.node_name}]"

    @property
    def keywords(self) -> MutableMapping[str, Any]:
        """As pytest's own, made when they are asked for: they refer to the item, which then outlives its last use."""
        known: MutableMapping[str, Any] | None = vars(self).get("_keywords")
        if known is None:
            known = vars(self)["_keywords"] = type(self.session.keywords)(self)  # type: ignore[call-arg]
            known.update((mark.name, mark) for mark in self.own_markers)
        return known

    @keywords.setter
    def keywords(self, _of_pytest: MutableMapping[str, Any]) -> None:
        """What pytest makes for each item, and few items need."""

    @property
    def extra_keyword_matches(self) -> set[str]:
        """Names for -k that other plugins add: made when one is asked for, an empty set takes more than the item."""
        found: set[str] = vars(self).setdefault("_extra_keyword_matches", set())
        return found

    @extra_keyword_matches.setter
    def extra_keyword_matches(self, names: set[str]) -> None:
        if names:
            vars(self)["_extra_keyword_matches"] = names

    @property
    def location(self) -> tuple[str, int | None, str]:
        """As pytest's own says, which finds the path of the file again for each item and keeps it there."""
        known = (self.parent or self.session).stash
        if _FILE not in known:
            known[_FILE] = super().location[0]
        _, line, name = self.reportinfo()
        return known[_FILE], line, name
