"""A policy: for each claim its class of defect, its clause, and how much of the fleet may fail it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from fnmatch import fnmatchcase
from functools import cache

from nodegate.baseline.baseline import Baseline
from nodegate.claims.table import claims
from nodegate.metric import Statistic
from nodegate.records.claim import Claim

MOST_DAYS = 1_000_000
DEFAULT = "default"
OTHER = "other"  # every check that belongs to no claim
PLATFORM = "platform"  # that a node is of a platform that the policy is for
NOT_ASKED = "no policy or baseline of this node requires it (nodegate explain policies)"


class DefectClass(str, Enum):
    """What a claim that does not hold means for the acceptance."""

    A = "A"  # it blocks
    B = "B"  # it is put right by a date
    C = "C"  # it is remarked

    @property
    def meaning(self) -> str:
        """In words."""
        return _MEANINGS[self]


_MEANINGS = {DefectClass.A: "blocks", DefectClass.B: "to be fixed by a given date", DefectClass.C: "a remark"}


@dataclass(frozen=True, slots=True)
class ClassRule:
    """What a policy says of one class of defect.

    Args:
        clause: where it is agreed.
        may_fail_percent: the share of the nodes that may have a defect of this class.
        days: within how many days it is put right; 0 where nothing is said.
    """

    clause: str
    may_fail_percent: float = 0.0
    days: int = 0

    def __post_init__(self) -> None:
        """Refuse what no calendar or share has. Raises ValueError."""
        if not (0 <= self.days <= MOST_DAYS and self.may_fail_percent >= 0):
            raise ValueError(f"{self.days} days, {self.may_fail_percent} %")


@dataclass(frozen=True, slots=True)
class Item:
    """What a policy says of one claim.

    Args:
        claim: its name, or that of what nodegate does not measure.
        defect_class: the class of its defects.
        clause: where it is agreed.
        statistic: which of several attempts at a number is held to its limit.
        may_fail_percent: the share of the nodes on which it may not hold; None: as its class says.
        title: of what nodegate does not measure, what that is; empty for a claim.
    """

    claim: str
    defect_class: DefectClass
    clause: str
    statistic: Statistic = Statistic.USUAL
    may_fail_percent: float | None = None
    title: str = ""

    @property
    def is_measured(self) -> bool:
        """Whether nodegate can say anything of it."""
        return not self.title


@dataclass(frozen=True, slots=True)
class Policy:
    """What must hold for an acceptance. A claim that it does not name is of class A.

    Args:
        name: "strict-h100".
        title: what it is, for the report.
        source: which document it stands for.
        sha256: of its file.
        classes: what it says of each class that it uses; of class A always.
        items: the claims that it names.
        platforms: patterns of the platforms that it is for.
    """

    name: str
    title: str
    source: str
    sha256: str
    classes: Mapping[DefectClass, ClassRule]
    items: Mapping[str, Item] = field(default_factory=dict)
    platforms: tuple[str, ...] = ("*",)

    def is_for(self, platform: str) -> bool:
        """Whether it says what is right for nodes of a platform."""
        return any(fnmatchcase(platform, pattern) for pattern in self.platforms)

    def item(self, claim: str) -> Item:
        """What it says of a claim."""
        return self.items.get(claim) or Item(claim, DefectClass.A, self.classes[DefectClass.A].clause)

    def statistic_of(self, check: str) -> Statistic | None:
        """Which of several looks counts in a check: the strictest that a claim on its numbers asks for, if one does."""
        asked = {self.item(claim).statistic for claim in _on_numbers_of(check)} - {Statistic.USUAL}
        return max(asked, key=list(Statistic).index, default=None)

    @property
    def not_measured(self) -> tuple[Item, ...]:
        """What it asks for and nodegate does not measure: open, always."""
        return tuple(item for item in self.items.values() if not item.is_measured)


@cache
def _on_numbers_of(check: str) -> tuple[str, ...]:
    """The claims that a check proves by its numbers."""
    return tuple(claim.name for claim in claims() if check in claim.numbers)


def is_asked_for(check: str, policy: Policy | None, baseline: Callable[[], Baseline]) -> bool:
    """Whether a check is to be judged on a node: one that only contracts ask for, where one of them does."""
    proven = _by_contract(check)
    return not proven or not by_contract(policy, baseline()).isdisjoint(proven)


def by_contract(policy: Policy | None, baseline: Baseline | None) -> frozenset[str]:
    """The claims that only contracts ask for, and that a policy or a limit of a node does ask for."""
    named = policy.items if policy else {}
    asked = (claim for claim in claims() if claim.asked_by)
    return frozenset(claim.name for claim in asked if claim.name in named or _has(baseline, claim))


def _has(baseline: Baseline | None, claim: Claim) -> bool:
    return baseline is not None and any(baseline.find(key) is not None for key in claim.asked_by)


@cache
def _by_contract(check: str) -> frozenset[str]:
    """The claims that a check proves, where only contracts ask for all of them."""
    proven = [claim for claim in claims() if check in claim.proving]
    return frozenset(claim.name for claim in proven if all(each.asked_by for each in proven))
