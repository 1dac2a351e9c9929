"""Lemons: the node and its boards do not fail again and again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from nodegate.api import Verdict, part
from nodegate.past.lemon import FLOOR, WINDOW_DAYS, grounds, to_do

if TYPE_CHECKING:
    from nodegate.api import Fleet, Node, Part, Verdicts

pytestmark = pytest.mark.tier("nightly")


def test_fails_again(fleet: Fleet, node: Node, verdicts: Verdicts) -> None:
    """The node and its boards fail no more often over the last weeks than the others, beyond chance. (F11)

    A fault that a reset clears passes the next night, and costs a job when it comes back: a few nodes of a fleet break
    much of what runs on many. The fleet's record as it was before this run is asked, boards by their serial numbers, so
    that one that was moved here brings its past. It warns; racks and batches are told by nodegate lemons alone.
    """
    past = fleet.past(node.name)
    if past is None:
        verdicts.not_done("no record yet of the weeks before this run")
    if past.days < FLOOR:
        verdicts.not_done(f"the record has {past.days} days of this node, {FLOOR} are needed")
    for slot, lemon in past.again:
        verdicts.found(
            Verdict.WARN,
            part=_part(slot),
            text=f"fails again: {grounds(lemon).en}",
            action=to_do(lemon).en,
            quantity="days with a fault",
            observed=lemon.unit.count,
            code=lemon.unit.what,
        )
    if not past.again and not past.compared:
        verdicts.not_done("not compared: fewer than 3 nodes of its platform")
    if not past.again:
        text = f"does not fail again beyond chance in {WINDOW_DAYS} days, {past.days} of them with a run"
        verdicts.passed(part=part.NODE, text=text)


def _part(slot: str) -> Part:
    kind, _, index = slot.partition(" ")
    if kind == "GPU" and index.isdecimal():
        return part.gpu(int(index))
    return part.nic(slot) if slot else part.NODE
