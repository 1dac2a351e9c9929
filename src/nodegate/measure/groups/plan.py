"""Which nodes are launched together: pairs of neighbours, racks, the whole fleet; and what can run at the same time."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

# apart: the whole fleet in one launch, each node with itself only. part: of a group that failed.
Kind = Literal["pair", "rack", "fleet", "apart", "part"]
PAIR, RACK, FLEET, APART, PART = "pair", "rack", "fleet", "apart", "part"
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
