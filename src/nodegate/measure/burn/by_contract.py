"""Findings of the burn that only some contracts ask for: what limits a clock, and how warm one GPU is of many."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING

from nodegate.measure.burn.under_load import COOLING, HEAT, NORMAL, POWER, reasons_of, shares
from nodegate.unknown import Known, Unknown

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from nodegate.measure.burn.document import GpuLoad
    from nodegate.records.finding import NumberLimit
    from nodegate.verdicts import Verdicts

_AGREE = "the GPU is fine: raise the limit that holds it back, or agree on it (contract.event_reasons_allowed)"


def limited(loads: Sequence[GpuLoad], allowed: Collection[str], most: NumberLimit, verdicts: Verdicts) -> None:
    """The longest time that one reason without permission limited the clock of a GPU."""
    reasons = {name: share for name, share in reasons_of(loads).items() if name not in allowed}
    longest = max(reasons, key=lambda name: reasons[name], default="")
    verdicts.at_most(
        part=loads[0].part,
        quantity="time with the clock limited",
        observed=round(100 * reasons.get(longest, 0.0), 2),
        limit=most,
        action=COOLING if longest in HEAT else _AGREE if longest in NORMAL else POWER,
        note=f"by {shares(reasons, reasons)}",
        code=longest.replace("_", " "),
    )


def middle_of(loads: Sequence[GpuLoad], quantity: str) -> Known[float]:
    """The median of a quantity under settled load, over the burns in which it is known."""
    found = [load.middle(quantity) for load in loads]
    known = [each for each in found if not isinstance(each, Unknown)]
    return median(known) if known else found[0]
