"""Which end of a bad pair is bad: derived from whom else each of the two did well with. Pure.

Both ends of a pair are slow when one is. A part that is slow with everybody is at fault; one that is slow with one
partner only is not: then it is that partner, where it is slow with others too, else what lies between the two.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


class Fault(str, Enum):
    """Where the fault is, as seen from one part (a NIC)."""

    NONE = "none"
    HERE = "here"  # it is bad with everybody, or its only partner is good with others
    PATH = "path"  # it and a partner are good with others, and bad with each other
    PARTNER = "partner"  # it is good with others, its partner is not
    PATH_OR_PARTNER = "path or partner"  # it is good with others; nothing is known of the partner
    EITHER = "either end"  # one partner, and nothing known of that one
    UNPROVEN = "unproven"  # only partners that are bad themselves
    UNTRIED = "untried"


@dataclass(frozen=True)
class Trial:
    """One measurement with a partner. `partner_good`: whether that one is good with others; None where not known."""

    partner: str
    good: bool
    partner_good: bool | None = None


@dataclass(frozen=True)
class FaultLocation:
    """Where the fault is, the partners with whom there was one, and those with whom there was none."""

    fault: Fault
    bad_with: tuple[str, ...] = ()
    good_with: tuple[str, ...] = ()


def locate_fault(trials: Sequence[Trial]) -> FaultLocation:
    """Where the fault is. A partner with whom one of several trials was good is a good one: a disturbance passes."""
    good = tuple(dict.fromkeys(trial.partner for trial in trials if trial.good))
    bad = tuple(dict.fromkeys(trial.partner for trial in trials if not trial.good and trial.partner not in good))
    known = [trial.partner_good for trial in trials if trial.partner in bad]
    if not trials:
        return FaultLocation(Fault.UNTRIED)
    if not bad:
        return FaultLocation(Fault.NONE, good_with=good)
    return FaultLocation(_elsewhere(known) if good else _alone(bad, known), bad, good)


def _elsewhere(known: Sequence[bool | None]) -> Fault:
    """The fault of a part that is good with others."""
    if True in known:
        return Fault.PATH
    return Fault.PATH_OR_PARTNER if None in known else Fault.PARTNER


def _alone(bad: Sequence[str], known: Sequence[bool | None]) -> Fault:
    """The fault of a part that is good with nobody."""
    if True in known:
        return Fault.HERE
    if None not in known:
        return Fault.UNPROVEN
    return Fault.HERE if len(bad) > 1 else Fault.EITHER
