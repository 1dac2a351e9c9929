"""The clocks of one run compared: whose is wrong, the node's or the controller's."""

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median_low

from nodegate.errors import CannotMeasure
from nodegate.facts import NodeFacts
from nodegate.unknown import Unknown


@dataclass(frozen=True)
class ClockSkew:
    """A node's clock minus the controller's, in seconds, and how far from the truth that may be."""

    skew_s: float
    error_s: float


@dataclass(frozen=True)
class CommonSkew:
    """By how much most nodes differ from the controller alike: `count` of `total` nodes."""

    skew_s: float
    count: int
    total: int


def clock_skew(facts: NodeFacts) -> ClockSkew | None:
    """The skew of one node; None where it is not known."""
    try:
        clock = facts.clock
    except CannotMeasure:
        return None
    return None if isinstance(clock.skew_s, Unknown) else ClockSkew(clock.skew_s, clock.skew_error_s)


def common_skew(skews: Mapping[str, ClockSkew], limit_s: float) -> CommonSkew | None:
    """What most clocks of a run say of the controller's; None unless they outvote it.

    More than half of all clocks, the controller's included, agree with each other and, for certain, not with it. So it
    takes two nodes, and one node alone is compared with the controller only.
    """
    if len(skews) < 2:
        return None
    middle = median_low(each.skew_s for each in skews.values())
    agreeing = sum(differs(each, middle) <= limit_s < differs(each, 0.0) for each in skews.values())
    if 2 * agreeing <= len(skews) + 1:
        return None
    return CommonSkew(middle, agreeing, len(skews))


def differs(skew: ClockSkew, other_s: float) -> float:
    """How far a clock is from another one for certain, given its error."""
    return round(max(abs(skew.skew_s - other_s) - skew.error_s, 0.0), 3)
