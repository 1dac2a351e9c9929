"""Which end of a bad pair is bad: derived from the other partners with whom each of the two was good. Pure.

Both ends of a pair are slow when one is. A part that is slow with all partners is at fault; one that is slow with only
one partner is not: then it is that partner, if it is slow with others too, else the path between the two.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum


class Fault(str, Enum):
    """Where the fault is, as seen from one part (a NIC)."""

    NONE = "none"
    HERE = "here"  # it is bad with all partners, or its only partner is good with others
    PATH = "path"  # both are good with others, and bad with each other
    PARTNER = "partner"  # it is good with others, its partner is not
    PATH_OR_PARTNER = "path or partner"  # it is good with others; the partner is unknown
    EITHER = "either end"  # one partner, which is unknown
    UNPROVEN = "unproven"  # only partners that are themselves bad
    UNTRIED = "untried"


@dataclass(frozen=True)
class Trial:
    """One measurement with a partner. `partner_good`: whether the partner is good with others; None if unknown."""

    partner: str
    good: bool
    partner_good: bool | None = None


@dataclass(frozen=True)
class FaultLocation:
    """Where the fault is, the partners with which there was one, and those with which there was none."""

    fault: Fault
    bad_with: tuple[str, ...] = ()
    good_with: tuple[str, ...] = ()


def locate_fault(trials: Sequence[Trial]) -> FaultLocation:
    """Where the fault is. A partner with which one of several trials was good is a good one: a disturbance passes."""
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
    """The fault of a part that is good with no partner."""
    if True in known:
        return Fault.HERE
    if None not in known:
        return Fault.UNPROVEN
    return Fault.HERE if len(bad) > 1 else Fault.EITHER
