"""The values that a number is compared with, and how far good ones lie apart."""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from operator import itemgetter

from nodegate.numbers.margins import Margins
from nodegate.numbers.split import Split, find_split
from nodegate.numbers.spread import around_median, degrees, scale

FEW = 512  # residuals up to which a node's own are left out of the spread: one node cannot hide itself


@dataclass(frozen=True)
class PeerGroup:
    """The values of the other nodes: `count` of them, from `nodes` nodes, in the metric's unit.

    `spread` is how far a good value lies from the median of the others, as a part of it: from all slots together, each
    around its own median. `freedom` is how well it is known, in degrees of freedom. `judged` is how many values there
    are. `device` is the part that was compared, slot with slot; empty when all devices of a node are compared. `split`
    is set when the fleet, this node included, falls into a slow and a fast part. `unequal` says with which other
    software this node measured, where too few have the same. `scatter` is how far one look at a part lies from its
    value, as a part of it, and `disturbed` the share of looks that are far worse.
    """

    nodes: int
    count: int
    median: float
    spread: float
    freedom: float
    judged: int
    device: str = ""
    split: Split | None = None
    unequal: str = ""
    scatter: float = 0.0
    disturbed: float = 0.0


class Pool:
    """The values that are compared with each other, prepared so that leaving one node out costs no sorting.

    What many nodes measured together is one value, under the name of their launch.
    """

    def __init__(self, device: str, held: Iterable[tuple[float, str]]) -> None:
        self.device = device
        pairs = sorted(held)
        self._sorted, self._whose = array("d", (value for value, _ in pairs)), [node for _, node in pairs]
        pairs.sort(key=itemgetter(1))  # in columns, for a fleet has hundreds of pools
        self._of_nodes, self._nodes = array("d", (value for value, _ in pairs)), [node for _, node in pairs]
        self._count = len(set(self._nodes))
        self._splits: dict[tuple[float, ...], Split | None] = {}

    def others(self, node: str) -> int:
        """From how many others than this node there are values."""
        return self._count - bool(self._own(node))

    def values_of_others(self, node: str) -> tuple[float, ...]:
        """The values without those of this node."""
        return tuple(value for value, whose in zip(self._sorted, self._whose, strict=True) if whose != node)

    def residuals_without(self, node: str) -> list[float]:
        """How far each value of the others lies from their median, as a part of it."""
        own = self._own(node)
        middle = _median_without(self._sorted, own) if len(own) < len(self._sorted) else 0.0
        held = zip(self._sorted, self._whose, strict=True)
        return [value / middle - 1.0 for value, whose in held if whose != node] if middle else []

    def _own(self, node: str) -> Sequence[float]:
        """The values of a node."""
        return self._of_nodes[bisect_left(self._nodes, node) : bisect_right(self._nodes, node)]

    def __len__(self) -> int:
        return len(self._sorted)

    def group(
        self, node: str, margins: Margins, spread: tuple[float, float, int], *, higher_is_better: bool
    ) -> PeerGroup:
        """What a node is compared with; `spread` with its degrees of freedom, and from how many values it is."""
        own = self._own(node)
        relative, freedom, judged = spread
        return PeerGroup(
            nodes=self.others(node),
            count=len(self._sorted) - len(own),
            median=_median_without(self._sorted, own),
            spread=relative,
            freedom=freedom,
            judged=judged,
            device=self.device,
            split=self._split(margins, higher_is_better=higher_is_better),
        )

    def _split(self, margins: Margins, *, higher_is_better: bool) -> Split | None:
        asked = (margins.slow_part_min, margins.fast_part_min)
        if asked not in self._splits:
            self._splits[asked] = find_split(
                list(zip(self._sorted, self._whose, strict=True)),
                slow_part_min=margins.slow_part_min,
                fast_part_min=margins.fast_part_min,
                higher_is_better=higher_is_better,
            )
        return self._splits[asked]


class Spread:
    """How far good values lie apart, from all slots together: seven values tell it badly, eight times seven well."""

    def __init__(self, pools: Sequence[Pool]) -> None:
        self._pools = pools
        self.count = sum(map(len, pools))
        self._known: dict[str, tuple[float, float]] = {}

    def without(self, node: str) -> tuple[float, float]:
        """The spread as a part of the median, and its degrees of freedom; of few values without this node's own."""
        left_out = node if self.count <= FEW else ""
        if left_out not in self._known:
            others = [pool.residuals_without(left_out) for pool in self._pools]
            residuals = [each for slot in others for each in slot]
            few = len(residuals) / max(len(others), 1)
            self._known[left_out] = around_median(few) * scale(residuals), degrees(len(residuals), len(others))
        return self._known[left_out]


def _median_without(ordered: Sequence[float], left_out: Sequence[float]) -> float:
    """The median of sorted values without some of them."""
    gone: list[int] = []
    for value in sorted(left_out):
        place = bisect_left(ordered, value)
        gone.append(max(place, gone[-1] + 1) if gone else place)
    count = len(ordered) - len(gone)
    return (_at(ordered, (count - 1) // 2, gone) + _at(ordered, count // 2, gone)) / 2


def _at(ordered: Sequence[float], rank: int, gone: Sequence[int]) -> float:
    for place in gone:
        rank += rank >= place
    return ordered[rank]
