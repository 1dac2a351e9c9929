"""The answer after a failed job: hardware, and off which node to move; fabric; host; or the nodes are fine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nodegate.inventory.hostlist import fold
from nodegate.knowledge.failure_modes import failure_modes
from nodegate.knowledge.words import Cause
from nodegate.verdict import NodeVerdict, Verdict

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nodegate.finding import Record
    from nodegate.report.model import NodeReport, Report
    from nodegate.triage.answer import Answer

# Of several kinds of fault on one node, which one says what to do first: a broken part stands above a wrong setting.
_ORDER = (Cause.HARDWARE, Cause.FABRIC, Cause.STORAGE, Cause.HOST, Cause.PROGRAM, Cause.UNKNOWN)
_MOVE = "move the job off {nodes} because "


def conclude(report: Report, logs: Answer | None = None) -> str:
    """One sentence. `logs` is what the job's own logs come to, where they were given.

    A node that fails stands above what a log says: the log tells of the past, the check of now. Where the log names a
    node, that node's failure is told first. Nothing is called fine that was not judged.
    """
    named = logs.where.node if logs is not None and logs.failed else ""
    told = _of_nodes(report, named)
    if told:
        return told + (f"; the logs: {logs.sentence.en}" if logs is not None and logs.failed else "")
    if logs is not None and logs.failed and logs.cause in (Cause.HARDWARE, Cause.FABRIC, Cause.STORAGE, Cause.HOST):
        move = _MOVE.format(nodes=named) if named and logs.cause is not Cause.STORAGE else ""
        return f"{logs.cause.value}: {move}{logs.sentence.en} (by the logs alone: every check passes now)"
    unknown = [node.node for node in report.nodes if node.verdict in (NodeVerdict.INCOMPLETE, NodeVerdict.NOT_JUDGED)]
    if unknown or not report.nodes or report.run.interrupted:
        whom = f" on {fold(unknown)}" if unknown else ""
        return f"could not tell: not everything could be measured{whom} - mend that, then ask again"
    if logs is not None and logs.failed:
        return f"nodes fine: look at the code: {logs.sentence.en}"
    said = "the logs hold no error" if logs is not None else "give the job's logs too (--job-log)"
    return f"nodes fine: nothing is wrong with {_count(report.nodes)} now; {said}"


def _of_nodes(report: Report, named: str) -> str:
    """What the worst of the nodes' own failures come to; empty where none fails."""
    lost = [node for node in report.nodes if node.verdict is NodeVerdict.UNREACHABLE]
    faults: dict[Cause, list[tuple[NodeReport, Record]]] = {}
    for node in report.nodes:
        for record in node.records:
            if record.verdict is Verdict.FAIL and not record.waiver:
                faults.setdefault(_cause(record), []).append((node, record))
    for cause in _ORDER:
        found = sorted(faults.get(cause, ()), key=lambda each: each[0].node != named)
        if cause is Cause.HARDWARE and lost and not found:
            first = lost[0]
            return f"hardware: {_MOVE.format(nodes=fold(each.node for each in lost))}{first.node} cannot be reached"
        if found:
            return _sentence(cause, found)
    return ""


def _sentence(cause: Cause, found: list[tuple[NodeReport, Record]]) -> str:
    nodes = fold(node.node for node, _ in found)
    node, record = found[0]
    said = f"{node.node}: {record.check}: {record.message.removeprefix(f'{node.node}: ')}"
    if cause in (Cause.HOST, Cause.PROGRAM, Cause.UNKNOWN):
        return f"host: mend {nodes} before the job runs there again: {said}"
    return f"{cause.value}: {_MOVE.format(nodes=nodes)}{said}"


def _cause(record: Record) -> Cause:
    """What a failing check blames: the cause of its first failure mode."""
    known = failure_modes()
    causes = [known[mode].cause for mode in record.failure_modes if mode in known]
    return causes[0] if causes else Cause.HOST


def _count(nodes: Sequence[NodeReport]) -> str:
    return "the node" if len(nodes) == 1 else f"the {len(nodes)} nodes"
