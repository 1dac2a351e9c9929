"""The claims of a run over all of its nodes: proven where, refuted where, and why the rest is open."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from nodegate.claims.prove import why
from nodegate.claims.table import titles
from nodegate.records.claim import Shown, State, in_words
from nodegate.records.run import NodeReport
from nodegate.records.verdict import NodeVerdict
from nodegate.report.model import Report, in_order
from nodegate.text import counted, some
from nodegate.words.catalogue import number_of, phrase, say

_DECIDED = (NodeVerdict.REJECTED, NodeVerdict.UNREACHABLE, NodeVerdict.NOT_JUDGED)
_MOST_NAMES = 6


@dataclass(frozen=True)
class Gap:
    """Why a claim is not proven, on which nodes, and who accepts it ("" if no one does)."""

    why: str
    nodes: tuple[str, ...]
    signed: str


@dataclass(frozen=True)
class ClaimRow:
    """One claim over the nodes of the run; `amounts` is how much was shown of it where it is proven."""

    claim: str
    title: str
    proven: tuple[str, ...]
    refuted: tuple[str, ...]
    gaps: tuple[Gap, ...]
    amounts: str


@dataclass(frozen=True)
class OpenClaims:
    """The claims that keep some nodes from being accepted although nothing failed there, and the reasons."""

    nodes: tuple[str, ...]
    claims: tuple[str, ...]
    reasons: tuple[str, ...]
    action: str

    @property
    def said(self) -> str:
        """The claims and the first reason, for one line."""
        more = number_of(" (+{n} reason)", " (+{n} reasons)", len(self.reasons) - 1) if len(self.reasons) > 1 else ""
        return f"{some(self.claims, _MOST_NAMES)}: {self.reasons[0]}{more}"


def claim_rows(report: Report) -> list[ClaimRow]:
    """Every claim of the run in the order of the table."""
    known, made = titles(), dict[str, list[tuple[NodeReport, Shown]]]()
    for node in report.nodes:
        for shown in node.claims:
            made.setdefault(shown.claim, []).append((node, shown))
    order = [name for name in known if name in made] + [name for name in made if name not in known]
    return [_row(name, known.get(name, name), made[name]) for name in order]


def _row(name: str, title: str, of: Sequence[tuple[NodeReport, Shown]]) -> ClaimRow:
    of_state: dict[State, list[str]] = {state: [] for state in State}
    gaps: dict[tuple[str, str], list[str]] = {}
    for node, shown in of:
        of_state[shown.state].append(node.node)
        if shown.state is State.NOT_PROVEN:
            gaps.setdefault((why(shown, node.records), phrase(shown.signed)), []).append(node.node)
    rows = [Gap(said, in_order(nodes), signed) for (said, signed), nodes in gaps.items()]
    return ClaimRow(
        name,
        phrase(title),
        in_order(of_state[State.PROVEN]),
        in_order(of_state[State.REFUTED]),
        tuple(sorted(rows, key=lambda gap: (-len(gap.nodes), gap.why))),
        in_words(each for _, shown in of for each in shown.amounts),
    )


def open_claims(report: Report) -> list[OpenClaims]:
    """What keeps sound nodes from being accepted; those with a cause to work on are told by it."""
    alike: dict[tuple[str, ...], list[NodeReport]] = {}
    for node in report.nodes:
        names = tuple(shown.claim for shown in node.unproven if not shown.signed)
        if names and node.verdict is NodeVerdict.INCOMPLETE and node.is_sound:
            alike.setdefault(names, []).append(node)
    rows = []
    for names, nodes in alike.items():
        left = [(node, shown) for node in nodes for shown in node.unproven if not shown.signed]
        reasons = tuple(said for said, _ in Counter(why(shown, node.records) for node, shown in left).most_common())
        action = say("supply what is missing (see nodegate doctor), or sign for it: nodegate_gaps, --waivers")
        if all(shown.is_ended for _, shown in left):
            action = say("finish it: --resume with this run's folder")
        elif all(shown.left_out for _, shown in left):
            action = say("run the whole profile: without -k, -m, --passive")
        rows.append(OpenClaims(in_order(node.node for node in nodes), names, reasons, action))
    return sorted(rows, key=lambda row: (-len(row.nodes) * len(row.claims), row.claims))


def unproven_count(report: Report) -> str:
    """In words, how many claims are neither proven nor signed for on nodes that did not fail; empty if none is."""
    open_ones = {
        node.node: {each.claim for each in node.unproven if not each.signed}
        for node in report.nodes
        if node.verdict not in _DECIDED
    }
    nodes = [name for name, names in open_ones.items() if names]
    if not nodes:
        return ""
    what, where = counted(len(set().union(*open_ones.values())), "claim"), counted(len(nodes), "node")
    return say("{claims} not proven on {nodes}", claims=what, nodes=where)
