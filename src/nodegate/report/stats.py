"""What the fleet measured: for each metric the lowest, the median and the highest value, and who held them."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from nodegate.finding import Finding
    from nodegate.report.model import NodeReport


@dataclass(frozen=True)
class Measurement:
    """All numeric values of one metric of one check, in its unit. `mad` is the median absolute deviation.

    `lowest_at` and `highest_at` name node and device. `limit` is the one that most findings were held to; None where
    there is no numeric limit. `values` are sorted.
    """

    check: str
    metric: str
    unit: str
    values: tuple[float, ...]
    nodes: int
    median: float
    mad: float
    lowest_at: str
    highest_at: str
    limit: float | None

    @property
    def lowest(self) -> float:
        """The lowest value."""
        return self.values[0]

    @property
    def highest(self) -> float:
        """The highest value."""
        return self.values[-1]


def measurements(nodes: Iterable[NodeReport]) -> list[Measurement]:
    """The statistics of every metric that was measured as a number, by check and metric."""
    found: dict[tuple[str, str, str], list[tuple[float, str, Finding]]] = {}
    for node, check, finding, value in _numbers(nodes):
        found.setdefault((check, finding.metric or finding.quantity, finding.unit), []).append((value, node, finding))
    return [_measurement(*key, found[key]) for key in sorted(found)]


def _numbers(nodes: Iterable[NodeReport]) -> Iterator[tuple[str, str, Finding, float]]:
    for node in nodes:
        for record in node.records:
            for finding in record.findings:
                value = number(finding.observed)
                if (finding.metric or finding.quantity) and value is not None:
                    yield node.node, record.check, finding, value


def number(value: object) -> float | None:
    """The value where it is a finite number (true and false are none), else None."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or abs(value) > 1e300 or math.isnan(value):
        return None
    return float(value)


def _measurement(check: str, metric: str, unit: str, found: list[tuple[float, str, Finding]]) -> Measurement:
    found.sort(key=lambda entry: entry[0])
    values = tuple(value for value, _, _ in found)
    middle = median(values)
    limits = Counter(
        limit for _, _, finding in found if (limit := number(finding.limit and finding.limit.value)) is not None
    )
    return Measurement(
        check=check,
        metric=metric,
        unit=unit,
        values=values,
        nodes=len({node for _, node, _ in found}),
        median=middle,
        mad=median(abs(value - middle) for value in values),
        lowest_at=_place(*found[0]),
        highest_at=_place(*found[-1]),
        limit=limits.most_common(1)[0][0] if limits else None,
    )


def _place(_value: float, node: str, finding: Finding) -> str:
    return f"{node} {finding.part.label}".rstrip()
