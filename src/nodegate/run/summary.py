"""The last words of a run on the terminal: nodes worst first, names folded, warnings, where the report is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nodegate.inventory.hostlist import fold
from nodegate.verdict import NODE_ORDER, NodeVerdict, Verdict

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from nodegate.finding import Record
    from nodegate.report.model import NodeReport, Report

MOST_LINES = 40  # of one kind; the report has the rest
_SHOWN = {
    NodeVerdict.REJECTED: (Verdict.FAIL,),
    NodeVerdict.UNREACHABLE: (Verdict.ERROR,),
    NodeVerdict.INCOMPLETE: (Verdict.ERROR,),
    NodeVerdict.NOT_JUDGED: (Verdict.SKIP,),
    NodeVerdict.WAIVED: (Verdict.FAIL,),
    NodeVerdict.ACCEPTED: (),
}


def lines(report: Report, folder: Path) -> Iterator[str]:
    """The summary, line by line."""
    for verdict in NODE_ORDER:
        nodes = [node for node in report.nodes if node.verdict is verdict]
        if nodes:
            yield f"{verdict.value:<22}{len(nodes):>6}  {fold([node.node for node in nodes])}"
    if report.run.interrupted:
        yield f"  the run ended before every check had spoken; go on with: pytest --resume {folder}"
    for verdict in NODE_ORDER:
        told = [record for node in report.nodes if node.verdict is verdict for record in _told(node)]
        yield from _folded(told, verdict.value)
    warned = [record for node in report.nodes for record in node.records if record.verdict is Verdict.WARN]
    yield from _folded(warned, "warn")
    if report.run.answer:
        yield f"answer: {report.run.answer}"
    if (folder / "report.html").exists():
        yield f"report: {folder / 'report.html'}"


def _told(node: NodeReport) -> list[Record]:
    """The records that say why a node is what it is; all checks of an unreachable one say the same: the first does."""
    records = [record for record in node.records if record.verdict in _SHOWN[node.verdict]]
    return records[:1] if node.verdict is NodeVerdict.UNREACHABLE else records


def _folded(records: list[Record], label: str) -> Iterator[str]:
    """Records that say the same of several nodes on one line."""
    same: dict[tuple[str, str], list[str]] = {}
    for record in records:
        said = record.message.removeprefix(f"{record.node}: ")
        same.setdefault((record.check, said), []).append(record.node)
    for shown, ((check, said), nodes) in enumerate(same.items()):
        if shown == MOST_LINES:
            yield f"  {label}: {len(same) - MOST_LINES} more lines in the report"
            return
        yield f"  {label}: {fold(nodes)}: {check}: {said}"
