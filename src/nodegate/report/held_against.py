"""A report held against the evidence in its run folder: a node whose evidence was changed is accepted no more."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING

from nodegate.errors import UsageError
from nodegate.records.finding import Finding, Record
from nodegate.records.manifest import MANIFEST, OddFile
from nodegate.records.part import NODE
from nodegate.records.verdict import NodeVerdict, Verdict

if TYPE_CHECKING:
    from pathlib import Path

    from nodegate.records.manifest import Manifest
    from nodegate.records.run import NodeReport
    from nodegate.report.model import Report

CHECK = "node.evidence"
_STEP = "put the evidence back as it was, or measure this node again: pytest --resume"
_GOOD = (NodeVerdict.ACCEPTED, NodeVerdict.WAIVED, NodeVerdict.NOT_JUDGED)


def held_against(report: Report, manifest: Manifest, run: Path) -> Report:
    """The report, with an error on each node whose evidence is not as the run wrote it.

    A copy of a report without evidence is left as it is, and says so by its fingerprint alone.

    Raises:
        UsageError: the manifest is not that of this report, or is gone while the evidence is there.
    """
    made_from, there = report.run.manifest_sha256, manifest.sha256
    if made_from == there:
        odd: defaultdict[str, list[OddFile]] = defaultdict(list)
        for each in manifest.odd_files():
            odd[each.node].append(each)
        return replace(report, nodes=tuple(_with_odd(node, odd[node.node]) for node in report.nodes))
    if not there and not (run / "evidence").exists():
        return report
    hint = f"judge the evidence as it is: pytest --replay {run}"
    said = "does not belong to this report.json" if there else "is gone"
    raise UsageError(said, file=str(run / MANIFEST), hint=hint)


def _with_odd(node: NodeReport, odd: list[OddFile]) -> NodeReport:
    if not odd:
        return node
    findings = tuple(Finding(NODE, Verdict.ERROR, text=str(each), action=_STEP, code="evidence") for each in odd)
    files = tuple(each.file for each in odd)
    record = Record(node.node, CHECK, Verdict.ERROR, findings, evidence=files)
    verdict = NodeVerdict.INCOMPLETE if node.verdict in _GOOD else node.verdict
    return replace(node, verdict=verdict, records=(*(each for each in node.records if each.check != CHECK), record))
