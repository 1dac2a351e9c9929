"""nodes.csv: one row a node, for spreadsheets and inventories; no cell of it is taken for a formula."""

import csv
from collections import Counter
from collections.abc import Iterator
from typing import IO

from nodegate.records.cause import Cause
from nodegate.records.run import NodeReport
from nodegate.records.verdict import Verdict
from nodegate.report.csv_file import BOM, cell
from nodegate.report.model import Report, worst_first

_COUNTED = (Verdict.PASS, Verdict.WARN, Verdict.FAIL, Verdict.ERROR, Verdict.NOT_JUDGED, Verdict.SKIP)
COLUMNS = (
    *("node", "verdict", "rack", "platform", "gpus", "causes", "severity", "part", "cause", "action", "unreachable"),
    *(verdict.value for verdict in _COUNTED),
    *("waived", "failed_checks", "error_checks", "claims_not_proven", "serials"),
)


def write(report: Report, file: IO[str]) -> None:
    """Write the header and the nodes, worst first. What a node is (driver, BIOS ..) stands in columns of its own."""
    labels = dict.fromkeys(label for node in report.nodes for label, _ in node.identity)
    more = [label for label in labels if label not in COLUMNS]
    file.write(BOM)
    table = csv.writer(file, lineterminator="\n")
    table.writerow([*COLUMNS, *map(cell, more)])
    for node in worst_first(report.nodes):
        known = dict(node.identity)
        row = (*_row(node, report.node_causes[node.node]), *(known.get(label, "") for label in more))
        table.writerow([cell(value) for value in row])


def _row(node: NodeReport, causes: tuple[Cause, ...]) -> Iterator[object]:
    """The cells of COLUMNS. The worst cause is told in words; `causes` says how many there are."""
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
