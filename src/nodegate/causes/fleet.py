"""The causes of a run: equal ones of several nodes as one, and those that crowd in one rack as the rack's."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from nodegate.causes.explain import alike_but_for_its_part, worst_first
from nodegate.numbers.parts import by_chance
from nodegate.records.cause import NOT_JUDGED, Cause, Class
from nodegate.records.part import Kind
from nodegate.records.verdict import Verdict

_REPLACEABLE = frozenset(
    (Kind.GPU, Kind.NIC, Kind.PORT, Kind.NVSWITCH, Kind.NVLINK, Kind.DISK, Kind.MEMORY, Kind.BRIDGE)
)
_FEW = 2  # of parts that are replaced by serial number, each keeps its line
_CROWD = 3  # fewer nodes of one rack are chance
_MOST_OF = 2 / 3  # of a rack's nodes have what is the rack's, where others have it too
_CHANCE = 0.001  # how seldom as many of one rack would have it if it were spread over the fleet


def fleet_causes(of_nodes: Mapping[str, Sequence[Cause]], racks: Mapping[str, str]) -> tuple[Cause, ...]:
    """The causes of all nodes of a run, worst first.

    Args:
        of_nodes: the causes of each node that was judged.
        racks: the rack of each node whose rack is known.
    """
    alike: defaultdict[tuple[object, ...], list[Cause]] = defaultdict(list)
    for causes in of_nodes.values():
        for cause in causes:
            alike[_key(cause)].append(cause)
    every = list(of_nodes)
    parts = [part for same in alike.values() for part in _parted(same, every, racks)]
    folded = [each for part in parts for each in _fold(part, every, racks)]
    return tuple(sorted(folded, key=worst_first))


def _key(cause: Cause) -> tuple[object, ...]:
    """What two nodes' causes share when there is one thing to say: all but node, values and the GPU's number."""
    if cause.condition == NOT_JUDGED:
        return (cause.condition,)
    named = cause.part.short if cause.part.kind is not Kind.GPU else ""
    what = (cause.condition, cause.severity, cause.part.kind, named, cause.waiver)
    return (*what, *alike_but_for_its_part(cause.decisive))


def _parted(same: list[Cause], nodes: Sequence[str], racks: Mapping[str, str]) -> list[list[Cause]]:
    """The causes of a rack on most of whose nodes it is, and on few of the others, apart; the rest together."""
    if same[0].sort in (Class.ACCESS, Class.TOOL):
        return [same]
    sizes = Counter(racks.get(name, "") for name in nodes)
    having = _nodes(same)
    counts = Counter(racks.get(name, "") for name in having)
    apart = [
        rack
        for rack, here in counts.items()
        if rack
        and len(sizes) > 1
        and here >= max(_CROWD, _MOST_OF * sizes[rack])
        and by_chance(here, sizes[rack], len(having), len(nodes)) < _CHANCE / len(sizes)
    ]
    parts = [[cause for cause in same if racks.get(cause.nodes[0]) == rack] for rack in apart]
    rest = [cause for cause in same if racks.get(cause.nodes[0]) not in apart]
    return [part for part in (*parts, rest) if part]


def _fold(same: list[Cause], nodes: Sequence[str], racks: Mapping[str, str]) -> list[Cause]:
    first = same[0]
    if len(same) <= (_FEW if first.part.kind in _REPLACEABLE else 1):
        return same
    whole = replace(
        first,
        parts=tuple(dict.fromkeys(part for each in same for part in each.parts)),
        same=tuple(finding for each in same for finding in (*each.same, *([] if each is first else [each.decisive]))),
        follows=tuple(finding for each in same for finding in each.follows),
        nodes=_nodes(same),
        members=tuple(same),
    )
    return [replace(whole, place=_crowded(whole, nodes, racks))]


def _nodes(causes: Iterable[Cause]) -> tuple[str, ...]:
    """The nodes that have one of these causes, each once however many of its parts have it."""
    return tuple(dict.fromkeys(name for each in causes for name in each.nodes))


def _crowded(cause: Cause, nodes: Sequence[str], racks: Mapping[str, str]) -> str:
    """The rack that holds all nodes of a cause though the fleet has more; empty where that may be chance."""
    counts = Counter(racks.get(name, "") for name in cause.nodes)
    rack, here = counts.most_common(1)[0]
    size = sum(racks.get(name) == rack for name in nodes)
    if not rack or here < max(_CROWD, len(cause.nodes)) or size == len(nodes):
        return ""
    if cause.sort in (Class.ACCESS, Class.TOOL) and here < size:
        return ""
    chance = by_chance(here, size, here, len(nodes))
    return rack if chance < _CHANCE or (here == size and cause.verdict is Verdict.FAIL) else ""


def values(cause: Cause) -> tuple[float, ...]:
    """The decisive numbers of a cause of several nodes, lowest first; none where it is about words."""
    key, quantity = cause.decisive.key, cause.decisive.finding.quantity
    found = [
        each.finding.observed
        for each in (cause.decisive, *cause.same)
        if each.key == key and each.finding.quantity == quantity
    ]
    return tuple(sorted(float(each) for each in found if isinstance(each, (int, float)) and not isinstance(each, bool)))
