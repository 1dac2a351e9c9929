"""results.csv: one line a finding, for spreadsheets; no cell of it is taken for a formula."""

from __future__ import annotations

import csv
from typing import IO, TYPE_CHECKING

from nodegate.text import visible
from nodegate.verdict import NodeVerdict

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from nodegate.finding import Finding
    from nodegate.report.model import NodeReport, Report

COLUMNS = (
    *("node", "rack", "platform", "node_verdict", "check", "verdict", "device", "device_verdict", "metric", "value"),
    *("unit", "limit", "limit_source", "message", "action", "failure_modes", "waiver", "evidence", "duration_s"),
    "cause",
)
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")  # noqa: RUF001 - spreadsheets take the wide forms too


def write(report: Report, file: IO[str]) -> None:
    """Write the header and the findings; a result without findings and a node without results have a line too."""
    table = csv.writer(file, lineterminator="\n")
    table.writerow(COLUMNS)
    for node in report.nodes:
        causes = {
            (each.check, id(each.finding)): cause.id
            for cause in report.node_causes[node.node]
            for each in cause.findings
        }
        for row in _rows(node, causes):
            table.writerow([_cell(value) for value in row])


def _rows(node: NodeReport, causes: Mapping[tuple[str, int], str]) -> Iterator[tuple[object, ...]]:
    """One row a finding; `causes` are the ids of the causes by check and finding."""
    head = (node.node, node.rack, node.platform, node.verdict.value)
    if not node.records:
        reason = node.unreachable if node.verdict is NodeVerdict.UNREACHABLE else "no check left a result"
        yield (*head, "", node.verdict.value, *[""] * 7, reason, *[""] * 6)
    for record in node.records:
        start = (*head, record.check, record.verdict.value)
        end = ("; ".join(record.failure_modes), record.waiver, "; ".join(record.evidence), round(record.duration_s, 3))
        for finding in record.findings:
            yield (*start, *_finding(finding), *end, causes.get((record.check, id(finding)), ""))
        if not record.findings:
            yield (*start, *[""] * 7, record.message, "", *end, "")


def _finding(finding: Finding) -> tuple[object, ...]:
    parts = ", ".join(part.label for part in finding.parts)
    what = (parts, finding.verdict.value, finding.metric or finding.quantity, finding.observed, finding.unit)
    limit = (finding.limit.value, finding.limit.source) if finding.limit else ("", "")
    return (*what, *limit, finding.message, finding.action)


def _cell(value: object) -> object:
    """Numbers as they are; text that a spreadsheet would run is led by an apostrophe."""
    if value is None or isinstance(value, (bool, int, float)):
        return value
    text = visible(str(value))
    return f"'{text}" if text.startswith(_FORMULA) else text
