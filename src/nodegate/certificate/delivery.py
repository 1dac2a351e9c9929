"""Ordered against delivered against accepted, from what `ordered.parts` found; never equal while one is unknown."""

from collections import defaultdict
from dataclasses import dataclass, field

from nodegate.certificate.texts import ITEMS
from nodegate.records.finding import Finding
from nodegate.records.part import Kind
from nodegate.records.run import NodeReport
from nodegate.records.verdict import GOOD, Verdict
from nodegate.report.model import Report, gpu_counts, in_order, worst_first
from nodegate.report.stats import number
from nodegate.subjects.order_items import of_key
from nodegate.words.catalogue import known

CHECK, SERIALS = "ordered.parts", "ordered.serials"
EQUAL, DIFFERS = known("as ordered"), known("differs")
UNKNOWN, NONE = known("not known"), known("nothing ordered")
_OF_A_NODE = frozenset((Kind.NODE, Kind.CPU, Kind.MEMORY))  # what is counted there is added up over nodes


@dataclass
class Line:
    """One item: a sum over nodes, or with `wanted` (what each part must be) how many parts are so.

    `delivered` and `accepted` are over all and over accepted nodes, `of` and `of_accepted` how many parts were looked
    at. `wrong` and `unknown` are the nodes that have something else, or did not say.
    """

    quantity: str
    unit: str = ""
    wanted: str = ""
    ordered: float = 0.0
    delivered: float = 0.0
    accepted: float = 0.0
    of: int = 0
    of_accepted: int = 0
    platforms: set[str] = field(default_factory=set)
    wrong: set[str] = field(default_factory=set)
    unknown: set[str] = field(default_factory=set)
    has_order: bool = True

    @property
    def state(self) -> str:
        """`EQUAL` only where every node said it and none is wrong."""
        if not self.has_order:
            return NONE
        return DIFFERS if self.wrong else UNKNOWN if self.unknown or not self.of else EQUAL

    def add(self, node: NodeReport, finding: Finding) -> None:
        """What one node was found to have."""
        parts, is_right = len(finding.parts), finding.verdict is Verdict.PASS
        told = parts * is_right if self.wanted else number(finding.observed) or 0.0
        if finding.limit and not self.wanted:
            self.ordered += number(finding.limit.value) or 0.0
        self.platforms.add(node.platform)
        self.delivered += told
        self.of += parts
        if node.verdict in GOOD:
            self.accepted += told
            self.of_accepted += parts
        if not is_right:
            self.wrong.add(node.node)


def delivery(report: Report) -> tuple[list[Line], tuple[str, ...]]:
    """Nodes and GPUs as they were seen, then every item that the inventory orders; the nodes that nothing orders."""
    lines: dict[tuple[str, str], Line] = {}
    unknown: dict[str, set[str]] = defaultdict(set)  # item -> nodes that did not say it
    silent, without = set(), set()
    for node in worst_first(report.nodes):
        record = next((each for each in node.records if each.check == CHECK), None)
        if record is not None and record.verdict is Verdict.SKIP:
            without.add(node.node)
            continue
        told = False
        for finding in record.findings if record else ():
            item = of_key(finding.code or finding.quantity)
            if item is not None and finding.verdict in (Verdict.PASS, Verdict.FAIL) and finding.limit:
                is_sum = finding.part.kind in _OF_A_NODE and number(finding.limit.value) is not None
                wanted = "" if is_sum else finding.expected
                new = Line(ITEMS.get(item.key, item.quantity), item.unit, wanted)
                lines.setdefault((item.key, wanted), new).add(node, finding)
                told = True
            elif item is not None:
                unknown[item.key].add(node.node)
                told = True
        if not told:
            silent.add(node.node)
    for key in unknown.keys() - {name for name, _ in lines}:
        item = of_key(key)
        lines[key, ""] = Line(ITEMS.get(key, item.quantity if item else key))
    # Nodes that did not say an item, at what was ordered of their platform; at every order where that is not known.
    platforms = {node.node: node.platform for node in report.nodes}
    for (key, _), line in lines.items():
        others = {each for (name, _), other in lines.items() if name == key for each in other.platforms}
        mine = {
            node for node in unknown.get(key, ()) if platforms[node] in line.platforms or platforms[node] not in others
        }
        line.unknown |= silent | mine
    accepted, gpus = gpu_counts(report)  # which no item of the order says
    good = sum(node.verdict in GOOD for node in report.nodes)
    away = {node.node for node in report.nodes if node.unreachable}
    seen = ((known("nodes"), len(report.nodes) - len(away), good), ("GPUs", gpus, accepted))
    return [
        *(Line(name, delivered=there, accepted=own, unknown=away, has_order=False) for name, there, own in seen),
        *lines.values(),
    ], in_order(without)


def in_no_order(report: Report) -> list[tuple[str, str, str]]:
    """Node, part and serial number of what no order names."""
    return [
        (node.node, finding.part.short, str(finding.observed))
        for node in report.nodes
        for record in node.records
        if record.check == SERIALS
        for finding in record.findings
        if finding.verdict is Verdict.FAIL
    ]
