"""Bisection: which node of a group makes it fail.

Halves of a bad group run at the same time. A half that succeeds clears its nodes, which then serve as partners for
halves that would be too small for a collective. About 2 log2 N launches find one bad node of N, in log2 N rounds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from nodegate.measure.groups.plan import part

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from nodegate.measure.groups.plan import Group

    Run = Callable[[Sequence[Group]], Sequence[bool]]  # whether each of these succeeded

Nodes = tuple[str, ...]
SPARE_ROUNDS = 4  # for partners that are missing in the first rounds


@dataclass
class Found:
    """What bisection found.

    `blamed` are bad with a partner that is well. `cleared` ended well in a smaller group. `together` are sets whose
    halves end well and which do not as a whole: no single node explains that. `undecided` are the sets for which there
    was no partner, or no time.
    """

    blamed: list[str] = field(default_factory=list)
    cleared: set[str] = field(default_factory=set)
    together: list[Nodes] = field(default_factory=list)
    undecided: list[Nodes] = field(default_factory=list)


def rounds_for(count: int) -> int:
    """How many rounds a bisection of this many nodes may take."""
    return math.ceil(math.log2(max(count, 2))) + SPARE_ROUNDS


def bisect(bad: Sequence[Nodes], good: Sequence[str], run: Run, *, may_go_on: Callable[[], bool]) -> Found:
    """Halve the bad sets until each bad node is alone with a good one.

    Args:
        bad: disjoint sets of nodes, each of which failed.
        good: nodes outside of them that are known to be good.
        run: runs groups that share no node at the same time.
        may_go_on: whether there is time for another round.
    """
    found, partners = Found(), list(good)
    todo = [tuple(each) for each in bad]
    left = rounds_for(max(map(len, todo), default=0))
    while todo and left > 0 and may_go_on():
        left -= 1
        plan, waiting = _plan(todo, partners)
        if not plan:
            break
        groups = [group for _, parts in plan for group in parts]
        well = dict(zip(groups, run(groups), strict=True))
        todo = waiting
        for whole, parts in plan:
            todo += _learn(whole, parts, well, found)
        partners += [name for name in sorted(found.cleared) if name not in partners]
    known = found.cleared.union(found.blamed)
    sets = dict.fromkeys(tuple(sorted(each)) for each in [*found.undecided, *todo])
    found.undecided = [each for each in sets if not known.issuperset(each)]
    return found


Plan = list[tuple[Nodes, list["Group"]]]


def _plan(todo: Sequence[Nodes], partners: Sequence[str]) -> tuple[Plan, list[Nodes]]:
    """The parts of each set, and the sets that must wait for partners: no node may be in two parts."""
    suspects = {name for each in todo for name in each}
    free = [name for name in partners if name not in suspects]
    plan: Plan = []
    waiting: list[Nodes] = []
    for whole in todo:
        halves = _halves(whole)
        needed = sum(len(half) == 1 for half in halves)
        if needed <= len(free):
            parts = [part(half, [free.pop(0)] if len(half) == 1 else ()) for half in halves]
        elif len(whole) == 3:
            parts = [part(whole[:2])]  # no node is known to be good: one pair after the other
        else:
            waiting.append(whole)
            continue
        plan.append((whole, parts))
    return plan, waiting


def _halves(whole: Nodes) -> tuple[Nodes, ...]:
    middle = len(whole) // 2
    return (whole[:middle], whole[middle:]) if middle else (whole,)


def _learn(whole: Nodes, parts: Sequence[Group], well: dict[Group, bool], found: Found) -> list[Nodes]:
    """The result of a round for a set; the sets that are left of it."""
    sets = {group: tuple(name for name in group.nodes if name not in group.good) for group in parts}
    bad = [sets[group] for group in parts if not well[group]]
    found.cleared.update(name for group in parts if well[group] for name in sets[group])
    untried = tuple(name for name in whole if not any(name in each for each in sets.values()))
    if untried:  # one pair of three
        if not bad:
            return [untried]
        one, other = bad[0]
        return [] if _seen_all_pairs(whole, found) else [(other, *untried, one)]
    if not bad and len(whole) > 1:
        found.together.append(whole)
    found.blamed += [each[0] for each in bad if len(each) == 1]
    return [each for each in bad if len(each) > 1]


def _seen_all_pairs(whole: Nodes, found: Found) -> bool:
    """Three nodes take turns; if each pair was tried and none succeeded, no more can be said."""
    times = sum(set(each) == set(whole) for each in found.undecided)
    if times < 2:
        found.undecided.append(whole)
        return False
    return True
