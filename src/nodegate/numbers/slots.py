"""A place that is slow on every node: the fleet calls it usual, the other places of the same nodes do not."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from nodegate.metric import Metric
from nodegate.numbers.comparison import Comparison, nothing, shown
from nodegate.numbers.margins import Margins
from nodegate.records.finding import AT_LEAST, Limit, LimitKind
from nodegate.records.verdict import Verdict

_FEWEST = 4  # places of one kind, from which on one can be odd
_MOST = 0.25  # of the places are behind, or the node is built so
_UNITS = frozenset({"GB/s", "TFLOPS"})  # of what one place does as well as the next; rails have a check


@dataclass(frozen=True)
class Slot:
    """A place that is behind the others on the nodes of a platform: its median, and that of the other places."""

    median: float
    others: float
    places: int
    nodes: int


def find_slot(
    device: str, values: Mapping[str, Sequence[float]], like: Collection[str], margins: Margins
) -> Slot | None:
    """The place of this name, if it is behind the others that are like it; None if it is not, or if that is unknown.

    Four places of eight that are slower than the rest are how the machine is built (the far socket), one or two not.

    Args:
        device: the name of the place.
        values: the first numbers of each place, from as many nodes as have it.
        like: the places that should do as well: of the same physical limit.
        margins: how many nodes tell, and how far apart is too far.
    """
    middles = {name: median(values[name]) for name in like if len(values.get(name, ())) >= max(margins.peers_min, 2)}
    if device not in middles or len(middles) < _FEWEST:
        return None
    top = median(sorted(middles.values())[len(middles) // 2 :])
    behind = [name for name, middle in middles.items() if middle < top * (1 - margins.inside_floor)]
    if device not in behind or len(behind) > max(1, _MOST * len(middles)):
        return None
    others = median(middle for name, middle in middles.items() if name not in behind)
    return Slot(middles[device], others, len(middles) - len(behind), len(values[device]))


def compare(metric: Metric, value: float, slot: Slot | None, margins: Margins) -> Comparison:
    """A value beside the other places of the fleet. It warns: which of the two is right, the fleet cannot know."""
    if slot is None or value >= slot.others * (1 - margins.inside_floor):
        return nothing("slot")
    below = 100 * (1 - slot.median / slot.others)
    said = f"this place is slow on {slot.nodes} nodes: its median {shown(slot.median, metric.unit)} is {below:.1f} % "
    said += f"below the {shown(slot.others, metric.unit)} of {slot.places} other places of the same nodes"
    bound = Limit(
        round(slot.others * (1 - margins.inside_floor), 6), metric.unit, "the other places", AT_LEAST, LimitKind.FLEET
    )
    return Comparison(Verdict.WARN, "slot", said, bound)


def is_compared(metric: Metric) -> bool:
    """Whether places should give the same number of it."""
    return bool(metric.device) and metric.better == "higher" and metric.unit in _UNITS
