"""The search in launches that were bad: bisection, then the boundary of what is bad only together, and its wording."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from nodegate.measure.groups.bisect import Found, bisect
from nodegate.measure.groups.boundary import Boundaries, Boundary
from nodegate.text import some

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from nodegate.measure.groups.bisect import Nodes, Run, Ties
    from nodegate.measure.groups.plan import Group

_MOST_NAMED = 8


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
        open_ones = [each for each in self.undecided if set(each) <= set(group.nodes)]
        if open_ones:
            return f"it is one of {some(open_ones[0], _MOST_NAMED)}: no time, or no good node, was left to tell which"
        return ""

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
        for boundary in boundaries.of(whole, _free_of(whole, found, good, everybody)):
            result.together.append((whole, boundary))
            result.blamed += boundary.one if boundary.kind == "node" else ()
    return result


def _free_of(whole: Nodes, found: Found, good: Sequence[str], everybody: Sequence[str]) -> list[str]:
    """The nodes that are known to be good, those of other sets that are bad together not among them."""
    doubted = {name for each in found.together if each != whole for name in each}.union(found.blamed)
    known = found.cleared.union(good) - doubted
    return [name for name in everybody if name in known]


def failed_with(groups: Collection[Group]) -> Mapping[str, frozenset[str]]:
    """With whom each node of these groups failed."""
    found: dict[str, frozenset[str]] = {}
    for group in groups:
        for name in group.nodes:
            found[name] = found.get(name, frozenset()).union(group.nodes) - {name}
    return found


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
