"""What a reviewer should know of a learned limit: how little it finds, and how far it has followed an ageing fleet."""

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from statistics import median, stdev

from nodegate.baseline.entry import Entry
from nodegate.metric import Metric
from nodegate.numbers.comparison import shown
from nodegate.numbers.spread import of_median, scale

_FOUND = 1.645  # deviations beyond its limit at which a device is found in 95 of 100 runs
_DEVICES, _NODES = 4, 8  # from which on the devices of a node say how far nodes would differ by chance
_TWICE = 2.0  # how many times that variance nodes have to differ by; it is at most 1.8 of 64 nodes by chance
_NOTABLE = 0.5  # of the floor: by how much nodes have to differ


def finds(tolerance: float, spread: float) -> float:
    """How much slower a device has to be, as a part of one, to be found in 95 of 100 runs."""
    return tolerance + _FOUND * spread


def doubts(
    entry: Entry, known: Entry | None, values: Sequence[tuple[str, Metric]], *, floor: float, spread: float
) -> Iterator[str]:
    """What may be wrong with a learned limit.

    Args:
        entry: what was learned.
        known: what the baselines have for this key now.
        values: what it was learned from, each with its node.
        floor: half of the effect that is sought, as a part of the value.
        spread: of the values, in standard deviations, as a part of their median.
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
    ours = entry.value if isinstance(entry.value, (int, float)) else None
    known_best = None if before is None else _best(before)
    if ours is None or known_best is None:
        return ours
    return min(ours, known_best) if entry.direction == "at most" else max(ours, known_best)


def _before(entry: Entry, known: Entry | None) -> Entry | None:
    if known is None:
        return None
    found = known.for_conditions({name: str(value) for name, value in entry.parameters.items()})
    return found if isinstance(found, Entry) and found.unit == entry.unit and _best(found) is not None else None


def _best(entry: Entry) -> float | None:
    if entry.best_value is not None:
        return entry.best_value
    return None if isinstance(entry.value, bool) or not isinstance(entry.value, (int, float)) else entry.value


def _behind(entry: Entry, before: Entry | None, floor: float) -> Iterator[str]:
    value, best = entry.value, best_of(entry, before)
    if before is None or best is None or not isinstance(value, (int, float)) or not best:
        return
    lost = (value - best) / best if entry.direction == "at most" else (best - value) / best
    word = "above" if entry.direction == "at most" else "below"
    of_peak = f", {100 * value / entry.peak:.0f} % of the peak" if entry.peak else ""
    if lost > floor:
        said = f"{shown(value, entry.unit)} is {100 * lost:.1f} % {word} {shown(best, entry.unit)}{of_peak}"
        yield f"{entry.key}: {said}, the best of the baselines before ({before.origin}): find out why, or keep that one"
        return
    ours, theirs = entry.limit.value, before.limit.value
    if isinstance(ours, (int, float)) and isinstance(theirs, (int, float)) and theirs:
        looser = (ours - theirs) / theirs if entry.direction == "at most" else (theirs - ours) / theirs
        if looser > floor:
            said = f"its limit {shown(round(ours, 4), entry.unit)} is {100 * looser:.1f} % {word}"
            yield f"{entry.key}: {said} that of the baseline before ({before.origin}), which was stricter"


def _nodes_apart(values: Sequence[tuple[str, Metric]]) -> float:
    """How far nodes differ, beyond what the devices of each explain; a standard deviation, as a part of the value."""
    nodes: defaultdict[str, list[float]] = defaultdict(list)
    for node, metric in values:
        nodes[node].append(metric.judged)
    several = [each for each in nodes.values() if len(each) >= _DEVICES]
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
    nodes: defaultdict[str, list[float]] = defaultdict(list)
    for node, metric in values:
        nodes[node].append(metric.judged)
    middles = {node: median(each) for node, each in nodes.items()}
    places: defaultdict[str, list[float]] = defaultdict(list)
    for node, metric in values:
        places[metric.device].append(metric.judged / middles[node] - 1)
    usual = {place: median(each) for place, each in places.items()}
    return scale([metric.judged / middles[node] - 1 - usual[metric.device] for node, metric in values])
