"""The data inside report.html: every cell as a letter, every text once, findings as numbers into the texts."""

from collections.abc import Mapping, Sequence

from nodegate.claims.prove import why
from nodegate.files.gz import ENDING
from nodegate.records.claim import Shown, State, in_words
from nodegate.records.finding import Finding, Record, kinds
from nodegate.records.run import NodeReport
from nodegate.records.verdict import NODE_ORDER, Verdict
from nodegate.report.cause_rows import CauseRow
from nodegate.report.model import Report, check_ids, worst_first
from nodegate.text import visible
from nodegate.words.catalogue import phrase, say, term

MOST_PASSES = 12_000  # findings of passed checks that a page carries; beyond them, results.jsonl.gz has the values
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
_SPEAK = (Verdict.FAIL, Verdict.ERROR, Verdict.WARN, Verdict.NOT_JUDGED)
WAIVED, ABSENT = "a", " "
_RANK = " spnwaef"  # the best first: where a check left two results, the worst shows


def page_data(report: Report, rows: Sequence[CauseRow], packed: frozenset[str] = frozenset()) -> dict[str, object]:
    """What the page's script reads; `rows` are the causes as the page shows them, `packed` as for the page.

    `nodes` holds per node: `n` name, `v` verdict (into `verdicts`), `c` one letter a check, `d` the results that have
    something to say, `k` how many claims are proven, of how many, and those with something to say as [state, claim,
    words], `i` identity, `s` serials, `u` why out of reach. A result is [check, message, [finding], evidence,
    waiver]; a finding is [letter, part, observed, expected, action, source]; numbers point into `texts`. `causes` are
    rows in the page's order: [anchor, severity, part, what, [node]]; `modes` are the failure modes' names.
    """
    return _Page(report, rows, packed).data()


def _passes(record: Record) -> int:
    if kinds(record.findings) == {Verdict.PASS}:
        return len(record.findings)
    return sum(finding.verdict is Verdict.PASS for finding in record.findings)


class _Page:
    def __init__(self, report: Report, rows: Sequence[CauseRow], packed: frozenset[str]) -> None:
        self.report = report
        self.rows = rows
        self.packed = packed
        self.texts: dict[str, int] = {}
        self.checks = check_ids(report)
        self.column = {check: index for index, check in enumerate(self.checks)}
        passes = sum(_passes(record) for node in report.nodes for record in node.records)
        self.with_passes = passes <= MOST_PASSES
        self.left = MOST_FINDINGS
        self.characters = 0

    def data(self) -> dict[str, object]:
        nodes = [self.node(node) for node in worst_first(self.report.nodes)]
        places = {entry["n"]: index for index, entry in enumerate(nodes)}
        return {
            "causes": [self.cause(row, places) for row in self.rows],
            "checks": [visible(check) for check in self.checks],
            "verdicts": [verdict.value for verdict in NODE_ORDER],
            "nodes": nodes,
            "passes": self.with_passes,
            "texts": list(self.texts),
        }

    def text(self, text: str) -> int:
        """The number of a text; equal texts share one."""
        if (known := self.texts.get(text)) is not None:
            return known
        shown = visible(text)
        if shown not in self.texts:
            self.characters += len(shown)
            if self.characters > MOST_CHARACTERS:
                shown = say("(too much text for this page: see results.jsonl.gz)")
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
            "k": self.claims(node),
            "i": [[self.text(term(label)), self.text(value)] for label, value in node.identity],
            "s": [[self.text(term(part)), visible(serial)] for part, serial in node.serials.items()],
            "u": self.text(phrase(node.unreachable)) if node.unreachable else None,
        }
        entry.update({key: value for key, value in parts.items() if value not in (None, [])})
        return entry

    def claims(self, node: NodeReport) -> list[object]:
        if not node.claims:
            return []
        proven = sum(shown.state is State.PROVEN for shown in node.claims)
        said = [(shown, _of_claim(shown, node)) for shown in node.claims]
        rows = [[shown.state.value, self.text(shown.claim), self.text(words)] for shown, words in said if words]
        return [proven, len(node.claims), rows]

    def speaks(self, record: Record) -> bool:
        return self.with_passes or bool(record.waiver) or record.verdict is not Verdict.PASS

    def result(self, record: Record) -> list[object]:
        found = [finding for finding in record.findings if finding.verdict in _SPEAK]
        if self.with_passes:
            found += [finding for finding in record.findings if finding.verdict is Verdict.PASS]
        shown = found[: min(MOST_PER_RESULT, max(0, self.left))]
        self.left -= len(shown)
        message = record.message
        if len(shown) < len(found):
            message += say(" ({n} findings more in results.jsonl.gz)", n=len(found) - len(shown))
        evidence = [self.text(f"{path}{ENDING}" if path in self.packed else path) for path in record.evidence[:8]]
        waiver = [self.text(phrase(record.waiver))] if record.waiver else []
        findings = [self.finding(finding, record) for finding in shown]
        return [self.column[record.check], self.text(message), findings, evidence, *waiver]

    def finding(self, finding: Finding, record: Record) -> list[object]:
        parts = finding.part.label if not finding.also else ", ".join(part.said for part in finding.parts)
        remark = record.remark if finding.verdict is record.verdict else ""
        seen = "; ".join(text for text in (finding.seen, phrase(finding.note)) if text)
        seen = f"{seen} ({phrase(remark)})" if remark else seen
        source = finding.limit.cited if finding.limit else ""
        texts = (parts, seen, finding.expected, phrase(finding.action), source)
        return [LETTER[finding.verdict], *map(self.text, texts)]

    def cause(self, row: CauseRow, places: Mapping[object, int]) -> list[object]:
        """A row of the causes for the page's filter and the pages of its nodes."""
        texts = [self.text(text) for text in (row.severity, row.part, row.what)]
        return [row.anchor, *texts, [places[visible(name)] for name in row.nodes]]


def _of_claim(shown: Shown, node: NodeReport) -> str:
    """What there is to say of a claim: how much was shown, or why it is not proven and who signs for that."""
    if shown.state is State.PROVEN:
        return in_words(shown.amounts)
    said = why(shown, node.records)
    return say("{why}; signed: {who}", why=said, who=phrase(shown.signed)) if shown.signed else said


def letter(record: Record) -> str:
    """The letter of a result's cell."""
    return WAIVED if record.waiver else LETTER[record.verdict]
