"""The answer after a failed job: hardware, and off which node to move; fabric; host; or the nodes are fine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nodegate.causes.cause import Class
from nodegate.causes.lines import line
from nodegate.inventory.hostlist import fold
from nodegate.knowledge.words import Cause as LogCause
from nodegate.verdict import NodeVerdict, Verdict

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nodegate.causes.cause import Cause
    from nodegate.report.model import NodeReport, Report
    from nodegate.triage.answer import Answer

_KINDS = {
    Class.GPU: "hardware",
    Class.NIC: "hardware",
    Class.NVLINK: "hardware",
    Class.CABLE: "fabric",
    Class.HOST: "host",
    Class.CONFIGURATION: "host",
    Class.SOFTWARE: "host",
}
_MOVE = "move the job off {nodes} because "
_BEYOND_THE_JOB = (LogCause.HARDWARE, LogCause.FABRIC, LogCause.STORAGE, LogCause.HOST)


def conclude(report: Report, logs: Answer | None = None) -> str:
    """One sentence. `logs` is what the job's own logs come to, where they were given.

    A node that fails stands above what a log says: the log tells of the past, the check of now. Where the log names a
    node, that node's failure is told first. Nothing is called fine that was not judged, or that warns.
    """
    named = logs.where.node if logs is not None and logs.failed else ""
    told = _failure(report, named)
    if told:
        return told + (f"; the logs: {logs.sentence.en}" if logs is not None and logs.failed else "")
    if logs is not None and logs.failed and logs.cause in _BEYOND_THE_JOB:
        move = _MOVE.format(nodes=named) if named and logs.cause is not LogCause.STORAGE else ""
        return f"{logs.cause.value}: {move}{logs.sentence.en} (by the logs alone: every check passes now)"
    unknown = [node.node for node in report.nodes if node.verdict in (NodeVerdict.INCOMPLETE, NodeVerdict.NOT_JUDGED)]
    if unknown or not report.nodes or report.run.interrupted:
        whom = f" on {fold(unknown)}" if unknown else ""
        return f"inconclusive: some measurements failed{whom} - fix them, then run again"
    return _healthy(report, logs)


def _failure(report: Report, named: str) -> str:
    """What the worst failure comes to, that of a node that the logs name first; empty where nothing fails."""
    failed = [cause for cause in report.causes if cause.verdict is Verdict.FAIL and not cause.waiver]
    lost = [node for node in report.nodes if node.verdict is NodeVerdict.UNREACHABLE]
    by_kind: dict[str, list[Cause]] = {"hardware": [], "fabric": [], "host": []}
    for cause in sorted(failed, key=lambda cause: named not in cause.nodes):
        by_kind[_KINDS.get(cause.sort, "host")].append(cause)
    if lost and not by_kind["hardware"]:
        names = fold(node.node for node in lost)
        return f"hardware: {_MOVE.format(nodes=names)}{lost[0].node} cannot be reached"
    for kind, causes in by_kind.items():
        if causes:
            return _sentence(kind, causes)
    return ""


def _sentence(kind: str, causes: Sequence[Cause]) -> str:
    nodes = fold(name for cause in causes for name in cause.nodes)
    first = causes[0]
    said = line(first).text if fold(first.nodes) == nodes else f"{fold(first.nodes)}: {line(first).text}"
    more = f" (and {len(causes) - 1} more)" if len(causes) > 1 else ""
    if kind == "host":
        return f"host: fix {nodes} before the job runs there again: {said}{more}"
    return f"{kind}: {_MOVE.format(nodes=nodes)}{said}{more}"


def _healthy(report: Report, logs: Answer | None) -> str:
    """No check fails: what the nodes warn of comes before the word that they are fine."""
    code = f"look at the code: {logs.sentence.en}" if logs is not None and logs.failed else ""
    hint = code or ("the logs hold no error" if logs is not None else "give the job's logs too (--job-log)")
    warned = [cause for cause in report.causes if cause.verdict is Verdict.WARN and not cause.waiver]
    if warned:
        more = f" (and {len(warned) - 1} more warnings)" if len(warned) > 1 else ""
        said = f"{fold(warned[0].nodes)}: {line(warned[0]).text}{more}"
        return f"nodes pass with warnings, which may be the reason: {said}; {hint}"
    if code:
        return f"nodes fine: {code}"
    return f"nodes fine: nothing is wrong with {_count(report.nodes)} now; {hint}"


def _count(nodes: Sequence[NodeReport]) -> str:
    return "the node" if len(nodes) == 1 else f"the {len(nodes)} nodes"
