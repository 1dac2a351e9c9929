"""The records of a run as they come in, and at its end the reports."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

from nodegate.judge.verdict import NodeVerdict, Record, Verdict, node_verdict
from nodegate.report.jsonl import ResultsFile
from nodegate.report.model import CheckInfo, Drift, NodeReport, Report, Run
from nodegate.report.render import render
from nodegate.unknown import Unknown

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from nodegate.acceptance import Acceptance
    from nodegate.evidence import RunFolder
    from nodegate.suite import Check

JUDGED = frozenset((Verdict.PASS, Verdict.WARN, Verdict.FAIL, Verdict.ERROR))


class Results:
    """Keeps each record on disk at once (results.jsonl), and in memory for the report."""

    def __init__(self, folder: RunFolder, run: Run) -> None:
        self._folder, self.run = folder, run
        self.records: list[Record] = []
        self.report: Report | None = None
        file = folder.path / "results.jsonl"
        file.unlink(missing_ok=True)  # a resumed run judges everything again: its evidence is what it goes on with
        self._file = ResultsFile(file)

    def keep(self, record: Record) -> None:
        """One more record."""
        self.records.append(record)
        self._file.write(record)

    @property
    def judged(self) -> bool:
        """Whether anything was judged at all: a run of skips alone is no success."""
        return any(record.verdict in JUDGED for record in self.records)

    def finish(self, acceptance: Acceptance, *, interrupted: bool) -> Report:
        """Close the records and write the reports."""
        self._file.close()
        self.run = replace(self.run, finished_epoch_s=time.time(), interrupted=interrupted)
        self.report = build(self.run, acceptance, self.records)
        render(self.report, self._folder.path)
        return self.report


def build(run: Run, acceptance: Acceptance, records: Iterable[Record]) -> Report:
    """The report of a run from its records and the nodes' own traits."""
    by_node: dict[str, list[Record]] = {name: [] for name in acceptance.nodes_of_plan()}
    for record in records:
        by_node.setdefault(record.node, []).append(record)
    return Report(
        run=run,
        nodes=tuple(_node_report(acceptance, name, found) for name, found in by_node.items()),
        drift=_drift(acceptance),
        checks=_check_infos(acceptance.plan),
    )


def _node_report(acceptance: Acceptance, name: str, records: list[Record]) -> NodeReport:
    unreachable = acceptance.unreachable(name)
    traits = acceptance.traits(name)
    known = traits.characteristics if traits else {}
    return NodeReport(
        node=name,
        verdict=node_verdict(records, reachable=not unreachable) if records else _without_records(unreachable),
        platform=traits.platform if traits else acceptance.nodes[name].platform,
        rack=acceptance.nodes[name].rack,
        serials=traits.serials if traits else {},
        identity=tuple((label, value) for label, value in known.items() if not isinstance(value, Unknown)),
        records=tuple(records),
        unreachable=unreachable,
    )


def _without_records(unreachable: str) -> NodeVerdict:
    """A node of the plan that no check has spoken of (an interrupted run) is incomplete, never a silent gap."""
    return NodeVerdict.UNREACHABLE if unreachable else NodeVerdict.INCOMPLETE


def _drift(acceptance: Acceptance) -> tuple[Drift, ...]:
    return tuple(
        Drift(row.platform, row.characteristic, row.majority, row.count, row.total, row.others)
        for row in acceptance.fleet().drift()
    )


def _check_infos(plan: Mapping[str, list[Check]]) -> dict[str, CheckInfo]:
    infos: dict[str, CheckInfo] = {}
    for checks in plan.values():
        for check in checks:
            if check.id not in infos:
                infos[check.id] = CheckInfo(check.title, check.failure_modes)
    return infos
