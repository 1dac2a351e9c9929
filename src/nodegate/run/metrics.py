"""What a Prometheus says of the nodes of a troubleshooting run: a claim beside their own checks, never in their place.

Its answers are kept with the evidence, and judged again from there. Metrics warn, pass or are not judged: they fail
nothing, and no verdict of a node is drawn from them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import msgspec

from nodegate.claims.table import METRICS
from nodegate.errors import UsageError
from nodegate.files.bounded import read_whole
from nodegate.inventory.hostlist import fold
from nodegate.job.answer import Answer, unknown
from nodegate.job.command import judged
from nodegate.job.finding import Class
from nodegate.job.finding import Finding as Said
from nodegate.job.parts import short
from nodegate.job.prometheus import Access, Source, server_time
from nodegate.job.queries import Job
from nodegate.job.render import line_of
from nodegate.judge.judge import record_of
from nodegate.knowledge.words import Text
from nodegate.records.claim import Shown, State
from nodegate.records.finding import NOT_READ, Finding
from nodegate.records.part import NODE, Part, Parts, gpu
from nodegate.records.run import CheckInfo, NodeReport
from nodegate.records.run_folder import RunFolder
from nodegate.records.verdict import GOOD, NodeVerdict, Verdict
from nodegate.report.model import Report
from nodegate.suite import Check

_ASKED = "asked.json"
_SINCE_S = 1800
_MOST_BYTES = 1 << 20
_LOOK = "compare with the checks of this part, under load too (--active); nodegate job says more"
CHECK = Check("metrics.node", "what the metrics say of the node", (), "bootcheck", (), lambda: None, "", METRICS.name)


class _Asked(msgspec.Struct):
    """What was asked, beside the answers; why there are none."""

    job: Job | None = None
    error: str = ""


def look(access: Access | None, earlier: RunFolder | None, folder: RunFolder, nodes: Iterable[str]) -> Answer | None:
    """What the metrics say of these nodes now, or said when the earlier run asked; None without a server."""
    asked = _Asked()
    try:
        if access is not None:
            source = Source(access, folder.keep_answer)
            asked = _Asked(Job(server_time(source), _SINCE_S, tuple(dict.fromkeys(map(short, nodes)))))
        elif earlier is not None and (kept := earlier.answers()) is not None:
            source, asked = Source(kept, folder.keep_answer), _read(kept / _ASKED)
        else:
            return None
        answer = judged(asked.job, source) if asked.job else unknown(Text(asked.error, asked.error))
    except UsageError as said:
        asked.error = str(said)
        answer = unknown(Text(asked.error, asked.error))
    folder.keep_answer(_ASKED, msgspec.json.encode(asked))
    return answer


def _read(file: Path) -> _Asked:
    try:
        return msgspec.json.decode(read_whole(file, _MOST_BYTES), type=_Asked)
    except (OSError, ValueError) as said:
        raise UsageError(f"cannot be read: {said}", file=str(file)) from said


def beside(report: Report, answer: Answer, parts: Callable[[str], Parts]) -> Report:
    """The report with a record and a claim for each node, and a line where metrics and checks disagree.

    Args:
        report: of the nodes' own checks.
        answer: what the metrics say.
        parts: the parts of a node, for a GPU's other names.
    """
    names = Counter(short(node.node) for node in report.nodes)
    nodes = []
    for node in report.nodes:
        two = names[short(node.node)] > 1
        found = [_open("two nodes of this run have this short name")] if two else _findings(answer, node.node, parts)
        record = record_of(CHECK, node.node, found)
        state = State.PROVEN if record.verdict is Verdict.PASS else State.NOT_PROVEN
        why = "" if state is State.PROVEN else record.message
        claims = (*node.claims, Shown(METRICS.name, state, why, (CHECK.id,)))
        nodes.append(replace(node, records=(*node.records, record), claims=claims))
    said = _disagree(nodes)
    run = replace(report.run, notes=(*report.run.notes, said)) if said else report.run
    infos = {**report.checks, CHECK.id: CheckInfo(CHECK.title)}
    return replace(report, run=run, nodes=tuple(nodes), checks=infos)


def _findings(answer: Answer, node: str, parts: Callable[[str], Parts]) -> list[Finding]:
    """What the metrics say of one node: warnings with their places, or why nothing."""
    mine = [
        Finding(part, Verdict.WARN, text=line_of(said), action=_LOOK, code=said.kind.value)
        for said in answer.findings
        for part in _parts(said, short(node), lambda: parts(node))
    ]
    whole = [said for said in answer.findings if not said.where]
    if mine:
        return mine
    if answer.kind is Class.CANNOT_TELL:
        return [_open("; ".join(why.en for why in answer.finding.why))]
    if short(node) not in answer.nodes:
        return [_open("no GPU of it is in the metrics: has it another name there?")]
    if whole:
        return [_open(f"the whole job is named, no node of it: {line_of(whole[0])}")]
    if short(node) not in answer.compared:
        return [_open("GPUs of it could not be compared: silent, idle, few of their model, or the job ended or waits")]
    return [Finding(NODE, Verdict.PASS, text="its GPUs were compared with the others of the run: none stands out")]


def _parts(said: Said, node: str, parts: Callable[[], Parts]) -> list[Part]:
    places = [place for place in said.where if place.node == node]
    return [NODE if place.gpu is None else parts().complete(gpu(place.gpu)) for place in places]


def _open(why: str) -> Finding:
    return Finding(NODE, Verdict.NOT_JUDGED, text=f"metrics: {why}", code=NOT_READ)


def _disagree(nodes: Sequence[NodeReport]) -> str:
    """In one line, where the metrics blame a node that its checks accept, or not one that they reject."""
    blamed = {node.node: node.records[-1] for node in nodes
              if node.records[-1].verdict is Verdict.WARN and node.verdict in GOOD}  # fmt: skip
    clear = [node.node for node in nodes
             if node.records[-1].verdict is Verdict.PASS and node.verdict is NodeVerdict.REJECTED]  # fmt: skip
    kinds = dict.fromkeys(finding.code for record in blamed.values() for finding in record.decisive)
    said = [f"{', '.join(kinds)} by the metrics of {fold(blamed)}, where no check fails"] if blamed else []
    said += [f"nothing in the metrics of {fold(clear)}, which the checks reject"] if clear else []
    return f"metrics and checks disagree: {'; '.join(said)}: the checks decide" if said else ""
