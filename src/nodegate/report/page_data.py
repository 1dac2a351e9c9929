"""The data inside report.html: every cell as a letter, every text once, findings as numbers into the texts."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate

from nodegate.claims.prove import why
from nodegate.files.gz import ENDING
from nodegate.records.claim import State, in_words
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

    `nodes` holds per node: `n` name, `v` verdict (into `verdicts`), `c` a letter for each check, in `texts`, `d` the
    results that have something to say, `k` how many claims are proven, of how many, and those with something to say as
    [state, claim, words], `i` identity, `s` the names of its parts and their serials, `u` why out of reach. A result is
    [check, message, [finding], evidence, waiver]; a finding is [letter, part, observed, expected, action, source];
    numbers point into `texts`. `causes` are rows in the page's order: [anchor, severity, part, what, [node]].

    Most nodes are alike: `d`, each of its results, `i` and the names of `s` are numbers into `alike`, and a path of
    evidence does not have the name of its node: "evidence//facts.json".
    """
    return _Page(report, rows, packed).data()


class _Page:
    def __init__(self, report: Report, rows: Sequence[CauseRow], packed: frozenset[str]) -> None:
        self.report = report
        self.rows = rows
        self.packed = packed
        self.texts: dict[str, int] = {}
        self.lists: dict[tuple[object, ...], int] = {}
        self.checks = check_ids(report)
        self.column = {check: index for index, check in enumerate(self.checks)}
        every = (record.findings for node in report.nodes for record in node.records)
        passes = (
            len(own) if kinds(own) == {Verdict.PASS} else sum(each.verdict is Verdict.PASS for each in own)
            for own in every
        )
        self.with_passes = all(so_far <= MOST_PASSES for so_far in accumulate(passes))
        self.left = MOST_FINDINGS
        self.characters = 0

    def data(self) -> dict[str, object]:
        nodes = [self.node(node) for node in worst_first(self.report.nodes)]
        places = {entry["n"]: index for index, entry in enumerate(nodes)}
        return {
            "alike": list(self.lists),
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

    def alike(self, values: Iterable[object]) -> int:
        """The number of a list; equal ones share one."""
        return self.lists.setdefault(tuple(values), len(self.lists))

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
            "c": self.texts.setdefault("".join(cells), len(self.texts)),  # letters of ours: never cut
        }
        speak = (each for each in node.records if self.with_passes or each.waiver or each.verdict is not Verdict.PASS)
        if found := [self.alike(self.result(record)) for record in speak]:
            entry["d"] = self.alike(found)
        if node.claims:
            entry["k"] = self.claims(node)
        if node.identity:
            entry["i"] = self.alike((self.text(term(label)), self.text(value)) for label, value in node.identity)
        if node.serials:
            names = self.alike(self.text(term(part)) for part in node.serials)
            entry["s"] = [names, *map(visible, node.serials.values())]
        if node.unreachable:
            entry["u"] = self.text(phrase(node.unreachable))
        return entry

    def claims(self, node: NodeReport) -> list[object]:
        proven = sum(shown.state is State.PROVEN for shown in node.claims)
        rows = []
        for shown in node.claims:  # how much was shown, or why it is not proven and who signs for that
            said = in_words(shown.amounts) if shown.state is State.PROVEN else why(shown, node.records)
            if shown.state is not State.PROVEN and shown.signed:
                said = say("{why}; signed: {who}", why=said, who=phrase(shown.signed))
            if said:
                rows.append([shown.state.value, self.text(shown.claim), self.text(said)])
        return [proven, len(node.claims), rows]

    def result(self, record: Record) -> tuple[object, ...]:
        found = [finding for finding in record.findings if finding.verdict in _SPEAK]
        if self.with_passes:
            found += [finding for finding in record.findings if finding.verdict is Verdict.PASS]
        shown = found[: min(MOST_PER_RESULT, max(0, self.left))]
        self.left -= len(shown)
        message = record.message
        if len(shown) < len(found):
            message += say(" ({n} findings more in results.jsonl.gz)", n=len(found) - len(shown))
        paths = (f"{path}{ENDING}" if path in self.packed else path for path in record.evidence[:8])
        evidence = tuple(self.text(path.replace(f"evidence/{record.node}/", "evidence//", 1)) for path in paths)
        waiver = [self.text(phrase(record.waiver))] if record.waiver else []
        findings = tuple(self.finding(finding, record) for finding in shown)
        return self.column[record.check], self.text(message), findings, evidence, *waiver

    def finding(self, finding: Finding, record: Record) -> tuple[object, ...]:
        parts = finding.part.label if not finding.also else ", ".join(part.said for part in finding.parts)
        remark = record.remark if finding.verdict is record.verdict else ""
        seen = "; ".join(text for text in (finding.seen, phrase(finding.note)) if text)
        seen = f"{seen} ({phrase(remark)})" if remark else seen
        source = finding.limit.cited if finding.limit else ""
        texts = (parts, seen, finding.expected, phrase(finding.action), source)
        return LETTER[finding.verdict], *map(self.text, texts)

    def cause(self, row: CauseRow, places: Mapping[object, int]) -> list[object]:
        """A row of the causes for the page's filter and the pages of its nodes."""
        texts = [self.text(text) for text in (row.severity, row.part, row.what)]
        return [row.anchor, *texts, [places[visible(name)] for name in row.nodes]]


def letter(record: Record) -> str:
    """The letter of a result's cell."""
    return WAIVED if record.waiver else LETTER[record.verdict]
