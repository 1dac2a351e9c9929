"""junit.xml for CI systems: one test case per (node, check)."""

from __future__ import annotations

import re
from html import escape
from typing import IO, TYPE_CHECKING

from nodegate.finding import Finding, Record
from nodegate.part import NODE
from nodegate.report.json_file import utc
from nodegate.verdict import NodeVerdict, Verdict

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nodegate.report.model import NodeReport, Report

MOST_TEXT_CHARACTERS = 20_000
_NO_XML = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufdcf\ufdf0-\ufffd\U00010000-\U0010fffd]")
_ELEMENT = {
    Verdict.FAIL: "failure",
    Verdict.ERROR: "error",
    Verdict.NOT_JUDGED: "skipped",
    Verdict.SKIP: "skipped",
}


def write(report: Report, file: IO[str]) -> None:
    """Write one suite; a node without any result has a case of its own, so that it is never a silent gap."""
    cases = [_case(record) for node in report.nodes for record in _records(node)]
    counts = {kind: sum(kind == found for found, _ in cases) for kind in ("failure", "error", "skipped")}
    seconds = max(0.0, report.run.finished_epoch_s - report.run.started_epoch_s)
    file.write('<?xml version="1.0" encoding="utf-8"?>\n<testsuites>')
    file.write(
        f'<testsuite name="nodegate" tests="{len(cases)}" failures="{counts["failure"]}" errors="{counts["error"]}"'
        f' skipped="{counts["skipped"]}" time="{seconds:.3f}" timestamp="{utc(report.run.started_epoch_s)[:-1]}"'
        f" hostname={_quoted(report.run.host)}>\n"
    )
    file.writelines(case for _, case in cases)
    file.write("</testsuite></testsuites>\n")


def _records(node: NodeReport) -> Iterator[Record]:
    yield from node.records
    if not node.records:
        lost = node.verdict is NodeVerdict.UNREACHABLE
        reason = f"unreachable: {node.unreachable}" if lost else "no check left a result"
        verdict = Verdict.ERROR if lost else Verdict.SKIP
        yield Record(node.node, "node.judged", verdict, (Finding(NODE, verdict, text=reason),))


def _case(record: Record) -> tuple[str, str]:
    """The kind of element ("failure", "error", "skipped" or "") and the whole test case."""
    module, _, name = record.check.rpartition(".")
    kind = "skipped" if record.waiver else _ELEMENT.get(record.verdict, "")
    message = _message(record)
    head = (
        f"<testcase classname={_quoted(module or 'nodegate')} name={_quoted(f'{name}[{record.node}]')}"
        f' time="{record.duration_s:.3f}"'
    )
    text = _findings(record)
    if kind:
        return kind, f"{head}><{kind} message={_quoted(message)}>{escape(text)}</{kind}></testcase>\n"
    if text:
        return kind, f"{head}><system-out>{escape(text)}</system-out></testcase>\n"
    return kind, f"{head}/>\n"


def _message(record: Record) -> str:
    """The result's message; of a skipped case its reason in words, with what it was skipped as."""
    if record.waiver:
        return f"waived: {record.waiver}; {record.message}"
    if record.verdict is Verdict.NOT_JUDGED:
        return f"not judged: {record.message}"
    return record.message


def _findings(record: Record) -> str:
    """The findings that are no pass, a line each."""
    wrong = [finding for finding in record.findings if finding.verdict is not Verdict.PASS]
    return _xml("\n".join(f"{finding.verdict.value}: {finding.message}" for finding in wrong))[:MOST_TEXT_CHARACTERS]


def _xml(text: str) -> str:
    return _NO_XML.sub("", text)


def _quoted(text: str) -> str:
    """An attribute's value with its quotes."""
    return '"' + escape(_xml(text)[:1000]).replace("\n", "&#10;").replace("\t", "&#9;").replace("\r", "&#13;") + '"'
