"""What was measured under load, a value for each node, part and quantity with the limit that it was held to."""

from collections.abc import Iterator
from dataclasses import dataclass

from nodegate.records.finding import AT_MOST, Finding
from nodegate.records.part import Part
from nodegate.records.run import NodeReport
from nodegate.records.verdict import Verdict
from nodegate.report.model import Report
from nodegate.report.stats import number

MOST_PARTS = 50_000  # values of a run: node_exporter serves them at each scrape, 450,000 series in 6 s and 1.4 GB
_BELIEVED = (Verdict.NOT_JUDGED, Verdict.PASS, Verdict.WARN, Verdict.FAIL)  # the best first


@dataclass(frozen=True, slots=True)
class Measured:
    """One value. `quantity` is the key of its limit ("burn.bf16_tflops"); `limit` is None where it has no number."""

    node: str
    part: str
    serial: str
    quantity: str
    unit: str
    value: float
    limit: float | None
    direction: str
    kind: str


def measured(report: Report) -> list[Measured]:
    """A value for each node, part and quantity; of a larger fleet the part nearest to its limit alone.

    Of several values of one part the nearest to its limit counts, of several limits the one that is nearest.
    """
    found = [each for node in report.nodes for each in _of_node(node, by_part=True)]
    if len(found) <= MOST_PARTS:
        return found
    return [each for node in report.nodes for each in _of_node(node, by_part=False)]


def _of_node(node: NodeReport, *, by_part: bool) -> list[Measured]:
    worst: dict[tuple[str, str], tuple[tuple[int, float], Measured]] = {}
    for finding, part, value in _numbers(node):
        limit = number(finding.limit.value) if finding.limit else None
        said = finding.limit if limit is not None else None
        row = Measured(
            *(node.node, part.short, (part.of or part).serial, finding.metric, finding.unit, value, limit),
            *((said.direction, said.kind.value) if said else ("", "")),
        )
        key, rank = (part.short if by_part else "", finding.metric), _rank(finding, row)
        if key not in worst or rank > worst[key][0]:
            worst[key] = rank, row
    return [row for _, row in worst.values()]


def _numbers(node: NodeReport) -> Iterator[tuple[Finding, Part, float]]:
    """A number that cannot be true (an error) is none."""
    for record in node.records:
        for finding in record.findings:
            value = number(finding.observed)
            if finding.metric and value is not None and finding.verdict in _BELIEVED:
                yield from ((finding, part, value) for part in finding.parts)


def _rank(finding: Finding, row: Measured) -> tuple[int, float]:
    """The greater, the nearer to its limit or the further beyond it."""
    near = 0.0
    if row.limit is not None:
        above, below = (row.value, row.limit) if row.direction == AT_MOST else (row.limit, row.value)
        near = above / below if below else float(above > 0)
    return _BELIEVED.index(finding.verdict), near
