"""nodes.csv, findings.csv (what is not good) and results.csv (every finding); no cell is taken for a formula."""

import csv
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from typing import IO

from nodegate.records.cause import Cause
from nodegate.records.finding import Finding, kinds
from nodegate.records.run import NodeReport
from nodegate.records.verdict import NodeVerdict, Verdict
from nodegate.report.model import Report, worst_first
from nodegate.text import visible

COLUMNS = (
    *("node", "rack", "platform", "node_verdict", "check", "verdict", "device", "device_verdict", "metric", "value"),
    *("unit", "limit", "limit_source", "message", "action", "failure_modes", "waiver", "evidence"),
    "cause",
)
_COUNTED = (Verdict.PASS, Verdict.WARN, Verdict.FAIL, Verdict.ERROR, Verdict.NOT_JUDGED, Verdict.SKIP)
NODE_COLUMNS = (
    *("node", "verdict", "rack", "platform", "gpus", "causes", "severity", "part", "cause", "action", "unreachable"),
    *(verdict.value for verdict in _COUNTED),
    *("waived", "failed_checks", "error_checks", "claims_not_proven", "serials"),
)
BOM = "\ufeff"  # by it Excel knows that a file is UTF-8
NOT_GOOD = frozenset((Verdict.FAIL, Verdict.ERROR, Verdict.WARN, Verdict.NOT_JUDGED))
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")  # noqa: RUF001 - spreadsheets take the wide forms too
_NEXT_CELL = re.compile(r"(?<=[;\t|])(\s*)(?=[=+@＝＋＠-])")  # noqa: RUF001 - where another separator is the country's


def write(report: Report, file: IO[str], wanted: Collection[Verdict] = frozenset(Verdict)) -> None:
    """Write every finding; a result without findings and a node without results have a line too."""
    csv.writer(file, lineterminator="\n").writerows(map(cell, row) for row in finding_rows(report, wanted))


def write_findings(report: Report, file: IO[str]) -> None:
    """Write the findings that are not good, in the same columns; a node without results has a line too."""
    file.write(BOM)
    write(report, file, NOT_GOOD)


def finding_rows(report: Report, wanted: Collection[Verdict]) -> Iterator[tuple[object, ...]]:
    """COLUMNS, then a row for each finding of these verdicts."""
    yield COLUMNS
    for node in report.nodes:
        causes = {
            (each.check, id(each.finding)): cause.id
            for cause in report.node_causes[node.node]
            for each in cause.findings
        }
        yield from _rows(node, causes, wanted)


def _rows(
    node: NodeReport, causes: Mapping[tuple[str, int], str], wanted: Collection[Verdict]
) -> Iterator[tuple[object, ...]]:
    """One row a finding of these verdicts; `causes` are the ids of the causes by check and finding."""
    head = (node.node, node.rack, node.platform, node.verdict.value)
    if not node.records:
        reason = node.unreachable if node.verdict is NodeVerdict.UNREACHABLE else "no check left a result"
        yield (*head, "", node.verdict.value, *[""] * 7, reason, *[""] * 5)
    for record in node.records:
        start = (*head, record.check, record.verdict.value)
        end = ("; ".join(record.failure_modes), record.waiver, "; ".join(record.evidence))
        for finding in () if kinds(record.findings).isdisjoint(wanted) else record.findings:
            if finding.verdict in wanted:
                yield (*start, *_finding(finding), *end, causes.get((record.check, id(finding)), ""))
        if not record.findings and record.verdict in wanted:
            yield (*start, *[""] * 7, record.message, "", *end, "")


def _finding(finding: Finding) -> tuple[object, ...]:
    what = (finding.parts_in_words, finding.verdict.value, finding.metric or finding.quantity)
    limit = (finding.limit.value, finding.limit.source) if finding.limit else ("", "")
    return (*what, finding.observed, finding.unit, *limit, finding.message, finding.action)


def cell(value: object) -> object:
    """Numbers as they are; text that a spreadsheet would run is led by an apostrophe, after its separators too."""
    if value is None or isinstance(value, (bool, int, float)):
        return value
    text = _NEXT_CELL.sub(r"\1'", visible(str(value)))
    return f"'{text}" if text.startswith(_FORMULA) else text


def write_nodes(report: Report, file: IO[str]) -> None:
    """Write the header and the nodes, worst first."""
    file.write(BOM)
    csv.writer(file, lineterminator="\n").writerows(map(cell, row) for row in node_rows(report))


def node_rows(report: Report) -> Iterator[tuple[object, ...]]:
    """The header, then a row a node, worst first. What a node is (driver, BIOS ..) has columns of its own."""
    labels = dict.fromkeys(label for node in report.nodes for label, _ in node.identity)
    more = [label for label in labels if label not in NODE_COLUMNS]
    yield (*NODE_COLUMNS, *more)
    for node in worst_first(report.nodes):
        known = dict(node.identity)
        yield (*_node_row(node, report.node_causes[node.node]), *(known.get(label, "") for label in more))


def _node_row(node: NodeReport, causes: tuple[Cause, ...]) -> Iterator[object]:
    """The cells of NODE_COLUMNS. The worst cause is told in words; `causes` says how many there are."""
    worst = causes[0] if causes else None
    yield from (node.node, node.verdict.value, node.rack, node.platform, node.gpus, len(causes))
    yield from (worst.severity.value, worst.part.label, worst.message, worst.action) if worst else [""] * 4
    yield node.unreachable
    counts = Counter(record.verdict for record in node.records if not record.waiver)
    yield from (counts[verdict] for verdict in _COUNTED)
    yield sum(bool(record.waiver) for record in node.records)
    for verdict in (Verdict.FAIL, Verdict.ERROR):
        yield " ".join(record.check for record in node.records if record.verdict is verdict and not record.waiver)
    yield " ".join(shown.claim for shown in node.unproven)
    # as text: a spreadsheet would round numbers that long
    yield "; ".join(f"{part} {serial}" for part, serial in node.serials.items())
