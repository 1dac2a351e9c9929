"""What a reviewer should know of a learned limit: how little it finds, and how far it has followed an ageing fleet."""

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise
from statistics import median, stdev

from nodegate.baseline.entry import Entry, is_plain_number
from nodegate.metric import Metric
from nodegate.numbers.comparison import shown
from nodegate.numbers.spread import of_looks, of_median, scale

_FOUND = 1.645  # deviations beyond its limit at which a device is found in 95 of 100 runs
_DEVICES, _NODES = 4, 8  # from which on the devices of a node say how far nodes would differ by chance
_TWICE = 2.0  # how many times that variance nodes have to differ by; it is at most 1.8 of 64 nodes by chance
_LOOKS = 3  # from which on they say how far they lie apart
_NODES_DIFFER = 0.005  # choice: of good nodes; GEMM of ten public nodes: 0.5 %
_NOTABLE = 0.5  # of the floor: by how much nodes have to differ


def finds(tolerance: float, spread: float) -> float:
    """How much slower a device has to be, as a part of one, to be found in 95 of 100 runs."""
    return tolerance + _FOUND * spread


def doubts(
    entry: Entry, known: Entry | None, values: Sequence[tuple[str, Metric]], *, floor: float, spread: float
) -> Iterator[str]:
    """What may be wrong with a limit that was learned from these values, each with its node; `known` is there now.

    `floor` is half of the effect that is sought, `spread` the standard deviation of the values, as parts of the value.
    """
    if entry.tolerance > 2 * floor:
        slower = f"{100 * finds(entry.tolerance, spread):.0f} %"
        yield f"{entry.key}: a lax limit: the values differ so much that only what is {slower} slower is found"
    apart = _nodes_apart(values)
    if apart > _NOTABLE * floor:
        said = f"nodes differ by {100 * apart:.1f} % (standard deviation) more than their devices explain"
        yield f"{entry.key}: {said}: some may be slow, and then its limit is too low"
    yield from _behind(entry, _before(entry, known), floor)


def best_of(entry: Entry, known: Entry | None) -> float | None:
    """The best value that was ever learned for it, this one included."""
    before = _before(entry, known)
    best = [each for each in (_best(before) if before else None, entry.value) if is_plain_number(each)]
    return (min if entry.direction == "at most" else max)(best, default=None)


def _before(entry: Entry, known: Entry | None) -> Entry | None:
    found = known.for_conditions({name: str(value) for name, value in entry.parameters.items()}) if known else None
    return found if isinstance(found, Entry) and found.unit == entry.unit and _best(found) is not None else None


def _best(entry: Entry) -> float | None:
    if entry.best_value is not None:
        return entry.best_value
    return entry.value if is_plain_number(entry.value) else None


def _behind(entry: Entry, before: Entry | None, floor: float) -> Iterator[str]:
    best = best_of(entry, before)
    if before is None or not best or not is_plain_number(entry.value):
        return
    sign, word = (1, "above") if entry.direction == "at most" else (-1, "below")
    lost = sign * (entry.value - best) / best
    of_peak = f", {100 * entry.value / entry.peak:.0f} % of the peak" if entry.peak else ""
    if lost > floor:
        said = f"{shown(entry.value, entry.unit)} is {100 * lost:.1f} % {word} {shown(best, entry.unit)}{of_peak}"
        yield f"{entry.key}: {said}, the best of the baselines before ({before.origin}): find out why, or keep that one"
        return
    ours, theirs = entry.limit.value, before.limit.value
    if is_plain_number(ours) and is_plain_number(theirs) and theirs and sign * (ours - theirs) / theirs > floor:
        said = f"its limit {shown(round(ours, 4), entry.unit)} is {100 * sign * (ours - theirs) / theirs:.1f} % {word}"
        yield f"{entry.key}: {said} that of the baseline before ({before.origin}), which was stricter"


def _by_node(values: Sequence[tuple[str, Metric]]) -> dict[str, list[float]]:
    nodes: defaultdict[str, list[float]] = defaultdict(list)
    for node, metric in values:
        nodes[node].append(metric.judged)
    return nodes


def figures(values: Sequence[tuple[str, Metric]]) -> list[tuple[float, str]]:
    """The median of each node's devices, with the node."""
    return [(median(each), node) for node, each in _by_node(values).items()]


def noise_of_nodes(values: Sequence[tuple[str, Metric]]) -> float:
    """How far the figures of good nodes lie apart, by their devices or by the looks at each; 0: not known."""
    devices = len(values) / len({node for node, _ in values})
    looks = min(len(metric.values) for _, metric in values)
    if devices >= _DEVICES:
        return math.hypot(_NODES_DIFFER, _around_slots(values) * of_median(devices))
    steps = [(b - a) / metric.judged for _, metric in values for a, b in pairwise(metric.values) if metric.judged]
    return math.hypot(_NODES_DIFFER, scale(steps) * math.sqrt(of_looks(looks)[1] / 2)) if looks >= _LOOKS else 0.0


def _nodes_apart(values: Sequence[tuple[str, Metric]]) -> float:
    """How far nodes differ, beyond what the devices of each explain; a standard deviation, as a part of the value."""
    several = [each for each in _by_node(values).values() if len(each) >= _DEVICES]
    if len(several) < _NODES:
        return 0.0
    slots = _around_slots(values)
    own = [median(each) for each in several]
    middle = median(own)
    explained = (slots * of_median(median(map(len, several)))) ** 2
    found = (stdev(own) / middle) ** 2
    return math.sqrt(found - explained) if middle and found > _TWICE * explained else 0.0


def _around_slots(values: Sequence[tuple[str, Metric]]) -> float:
    """How far a device lies from the others of its node, what its place does by design left out."""
    middles = {node: middle for middle, node in figures(values)}
    places: defaultdict[str, list[float]] = defaultdict(list)
    for node, metric in values:
        places[metric.device].append(metric.judged / middles[node] - 1)
    usual = {place: median(each) for place, each in places.items()}
    return scale([metric.judged / middles[node] - 1 - usual[metric.device] for node, metric in values])
