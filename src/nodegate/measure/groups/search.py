"""The search in launches that were bad: bisection, then the boundary of what is bad only together, and its wording."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from nodegate.measure.groups.plan import Group, Nodes, Run, Ties, bisect, part
from nodegate.text import some

# node: it alone. uplinks: of a rack, or of some. path: between two sets, each well with others. many: it needs so many
# nodes to fail, whichever they are. once: it succeeded when launched again. open: no time was left.
Kind = Literal["node", "uplinks", "path", "many", "once", "open"]
_MOST_NAMED = 8


@dataclass(frozen=True)
class Boundary:
    """What makes a set fail: `one`, or the path between `one` and `other`. Both are empty where neither is known."""

    kind: Kind
    one: Nodes = ()
    other: Nodes = ()

    @property
    def named(self) -> Nodes:
        """All nodes that are concerned."""
        return (*self.one, *self.other)


class Boundaries:
    """The search in a set that fails while both of its halves succeed: between which nodes, and who is to blame.

    A part of the one half with a part of the other: four of them, two at the same time. The one that fails is parted
    again, until two nodes, two racks or two parts of the fabric are left. Each of the two is then launched with others,
    of other racks: who fails with them too is to blame, a single node or the uplinks of a rack; if neither does, it is
    the path between them. Where all four succeed, it takes many nodes: nodes are taken out of the launch, until it
    succeeds. `everybody` are all nodes of the launches, for the others of a rack.
    """

    def __init__(self, run: Run, ties: Ties, everybody: Sequence[str], may_go_on: Callable[[], bool]) -> None:
        self._run, self._ties, self._everybody, self._may_go_on = run, ties, everybody, may_go_on

    def of(self, whole: Nodes, good: Sequence[str]) -> list[Boundary]:
        """Why it fails as a whole; two of them where both sides are to blame by themselves."""
        one, other = self._ties.halves(whole)
        while self._may_go_on():
            bad, tried = self._mixed(one, other)
            if not bad:
                return [self._of_many((*one, *other))]
            if tried == len(bad):
                return self._confirmed(one, other, [name for name in good if name not in one + other])
            one, other = bad[0]
        return [Boundary("open")]

    def _mixed(self, one: Nodes, other: Nodes) -> tuple[list[tuple[Nodes, Nodes]], int]:
        """Which parts of the one fail with which of the other, and how many were tried.

        Where one of two fails, the rest is not tried: what else is bad shows when they are launched without it.
        """
        ones, others = self._ties.halves(one), self._ties.halves(other)
        if len(ones) == len(others) == 1:
            return [(one, other)], 1
        first = list(zip(ones, others, strict=False))
        bad = self._failing(first)
        if len(first) == 2 and len(bad) == 1:
            return bad, 4
        second = [(left, right) for left in ones for right in others if (left, right) not in first]
        return bad + self._failing(second), len(first) + len(second)

    def _failing(self, mixed: Sequence[tuple[Nodes, Nodes]]) -> list[tuple[Nodes, Nodes]]:
        done = self._run([part((*one, *other)) for one, other in mixed])
        return [each for each, well in zip(mixed, done, strict=True) if not well]

    def _fails(self, nodes: Sequence[str]) -> bool:
        return not self._run([part(tuple(nodes))])[0]

    # Who of two sides is to blame

    def _confirmed(self, one: Nodes, other: Nodes, good: Sequence[str]) -> list[Boundary]:
        """Each side with others: of a third rack, else of its own, for the way to the other side is in doubt."""
        avoided = {self._ties.rack(name) for name in (*one, *other)}
        with_one = self._others(one, good, avoided, len(other))
        with_other = self._others(other, [name for name in good if name not in with_one], avoided, len(one))
        if not with_one or not with_other:
            return [Boundary("path", one, other)]
        tried = ((one, with_one), (other, with_other))
        done = self._run([part((*side, *partners)) for side, partners in tried])
        blamed = [self._alone_or_rack(*each, good) for each, well in zip(tried, done, strict=True) if not well]
        return blamed or [self._path(one, other, good)]

    def _others(self, side: Nodes, good: Sequence[str], avoided: set[str], count: int) -> Nodes:
        """Representatives of other racks, one of each before a second one of any."""
        far = [name for name in good if self._ties.rack(name) not in avoided]
        near = [name for name in good if self._ties.rack(name) == self._ties.rack(side[0])]
        racks = [self._ties.rack(name) for name in far]
        turn = {name: racks[:place].count(racks[place]) for place, name in enumerate(far)}
        return tuple((sorted(far, key=turn.__getitem__) or near)[:count])

    def _alone_or_rack(self, side: Nodes, partners: Nodes, good: Sequence[str]) -> Boundary:
        """Whether another node of its rack fails with the same partners too: then it is what they share."""
        rack = self._ties.rack(side[0])
        if len(side) > 1:
            return Boundary("uplinks", side)
        mate = next((name for name in good if self._ties.rack(name) == rack and name not in partners), "")
        away = all(self._ties.rack(name) != rack for name in partners)
        if rack and mate and away and self._fails((mate, *partners)):
            return Boundary("uplinks", self._rack(rack))
        return Boundary("node", side)

    def _path(self, one: Nodes, other: Nodes, good: Sequence[str]) -> Boundary:
        """Whether two other nodes of the same racks fail together too: then it is the way between the racks."""
        here, there = self._ties.rack(one[0]), self._ties.rack(other[0])
        if len(one) == len(other) == 1 and here and there and here != there:
            mates = [next((name for name in good if self._ties.rack(name) == rack), "") for rack in (here, there)]
            if all(mates) and self._fails(mates):
                return Boundary("path", self._rack(here), self._rack(there))
        return Boundary("path", one, other)

    def _rack(self, rack: str) -> Nodes:
        return tuple(name for name in self._everybody if self._ties.rack(name) == rack)

    # What takes many nodes

    def _of_many(self, whole: Nodes) -> Boundary:
        """Which nodes need only be taken out: one, or a rack, without which it succeeds, and others do not help."""
        if not self._fails(whole):
            return Boundary("once")
        smallest = min((self._shrunk(whole, side) for side in self._ties.halves(whole)), key=len)
        racks = {self._ties.rack(name) for name in smallest}
        if len(smallest) > 1 and (len(racks) > 1 or len(smallest) * 2 >= len(whole)):
            return Boundary("many", whole)
        instead = [name for name in whole if name not in smallest][: len(smallest)]
        if not self._may_go_on() or not self._fails([name for name in whole if name not in instead]):
            return Boundary("many", whole)
        return Boundary("node" if len(smallest) == 1 else "uplinks", smallest)

    def _shrunk(self, whole: Nodes, out: Nodes) -> Nodes:
        """The smallest part of a half without which the rest still succeeds, as it does without all of the half."""
        while len(out) > 1 and self._may_go_on():
            halves = self._ties.halves(out)
            smaller = next((half for half in halves if not self._fails([n for n in whole if n not in half])), out)
            if smaller == out:
                break
            out = smaller
        return out


@dataclass
class Result:
    """What a search found. `together` are sets that are bad only together, each with what makes them so."""

    blamed: list[str] = field(default_factory=list)
    cleared: set[str] = field(default_factory=set)
    together: list[tuple[Nodes, Boundary]] = field(default_factory=list)
    undecided: list[Nodes] = field(default_factory=list)

    @property
    def named(self) -> tuple[str, ...]:
        """Every node that is to blame, or on one side of a path that is."""
        sets = [name for _, boundary in self.together if boundary.kind != "many" for name in boundary.named]
        return tuple(dict.fromkeys([*self.blamed, *sets]))

    def add(self, other: Result) -> None:
        """Take in what another search found."""
        self.blamed += [name for name in other.blamed if name not in self.blamed]
        self.cleared |= other.cleared
        self.together += other.together
        self.undecided += other.undecided

    def concerned(self, group: Group) -> frozenset[str]:
        """The nodes of a launch that are on one side of a bad path, or behind bad uplinks."""
        return frozenset(name for each in self._of(group) for name in each.named).intersection(group.nodes)

    def said(self, group: Group, ties: Ties, word: str) -> str:
        """What is said of a launch, beside the nodes that are blamed. `word`: what it was, "fail" or "are slow"."""
        boundaries = [each for each in self._of(group) if each.kind != "node"]
        if boundaries:
            return "; ".join(dict.fromkeys(_words(each, ties, word) for each in boundaries))
        named = next((some(each, _MOST_NAMED) for each in self.undecided if set(each) <= set(group.nodes)), "")
        return f"it is one of {named}: no time, or no good node, was left to tell which" if named else ""

    def _of(self, group: Group) -> list[Boundary]:
        return [boundary for whole, boundary in self.together if set(whole) <= set(group.nodes)]


def search(
    sets: Sequence[Nodes],
    good: Sequence[str],
    run: Run,
    *,
    ties: Ties,
    everybody: Sequence[str],
    may_go_on: Callable[[], bool],
) -> Result:
    """Halve disjoint sets until the bad nodes are found, and narrow those whose halves end well."""
    found = bisect(sets, good, run, may_go_on=may_go_on, ties=ties)
    result = Result(found.blamed, found.cleared, [], found.undecided)
    boundaries = Boundaries(run, ties, everybody, may_go_on)
    for whole in found.together:
        doubted = {name for each in found.together if each != whole for name in each}.union(found.blamed)
        known = found.cleared.union(good) - doubted
        for boundary in boundaries.of(whole, [name for name in everybody if name in known]):
            result.together.append((whole, boundary))
            result.blamed += boundary.one if boundary.kind == "node" else ()
    return result


def _words(found: Boundary, ties: Ties, word: str) -> str:
    one, other = _set_words(found.one, ties), _set_words(found.other, ties)
    if found.kind == "uplinks":
        what = "its uplinks, or its switch," if len(_racks(found.one, ties)) == 1 else "what they share"
        return f"{one}: well by itself, and with others they {word}: {what} must be bad"
    if found.kind == "path":
        return f"{one} and {other} {word} together, and each is good with others: the path between them is bad"
    if found.kind == "once":
        return "it succeeded when launched again"
    if found.kind == "many":
        return f"{some(found.one, _MOST_NAMED)} {word} only together, and succeed in halves"
    return "its halves are good: no time was left to find the fault between them"


def _set_words(nodes: Nodes, ties: Ties) -> str:
    racks = _racks(nodes, ties)
    if len(nodes) > 1 and all(racks):
        return some([f"rack {rack}" for rack in racks], _MOST_NAMED)
    return some(nodes, _MOST_NAMED)


def _racks(nodes: Nodes, ties: Ties) -> list[str]:
    return list(dict.fromkeys(ties.rack(name) for name in nodes))
