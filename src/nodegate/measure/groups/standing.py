"""What the launches of a node say of it: whose fault a bad one is, and whether more launches can change that."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from nodegate.errors import CannotMeasure
from nodegate.measure.groups.plan import PAIR, PART
from nodegate.measure.groups.result import parse

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nodegate.measure.groups.result import GroupRun, NcclGroups
    from nodegate.records.program_run import Attempt

Whose = Literal["here", "either", "other", "path", "open"]


def whose(groups: NcclGroups, run: GroupRun) -> Whose:
    """Whose fault a bad launch is: this node's, one of two, another one's that is named, a path's, or not known."""
    if groups.node in run.notes.blamed or (run.partners_well and (run.plan.kind != PART or groups.is_blamed)):
        return "here"
    if run.notes.concerned:
        return "path"
    if groups.excuses(run):
        return "other"
    return "either" if run.plan.count == 2 and not run.notes.searched and not run.notes.blamed else "open"


def is_sick(run: GroupRun) -> bool:
    """Whether a launch hung, failed or brought wrong data: what a machine does, not a launcher."""
    return run.ending in {"hung", "faulty"} or (run.ending == "whole" and not run.is_well)


def is_settled(attempts: Sequence[Attempt]) -> bool:
    """Whether a node is at fault, or may be, in a collective that hangs or is wrong.

    It is not launched again, which costs a time limit each time; and others are not judged by it.
    """
    try:
        groups = parse(attempts)
    except CannotMeasure:  # nothing was launched
        return False
    good_in = {run.what for run in groups.runs if run.is_well and run.plan.kind in {PAIR, PART}}
    return any(
        whose(groups, run) == "here" or (run.plan.kind == PAIR and run.what not in good_in)
        for run in groups.runs
        if is_sick(run)
    )


def lost(groups: NcclGroups) -> GroupRun | None:
    """The last launch of a node that cannot be launched any more, also not with others that can; None if it can."""
    last = groups.runs[-1] if groups.runs else None
    return last if last and last.ending == "refused" and whose(groups, last) == "here" else None
