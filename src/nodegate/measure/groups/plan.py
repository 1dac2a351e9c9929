"""Which nodes are launched together: pairs of neighbours, racks, the whole fleet; and the bisection of bad ones.

Halves of a bad group run at the same time. A half that succeeds clears its nodes, which then serve as partners for
halves that would be too small for a collective. About 2 log2 N launches find one bad node of N, in log2 N rounds.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

# part: of a group that failed.
Kind = Literal["pair", "rack", "fleet", "part"]
PAIR, PART = "pair", "part"
_WITHOUT = " without "


@dataclass(frozen=True)
class Group:
    """Nodes that are launched together. `good` are those of them that are known to be good: partners for the others."""

    kind: Kind
    name: str
    nodes: tuple[str, ...]
    good: frozenset[str] = frozenset()


def pairs(names: Sequence[str]) -> tuple[Group, ...]:
    """Each node with its neighbour; the odd one with the last one, which has one already."""
    found = [*zip(names[::2], names[1::2], strict=False)]
    if len(names) % 2 and len(names) > 1:
        found.append((names[-2], names[-1]))
    return tuple(pair(one, other) for one, other in found)


def pairs_by_rack(names: Sequence[str], rack_of: Mapping[str, str]) -> tuple[Group, ...]:
    """Pairs inside each rack, for no other node is as near; nodes that are alone in theirs with each other."""
    inside: defaultdict[str, list[str]] = defaultdict(list)
    for name in names:
        inside[rack_of[name]].append(name)
    alone = [nodes[0] for nodes in inside.values() if len(nodes) == 1]
    if len(alone) == 1:  # with a node of another rack, which has its own pair
        alone = [*next(([nodes[0]] for nodes in inside.values() if len(nodes) > 1), []), *alone]
    return (*(each for nodes in inside.values() for each in pairs(nodes)), *pairs(alone))


def pair(one: str, other: str, good: Iterable[str] = ()) -> Group:
    """Two nodes."""
    return Group("pair", f"pair {one}+{other}", (one, other), frozenset(good))


def racks(names: Sequence[str], rack_of: Mapping[str, str]) -> tuple[Group, ...]:
    """The racks of three nodes or more that are not the whole fleet: for two nodes the pair is the same."""
    found: defaultdict[str, list[str]] = defaultdict(list)
    for name in names:
        found[rack_of[name]].append(name)
    return tuple(
        Group("rack", f"rack {rack}", tuple(nodes))
        for rack, nodes in found.items()
        if rack and 2 < len(nodes) < len(names)
    )


def fleet(names: Sequence[str]) -> tuple[Group, ...]:
    """All of them, if they are more than a pair."""
    return (Group("fleet", "fleet", tuple(names)),) if len(names) > 2 else ()


def without(group: Group, bad: Sequence[str]) -> tuple[Group, ...]:
    """A rack or a fleet again without its bad nodes, if there are some and enough others."""
    rest = tuple(name for name in group.nodes if name not in bad)
    if len(rest) == len(group.nodes) or len(rest) < 2:
        return ()
    return (Group(group.kind, f"{group.name}{_WITHOUT}{len(group.nodes) - len(rest)} bad", rest),)


def whole_of(name: str) -> str:
    """The name of the rack or fleet if this is its launch without some nodes; else its own name."""
    return name.partition(_WITHOUT)[0]


def part(nodes: Sequence[str], good: Iterable[str] = ()) -> Group:
    """Some nodes of a group that failed, with good partners."""
    partners = tuple(good)
    shown = "+".join(nodes) if len(nodes) < 3 else f"{nodes[0]}..{nodes[-1]} ({len(nodes)} nodes)"
    name = f"part {shown}" + (f" with {'+'.join(partners)}" if partners else "")
    return Group("part", name, (*nodes, *partners), frozenset(partners))


def waves(groups: Iterable[Group]) -> list[list[Group]]:
    """The groups in few rounds, so that no node is in two launches at once."""
    found: list[tuple[set[str], list[Group]]] = []
    for group in groups:
        place = next((each for each in found if each[0].isdisjoint(group.nodes)), None)
        if place is None:
            place = (set(), [])
            found.append(place)
        place[0].update(group.nodes)
        place[1].append(group)
    return [each for _, each in found]


Run = Callable[[Sequence[Group]], Sequence[bool]]  # whether each of these succeeded
Nodes = tuple[str, ...]
SPARE_ROUNDS = 4  # for partners that are missing in the first rounds


@dataclass(frozen=True)
class Ties:
    """What else is known of nodes: their racks, and with whom each of them has failed already.

    A node is blamed that fails with another partner too; one of its own rack shows no uplink.
    """

    rack_of: Mapping[str, str] = field(default_factory=dict)
    failed_with: Mapping[str, Collection[str]] = field(default_factory=dict)

    def halves(self, whole: Nodes) -> tuple[Nodes, ...]:
        """Two parts, between racks if there are several; one if it is one node."""
        borders = [at for at in range(1, len(whole)) if self.rack(whole[at]) != self.rack(whole[at - 1])]
        middle = min(borders, key=lambda at: abs(2 * at - len(whole)), default=len(whole) // 2)
        return (whole[:middle], whole[middle:]) if middle else (whole,)

    def rack(self, name: str) -> str:
        """The rack of a node; empty where the inventory names none."""
        return self.rack_of.get(name, "")

    def after(self, failed: Mapping[str, str]) -> Ties:
        """The same, with one more partner for some nodes with whom they failed."""
        more = {name: {partner, *self.failed_with.get(name, ())} for name, partner in failed.items()}
        return Ties(self.rack_of, {**self.failed_with, **more})

    def partner(self, name: str, free: Sequence[str]) -> str | None:
        """A partner with which it did not fail yet, of its own rack if there is one."""
        others = [each for each in free if each not in self.failed_with.get(name, ())]
        return next((each for each in others if self.rack(each) == self.rack(name)), others[0] if others else None)


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
    return 2 * math.ceil(math.log2(max(count, 2))) + SPARE_ROUNDS


def bisect(
    bad: Sequence[Nodes], good: Sequence[str], run: Run, *, may_go_on: Callable[[], bool], ties: Ties = Ties()
) -> Found:
    """Halve the bad sets until each bad node is alone with a good one.

    `bad` are disjoint sets of nodes, each of which failed, `good` nodes outside of them that are known to be good;
    `run` runs groups that share no node at the same time, `may_go_on` says whether there is time for another round.
    """
    found, partners = Found(), list(good)
    todo = [tuple(each) for each in bad]
    doubted: dict[str, str] = {}
    left = rounds_for(max(map(len, todo), default=0))
    while todo and left > 0 and may_go_on():
        left -= 1
        plan, waiting = _plan(todo, partners, ties)
        if not plan:
            break
        groups = [group for _, parts in plan for group in parts]
        well = dict(zip(groups, run(groups), strict=True))
        todo = waiting
        for whole, parts in plan:
            todo += _learn(whole, parts, well, found)
        again = _once_more([group for group in groups if group.good], well, found, doubted)
        todo += again
        ties = ties.after({name: doubted[name] for (name,) in again})
        partners += [name for name in sorted(found.cleared) if name not in partners]
    known = found.cleared.union(found.blamed)
    sets = dict.fromkeys(tuple(sorted(each)) for each in [*found.undecided, *todo])
    found.undecided = [each for each in sets if not known.issuperset(each)]
    return found


Plan = list[tuple[Nodes, list["Group"]]]


def _plan(todo: Sequence[Nodes], partners: Sequence[str], ties: Ties) -> tuple[Plan, list[Nodes]]:
    """The parts of each set, and the sets that must wait for partners: no node may be in two parts."""
    suspects = {name for each in todo for name in each}
    free = [name for name in partners if name not in suspects]
    plan: Plan = []
    waiting: list[Nodes] = []
    for whole in todo:
        parts = _with_partners(ties.halves(whole), free, ties)
        if parts is None and len(whole) == 3:
            parts = [part(whole[:2])]  # no node is known to be good: one pair after the other
        if parts is None:
            waiting.append(whole)
            continue
        gone = {name for group in parts for name in group.good}
        free = [name for name in free if name not in gone]
        plan.append((whole, parts))
    return plan, waiting


def _with_partners(halves: Sequence[Nodes], free: Sequence[str], ties: Ties) -> list[Group] | None:
    """The parts, a single node with a partner; None if one is missing."""
    parts: list[Group] = []
    for half in halves:
        left = [name for name in free if not any(name in each.good for each in parts)]
        partner = ties.partner(half[0], left) if len(half) == 1 else ""
        if partner is None:
            return None
        parts.append(part(half, [partner] if partner else ()))
    return parts


def _once_more(
    alone: Sequence[Group], well: Mapping[Group, bool], found: Found, doubted: dict[str, str]
) -> list[Nodes]:
    """Single nodes that failed with one that was cleared in the search: it may be the path between the two.

    Who fails with a second one is to blame. Who does not is bad only together with the first one. `doubted` are those
    who wait for their second partner, with the first one.
    """
    again: list[Nodes] = []
    for group in alone:
        name, partner = group.nodes
        if well[group] and name in doubted:
            found.together.append((name, doubted[name]))
        elif not well[group] and partner in found.cleared and name not in doubted:
            found.blamed.remove(name)
            doubted[name] = partner
            again.append((name,))
    return again


def _learn(whole: Nodes, parts: Sequence[Group], well: Mapping[Group, bool], found: Found) -> list[Nodes]:
    """The result of a round for a set; the sets that are left of it."""
    sets = {group: tuple(name for name in group.nodes if name not in group.good) for group in parts}
    bad = [sets[group] for group in parts if not well[group]]
    found.cleared.update(name for group in parts if well[group] for name in sets[group])
    untried = tuple(name for name in whole if not any(name in each for each in sets.values()))
    if untried:  # one pair of three
        if not bad:
            return [untried]
        if sum(set(each) == set(whole) for each in found.undecided) >= 2:
            return []  # each pair of the three was tried, and none succeeded: no more can be said
        found.undecided.append(whole)
        one, other = bad[0]
        return [(other, *untried, one)]
    if not bad and len(whole) > 1:
        found.together.append(whole)
    found.blamed += [each[0] for each in bad if len(each) == 1]
    return [each for each in bad if len(each) > 1]
