"""The answer after a failed job: hardware, and which node to move the job off; fabric; host; or the nodes are fine."""

from __future__ import annotations

from nodegate.causes.lines import line
from nodegate.inventory.hostlist import fold
from nodegate.knowledge.words import Cause as LogCause
from nodegate.records.cause import Cause, Class
from nodegate.records.verdict import NodeVerdict, Verdict
from nodegate.report.model import Report
from nodegate.text import counted
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
    """One sentence. `logs` is the answer of the job's own logs, if they were given.

    A node that fails comes before what a log says: the log is about the past, the check about now. If the log names a
    node, that node's failure is reported first. Nothing is called fine that was not judged, or that warns.
    """
    named = logs.where.node if logs is not None and logs.failed else ""
    told = _failure(report, named)
    if told:
        return told + (f"; the logs: {logs.sentence.en}" if logs is not None and logs.failed else "")
    if logs is not None and logs.failed and logs.cause in _BEYOND_THE_JOB:
        move = _MOVE.format(nodes=named) if named and logs.cause is not LogCause.STORAGE else ""
        maybe = "" if logs.sure else "perhaps "
        return f"{maybe}{logs.cause.value}: {move}{logs.meaning.en} (from the logs alone: no check fails now)"
    return _inconclusive(report) or _healthy(report, logs)


def _failure(report: Report, named: str) -> str:
    """The worst failure in words, a node that the logs name first; empty if nothing fails."""
    failed = [cause for cause in report.causes if cause.verdict is Verdict.FAIL and not cause.waiver]
    lost = [node for node in report.nodes if node.verdict is NodeVerdict.UNREACHABLE]
    by_kind: dict[str, list[Cause]] = {"hardware": [], "fabric": [], "host": []}
    for cause in sorted(failed, key=lambda cause: named not in cause.nodes):
        by_kind[_KINDS.get(cause.sort, "host")].append(cause)
    if lost and not by_kind["hardware"]:
        names = fold(node.node for node in lost)
        return f"hardware: {_MOVE.format(nodes=names)}{lost[0].node} cannot be reached"
    kind, causes = next(((kind, causes) for kind, causes in by_kind.items() if causes), ("", []))
    if not causes:
        return ""
    nodes = fold(name for cause in causes for name in cause.nodes)
    first = causes[0]
    said = line(first).text if fold(first.nodes) == nodes else f"{fold(first.nodes)}: {line(first).text}"
    more = f" (and {len(causes) - 1} more)" if len(causes) > 1 else ""
    if kind == "host":
        return f"host: fix {nodes} before the job runs there again: {said}{more}"
    return f"{kind}: {_MOVE.format(nodes=nodes)}{said}{more}"


def _inconclusive(report: Report) -> str:
    """What keeps the nodes from being called fine, though no check fails; empty where all of them are judged."""
    unread = [node.node for node in report.nodes if node.verdict is NodeVerdict.INCOMPLETE]
    errors = [cause for cause in report.causes if cause.verdict is Verdict.ERROR]
    if unread and errors:
        return f"inconclusive: not everything could be measured on {fold(unread)}: {line(errors[0]).text}"
    if report.run.interrupted or unread:
        where = f" on {fold(unread)}" if unread else ""
        return f"inconclusive: the run ended before every check was judged{where} - continue it with --resume"
    unjudged = [node.node for node in report.nodes if node.verdict is NodeVerdict.NOT_JUDGED]
    if unjudged or not report.nodes:
        whom = f"of {fold(unjudged)} " if unjudged else ""
        return f"inconclusive: nothing {whom}could be judged - the report says why"
    return ""


def _healthy(report: Report, logs: Answer | None) -> str:
    """No check fails: what the nodes warn of, and what is waived, come before the word that they are fine."""
    code = ""
    if logs is not None and logs.failed and logs.recognised:
        code = f"look at the code: {logs.meaning.en}" if logs.cause is LogCause.PROGRAM else logs.sentence.en
    hint = code or (logs.sentence.en if logs is not None else "add the job's logs (--job-log)")
    for kind, found in (
        ("warning", [cause for cause in report.causes if cause.verdict is Verdict.WARN and not cause.waiver]),
        ("waiver", [cause for cause in report.causes if cause.waiver]),
    ):
        if found:
            more = f" (and {counted(len(found) - 1, f'more {kind}')})" if len(found) > 1 else ""
            said = f"{fold(found[0].nodes)}: {line(found[0]).text}{more}"
            return f"nodes pass with {kind}s, which may be the reason: {said}; {hint}"
    unjudged = sum(record.verdict is Verdict.NOT_JUDGED for node in report.nodes for record in node.records)
    gap = f" ({counted(unjudged, 'check')} not judged)" if unjudged else ""
    if code:
        return f"nodes fine: {code}{gap}"
    nodes = "the node" if len(report.nodes) == 1 else f"the {len(report.nodes)} nodes"
    return f"nodes fine: nothing is wrong with {nodes} now{gap}; {hint}"
