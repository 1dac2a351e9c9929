"""junit.xml for CI systems: one suite a node, with the node's verdict and one test case per check."""

import re
from collections import Counter
from collections.abc import Iterator
from html import escape
from typing import IO

from nodegate.records.finding import Finding, Record, kinds
from nodegate.records.part import NODE
from nodegate.records.run import NodeReport
from nodegate.records.verdict import GOOD, NodeVerdict, Verdict
from nodegate.report.json_file import utc
from nodegate.report.model import Report

MOST_TEXT_CHARACTERS = 20_000
_NO_XML = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufdcf\ufdf0-\ufffd\U00010000-\U0010fffd]")
_ELEMENT = {
    Verdict.FAIL: "failure",
    Verdict.ERROR: "error",
    Verdict.NOT_JUDGED: "skipped",
    Verdict.SKIP: "skipped",
}


def write(report: Report, file: IO[str], *, everything: bool = False) -> None:
    """Write one suite a node: its verdict, and the checks that did not pass; with `everything` those that did too."""
    suites = [list(_cases(node, everything=everything)) for node in report.nodes]
    seconds = max(0.0, report.run.finished_epoch_s - report.run.started_epoch_s)
    every = [case for cases in suites for case in cases]
    file.write(f'<?xml version="1.0" encoding="utf-8"?>\n<testsuites name="nodegate" {_counts(every)}')
    file.write(f' time="{seconds:.3f}">\n')
    when, where = utc(report.run.started_epoch_s)[:-1], _quoted(report.run.host)
    for node, cases in zip(report.nodes, suites, strict=True):
        lasted = report.run.judging_s.get(node.node, 0.0)
        file.write(f"<testsuite name={_quoted(node.node)} {_counts(cases)}")
        file.write(f' time="{lasted:.3f}" timestamp="{when}" hostname={where}>\n')
        file.writelines(case for _, case in cases)
        file.write("</testsuite>\n")
    file.write("</testsuites>\n")


def _counts(cases: list[tuple[str, str]]) -> str:
    counts = Counter(kind for kind, _ in cases)
    failures, errors, skipped = (counts[kind] for kind in ("failure", "error", "skipped"))
    return f'tests="{len(cases)}" failures="{failures}" errors="{errors}" skipped="{skipped}"'


def _word(node: NodeReport) -> tuple[Verdict, str]:
    """The verdict of a node as that of a check, and its reason."""
    if node.verdict in GOOD:
        return Verdict.PASS, node.verdict.value
    if node.verdict is NodeVerdict.UNREACHABLE:
        return Verdict.ERROR, f"unreachable: {node.unreachable}"
    if not node.records:
        return Verdict.SKIP, "no check left a result"
    if node.verdict is NodeVerdict.REJECTED:
        return Verdict.FAIL, node.verdict.value
    claims = ", ".join(shown.claim for shown in node.unproven)
    said = f"{node.verdict.value}: not proven: {claims}" if claims else node.verdict.value
    # what was left out by the user's own choice fails no run
    is_left = node.is_partly_judged or node.verdict is NodeVerdict.NOT_JUDGED
    return (Verdict.SKIP if is_left else Verdict.ERROR), said


def _cases(node: NodeReport, *, everything: bool) -> Iterator[tuple[str, str]]:
    """First the node's own, so that a node without failures is green only if it is accepted."""
    verdict, reason = _word(node)
    yield _case(Record(node.node, "node.judged", verdict, (Finding(NODE, verdict, text=reason),)))
    for record in node.records:
        # one part may be skipped, or have no limit, where others pass
        is_plain_pass = record.verdict is Verdict.PASS and kinds(record.findings) <= {Verdict.PASS}
        if everything or not is_plain_pass:
            yield _case(record)


def _case(record: Record) -> tuple[str, str]:
    """The kind of element ("failure", "error", "skipped" or "") and the whole test case."""
    module, _, name = record.check.rpartition(".")
    kind = "skipped" if record.waiver else _ELEMENT.get(record.verdict, "")
    waived, open_as = f"waived: {record.waiver}; ", "not judged: " if record.verdict is Verdict.NOT_JUDGED else ""
    message = (waived if record.waiver else open_as) + record.message
    head = f"<testcase classname={_quoted(module or 'nodegate')} name={_quoted(f'{name}[{record.node}]')}"
    wrong = (finding for finding in record.findings if finding.verdict is not Verdict.PASS)
    text = _xml("\n".join(f"{each.verdict.value}: {each.message}" for each in wrong))[:MOST_TEXT_CHARACTERS]
    if kind:
        return kind, f"{head}><{kind} message={_quoted(message)}>{escape(text)}</{kind}></testcase>\n"
    if text:
        return kind, f"{head}><system-out>{escape(text)}</system-out></testcase>\n"
    return kind, f"{head}/>\n"


def _xml(text: str) -> str:
    return _NO_XML.sub("", text)


def _quoted(text: str) -> str:
    """An attribute's value with its quotes."""
    return '"' + escape(_xml(text)[:1000]).replace("\n", "&#10;").replace("\t", "&#9;").replace("\r", "&#13;") + '"'
