"""Values of one metric by node and part, as the pictures of racks and rails need them."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from statistics import median

from nodegate.inventory.hostlist import natural
from nodegate.records.part import Kind
from nodegate.records.run import NodeReport
from nodegate.records.verdict import Verdict
from nodegate.report.stats import number

_BAD = frozenset((Verdict.FAIL, Verdict.WARN))


@dataclass(slots=True)
class Values:
    """One metric of one kind of part on one platform: [node][part] -> (whether it passed, value)."""

    platform: str
    quantity: str
    unit: str
    of: dict[str, dict[str, tuple[bool, float]]] = field(default_factory=lambda: defaultdict(dict))

    def __iter__(self) -> Iterator[tuple[float, str, bool]]:
        """Value, node with part, and whether it passed; the lowest first."""
        every = (
            (value, f"{node} {part}", good) for node, own in self.of.items() for part, (good, value) in own.items()
        )
        return iter(sorted(every))

    @property
    def median(self) -> float:
        """Of all parts of all nodes."""
        return median(value for value, _, _ in self)


def values(nodes: Iterable[NodeReport], kind: Kind, wanted: tuple[str, ...]) -> list[Values]:
    """For each platform the first wanted metric that its parts of a kind have.

    Of several values of a part the one that did not pass, else the lowest.
    """
    found: dict[tuple[str, str], Values] = {}
    for node in sorted(nodes, key=lambda node: natural(node.node)):
        for finding in (each for record in node.records for each in record.findings):
            value = number(finding.observed)
            if finding.metric not in wanted or finding.part.kind is not kind or value is None:
                continue
            held = found.setdefault(
                (node.platform, finding.metric), Values(node.platform, finding.quantity, finding.unit)
            )
            own, new = held.of[node.node], (finding.verdict not in _BAD, value)
            own.update((part.short, min(own.get(part.short, new), new)) for part in finding.parts)
    platforms = dict.fromkeys(platform for platform, _ in found)
    return [next(found[platform, each] for each in wanted if (platform, each) in found) for platform in platforms]
