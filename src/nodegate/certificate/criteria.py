"""The criteria of an acceptance: each claim with its clause, and by platform the numbers that prove it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from nodegate.claims.table import claims
from nodegate.metric_names import METRICS, words
from nodegate.records.claim import Claim
from nodegate.records.contract import Criterion
from nodegate.records.finding import AT_MOST
from nodegate.report.claim_rows import ClaimRow, claim_rows
from nodegate.report.model import Report
from nodegate.report.stats import Applied, Measurement

MOST_LIMITS = 3  # of one quantity; of more the first and the last


@dataclass(frozen=True)
class Figures:
    """One quantity on one platform: `of` values, of which `passed` kept every limit that was applied to them.

    `worst` and `median` are over all nodes, `accepted` is the worst of accepted nodes, None where there is none.
    """

    platform: str
    quantity: str
    metric: str
    unit: str
    limits: tuple[Applied, ...]
    worst: float
    worst_at: str
    median: float
    accepted: float | None
    passed: int
    of: int

    @property
    def is_floor(self) -> bool:
        """Whether nothing but a broken part is below its limits: they prove nothing."""
        return bool(self.limits) and not any(each.kind.proves for each in self.limits)


@dataclass(frozen=True)
class CriterionRow:
    """One claim: who asks for it, on how many nodes it is proven, refuted and open, and its numbers."""

    row: ClaimRow
    asked: Criterion
    sort: str
    clause: str
    figures: tuple[Figures, ...]

    @property
    def open(self) -> int:
        """On how many nodes it is not proven."""
        return sum(len(gap.nodes) for gap in self.row.gaps)

    @property
    def nodes(self) -> int:
        """On how many nodes it was made."""
        return len(self.row.proven) + len(self.row.refuted) + self.open


def criteria(report: Report, fleet: Sequence[Measurement]) -> list[CriterionRow]:
    """Every claim of the run, in the order of the table."""
    known = {claim.name: claim for claim in claims()}
    found = []
    for row in claim_rows(report):
        item = report.policy.item(row.claim) if report.policy else None
        asked = report.run.contract.criteria.get(row.claim, Criterion())
        figures = tuple(_figures(known[row.claim], fleet)) if row.claim in known else ()
        sort = item.defect_class.value if item else ""
        clause = item.clause if item and report.policy and report.policy.items else ""  # the default policy agrees none
        found.append(CriterionRow(row, asked, sort, asked.clause or clause, figures))
    return found


def _figures(claim: Claim, fleet: Sequence[Measurement]) -> Iterator[Figures]:
    """What its checks measured: of those that prove by numbers everything, of the others what has a metric."""
    asked = (*claim.numbers, *claim.amounts)
    for each in fleet:
        is_metric = each.metric in METRICS
        if each.check in asked or (is_metric and each.check in claim.proving):
            yield _of(each, words(each.metric) if is_metric else each.quantity)


def _of(each: Measurement, quantity: str) -> Figures:
    is_most = any(limit.direction == AT_MOST for limit in each.limits)
    worst, where = (each.highest, each.highest_at) if is_most else (each.lowest, each.lowest_at)
    accepted = (each.accepted[-1] if is_most else each.accepted[0]) if each.accepted else None
    about = (each.platform, quantity, each.metric, each.unit, each.limits)
    return Figures(*about, worst, where, each.median, accepted, each.passed, len(each.values))
