"""The data inside report.html: every cell as a letter, every text once, findings as numbers into the texts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nodegate.finding import Record
from nodegate.report.model import check_ids, worst_first
from nodegate.report.problems import bad_findings, remark, sentence
from nodegate.text import visible
from nodegate.verdict import NODE_ORDER, Verdict

if TYPE_CHECKING:
    from nodegate.finding import Finding
    from nodegate.report.model import NodeReport, Report

MOST_PASSES = 12_000  # findings of passed checks that a page carries; beyond them, results.csv has the values
MOST_FINDINGS = 40_000
MOST_CHARACTERS = 6_000_000
MOST_PER_RESULT = 200

LETTER = {
    Verdict.PASS: "p",
    Verdict.WARN: "w",
    Verdict.ERROR: "e",
    Verdict.FAIL: "f",
    Verdict.NOT_JUDGED: "n",
    Verdict.SKIP: "s",
}
WAIVED, ABSENT = "a", " "
_RANK = " spnwaef"  # the best first: where a check left two results, the worst shows


def page_data(report: Report) -> dict[str, object]:
    """What the page's script reads.

    `nodes` holds per node: `n` name, `v` verdict (into `verdicts`), `c` one letter a check, `d` the results that have
    something to say, `i` identity, `s` serials, `u` why out of reach. A result is [check, message, [finding], evidence,
    waiver]; a finding is [letter, device, observed, expected, action]; numbers point into `texts`.
    """
    return _Page(report).data()


class _Page:
    def __init__(self, report: Report) -> None:
        self.report = report
        self.texts: dict[str, int] = {}
        self.checks = check_ids(report)
        self.column = {check: index for index, check in enumerate(self.checks)}
        passes = sum(
            finding.verdict is Verdict.PASS
            for node in report.nodes
            for record in node.records
            for finding in record.findings
        )
        self.with_passes = passes <= MOST_PASSES
        self.left = MOST_FINDINGS
        self.characters = 0

    def data(self) -> dict[str, object]:
        nodes = [self.node(node) for node in worst_first(self.report.nodes)]
        return {
            "checks": [visible(check) for check in self.checks],
            "verdicts": [verdict.value for verdict in NODE_ORDER],
            "nodes": nodes,
            "passes": self.with_passes,
            "texts": list(self.texts),
        }

    def text(self, text: str) -> int:
        """The number of a text; equal texts share one."""
        shown = visible(text)
        if shown not in self.texts:
            self.characters += len(shown)
            if self.characters > MOST_CHARACTERS:
                shown = "(too much text for this page: see results.csv)"
        return self.texts.setdefault(shown, len(self.texts))

    def node(self, node: NodeReport) -> dict[str, object]:
        cells = [ABSENT] * len(self.checks)
        for record in node.records:
            index = self.column[record.check]
            cells[index] = max(cells[index], letter(record), key=_RANK.index)
        entry: dict[str, object] = {
            "n": visible(node.node),
            "r": self.text(node.rack),
            "p": self.text(node.platform),
            "v": NODE_ORDER.index(node.verdict),
            "c": "".join(cells),
        }
        parts = {
            "d": [self.result(record) for record in node.records if self.speaks(record)],
            "i": [[self.text(label), self.text(value)] for label, value in node.identity],
            "s": [[self.text(part), visible(serial)] for part, serial in node.serials.items()],
            "u": self.text(node.unreachable) if node.unreachable else None,
        }
        entry.update({key: value for key, value in parts.items() if value not in (None, [])})
        return entry

    def speaks(self, record: Record) -> bool:
        return self.with_passes or bool(record.waiver) or record.verdict is not Verdict.PASS

    def result(self, record: Record) -> list[object]:
        found = list(bad_findings(record))
        if self.with_passes:
            found += [finding for finding in record.findings if finding.verdict is Verdict.PASS]
        shown = found[: min(MOST_PER_RESULT, max(0, self.left))]
        self.left -= len(shown)
        message = record.message.removeprefix(f"{record.node}: ")
        if len(shown) < len(found):
            message += f" ({len(found) - len(shown)} findings more in results.csv)"
        evidence = [self.text(path) for path in record.evidence[:8]]
        waiver = [self.text(record.waiver)] if record.waiver else []
        findings = [self.finding(finding, record) for finding in shown]
        return [self.column[record.check], self.text(message), findings, evidence, *waiver]

    def finding(self, finding: Finding, record: Record) -> list[object]:
        said = sentence(finding)
        subject = finding.part.label
        note = remark(record) if finding.verdict is record.verdict else ""
        observed = f"{said.observed} ({note})" if note else said.observed
        texts = (subject, observed, said.expected, said.action)
        return [LETTER[finding.verdict], *map(self.text, texts)]


def letter(record: Record) -> str:
    """The letter of a result's cell."""
    return WAIVED if record.waiver else LETTER[record.verdict]
