"""Parts of a fleet that are slow together: one of two halves, the nodes of a rack or a firmware.

Methods: docs/reference/statistics.md.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median, pvariance, stdev
from typing import TYPE_CHECKING

from nodegate.numbers.spread import around_median, degrees, mad, of_median, reach, robust, scale

if TYPE_CHECKING:
    import numpy as np

    from nodegate.numbers.comparison import Margins

Traits = Mapping[str, Mapping[str, str]]  # node -> what sets nodes apart: {"rack": "r7", "GPU VBIOS": "96.00.74"}
Held = Sequence[tuple[float, str]]  # values, each with its node

_MANY_VALUES = 16  # from which on the robust spread of a part is steady; below, its standard deviation is steadier
# How many deviations apart two groups are two: further than this lie those of about one normal fleet in 2,000; the
# second over the square of the number of values. Of larger fleets both parts together tell the spread inside better.
_APART, _APART_OF_FEW = 4.2, 450.0
_LARGE, _APART_TOGETHER, _APART_TOGETHER_OF_FEW = 48, 3.2, 3100.0
_APART_KNOWN = 3.6  # where the spread of good values is known: one normal fleet in 1,000
_PEELS = 16  # dead nodes at the ends, a few at a time, are set aside before the parts are looked for

OF_BATCH = "batch "  # begins the code of what is said of a batch: its name follows
_FEWEST = 3  # nodes that make a batch: of two, each may be slow by itself
_MANY = 8  # batches from which on their own spread is known
_KINDS = 20  # of numbers of nodes as a whole that a run judges
_ROUNDS = 8  # batches that are told of one number
_MOST_NAMES = 3
_BY_CHANCE = 0.05  # how seldom as many slow nodes would meet in a batch of any fleet if each were slow by itself
_MOST_OF = 2 / 3  # of a batch are slow, or it is not the batch


@dataclass(frozen=True)
class Split:
    """Two groups of values, clearly apart: the median of each, and how many nodes have a value in it."""

    slow: float
    fast: float
    slow_nodes: int
    fast_nodes: int
    inside: float = 0.0  # how far values lie apart within a part, in standard deviations


def find_split(
    held: Held, slow_part_min: float, fast_part_min: float, *, higher_is_better: bool, known: float = 0.0
) -> Split | None:
    """The two parts of a fleet, or None when it is one.

    The values are parted where the squares within the parts become least (two means on a line, Otsu 1979). A part that
    is too small to be one is set aside and the rest parted again. The parts are real when their medians lie further
    apart than chance puts them.

    Args:
        held: each value with its node.
        slow_part_min: the least share of values that makes a slow part.
        fast_part_min: the least share that makes a fast part, with two nodes at least.
        higher_is_better: which end is the fast one.
        known: how far apart good values lie, in standard deviations, if something else tells that.
    """
    held = sorted(held)
    least = (slow_part_min, fast_part_min) if higher_is_better else (fast_part_min, slow_part_min)
    for _ in range(_PEELS):
        if len(held) < 4 or held[0][0] == held[-1][0]:
            return None
        cut = _cut([value for value, _ in held])
        low, high = held[:cut], held[cut:]
        if _too_small(low, least[0], len(held)):
            held = high
        elif _too_small(high, least[1], len(held)):
            held = low
        else:
            return _split(low, high, known) if higher_is_better else _split(high, low, known)
    return None


def _too_small(part: Held, least: float, total: int) -> bool:
    return len(part) < least * total or len({node for _, node in part}) < 2


def _cut(values: list[float]) -> int:
    """How many of the sorted values make the lower part."""
    import numpy as np  # noqa: PLC0415 - heavy: only where fleets are compared

    array = np.asarray(values)
    count = np.arange(1, len(array))
    sums = np.cumsum(array)
    below, above = sums[:-1] / count, (sums[-1] - sums[:-1]) / (len(array) - count)
    apart = count * (len(array) - count) * (above - below) ** 2
    apart[array[1:] == array[:-1]] = -1.0  # equal values stay together
    return int(np.argmax(apart)) + 1


def _split(slow: Held, fast: Held, known: float) -> Split | None:
    parts = [[value for value, _ in part] for part in (slow, fast)]
    middles = [median(part) for part in parts]
    count, distance = len(slow) + len(fast), abs(middles[1] - middles[0])
    within = max(_spread(*each) for each in zip(parts, middles, strict=True))
    inside = scale([value - middle for part, middle in zip(parts, middles, strict=True) for value in part])
    is_split = distance > (_APART + _APART_OF_FEW / count**2) * within
    if not is_split and count >= _LARGE:
        is_split = distance > (_APART_TOGETHER + _APART_TOGETHER_OF_FEW / count**2) * inside
    if not is_split and known:
        pooled = sum(pvariance(part) * len(part) for part in parts) / (count - 2)
        is_split = distance > _APART_KNOWN * max(known, math.sqrt(pooled))
    slow_nodes, fast_nodes = (len({node for _, node in part}) for part in (slow, fast))
    return Split(middles[0], middles[1], slow_nodes, fast_nodes, inside) if is_split else None


def _spread(values: list[float], middle: float) -> float:
    return robust(mad(values, middle)) if len(values) >= _MANY_VALUES else stdev(values)


@dataclass(frozen=True)
class Batch:
    """Nodes that have something in common, behind the others of their platform."""

    names: tuple[str, ...]  # what all of them have and none of the others: "rack r7", "GPU VBIOS 96.00.74"
    nodes: int  # that are slow
    of: int
    others: int
    median: float
    rest: float  # the median of the others
    bound: float  # how far behind a batch of good nodes may be by chance, as a part of it
    unequal: bool = False  # with other software than the rest, so that it may be the software

    @property
    def behind(self) -> float:
        """By which part of the rest's median the batch is behind."""
        return abs(self.rest - self.median) / abs(self.rest)

    @property
    def factor(self) -> float:
        """What makes a value of the batch one of the rest."""
        return self.rest / self.median

    @property
    def name(self) -> str:
        """What it is called, by what sets it apart."""
        more = self.names[1:_MOST_NAMES]
        rest = f" and {len(self.names) - _MOST_NAMES} more" if len(self.names) > _MOST_NAMES else ""
        return self.names[0] + (f" ({', '.join(more)}{rest})" if more else "")


@dataclass(frozen=True, eq=False)
class _Group:
    """Nodes with one value of a trait; `names` are all traits that set just these nodes apart."""

    trait: str
    names: tuple[str, ...]
    inside: np.ndarray
    count: int


@dataclass(frozen=True, eq=False)
class _Behind:
    """A group with its median, the rest's, what chance explains, and who of it is slow."""

    group: _Group
    median: float
    rest: float
    bound: float
    slow: np.ndarray


def find_batches(
    values: Mapping[str, float],
    traits: Traits,
    software: Mapping[str, object],
    margins: Margins,
    *,
    higher_is_better: bool = True,
) -> dict[str, tuple[Batch, ...]]:
    """The batches that are behind the rest, for each node that is one of such a batch and as slow as it.

    The batch that explains most of all deviations comes first; its effect is taken out, and the next is looked for in
    what is left. So a rack with many nodes of a slow firmware is not blamed for the firmware. `values`, `traits` and
    `software` are of each node.
    """
    import numpy as np  # noqa: PLC0415 - heavy: only where fleets are compared

    names = [name for name in values if values[name] > 0]
    array = np.array([values[name] for name in names])
    search = _Search(_groups(names, traits, margins.fast_part_min), margins, higher_is_better=higher_is_better)
    found: defaultdict[str, list[Batch]] = defaultdict(list)
    for _ in range(_ROUNDS):
        best = search.best(array)
        if best is None:
            break
        group, slow, others = best.group, best.slow, len(names) - best.group.count
        its, theirs = (
            {software.get(names[at]) for at in np.flatnonzero(part)} for part in (group.inside, ~group.inside)
        )
        counts = int(slow.sum()), group.count, others
        batch = Batch(group.names, *counts, best.median, best.rest, best.bound, unequal=not its & theirs)
        for place in np.flatnonzero(slow):
            found[names[place]].append(batch)
        array = np.where(slow, array * batch.factor, array)
        search.groups.remove(group)
    return {name: tuple(batches) for name, batches in found.items()}


def _groups(names: Sequence[str], traits: Traits, fast_part_min: float) -> list[_Group]:
    """The sets of nodes that some trait sets apart, each once; the rest of each is large enough to tell it is slow."""
    import numpy as np  # noqa: PLC0415 - heavy

    places: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
    for place, name in enumerate(names):
        for trait, value in traits.get(name, {}).items():
            places[trait, value].append(place)
    called: defaultdict[tuple[int, ...], list[tuple[str, str]]] = defaultdict(list)
    for what, members in places.items():
        rest = len(names) - len(members)
        if len(members) >= _FEWEST and rest >= max(_FEWEST, fast_part_min * len(names)):
            called[tuple(members)].append(what)
    found = []
    for held, whats in called.items():
        inside = np.zeros(len(names), dtype=bool)
        inside[list(held)] = True
        found.append(_Group(whats[0][0], tuple(f"{trait} {value}" for trait, value in whats), inside, len(held)))
    return found


class _Search:
    """Which group is behind the rest, by more than chance and the floor."""

    def __init__(self, groups: list[_Group], margins: Margins, *, higher_is_better: bool) -> None:
        self.groups, self._margins = groups, margins
        self._sign = 1.0 if higher_is_better else -1.0
        self._chance = margins.fleet_wronged / (_KINDS * max(len(groups), 1))

    def best(self, array: np.ndarray) -> _Behind | None:
        """The group that explains most of all deviations."""
        import numpy as np  # noqa: PLC0415 - heavy

        spreads: dict[str, _Inside] = {}
        found, most = None, 0.0
        overall = float(np.median(array)) if len(array) else 0.0
        whole = float(np.abs(array - overall).sum())
        for group in self.groups:
            own, others = array[group.inside], array[~group.inside]
            middle = float(np.median(own))
            if group.count * 2 < len(array) and self._behind(middle, overall) <= self._margins.fleet_floor / 2:
                continue  # most groups: the rest need not be looked at
            rest = float(np.median(others))
            if group.trait not in spreads:
                alike = [each.inside for each in self.groups if each.trait == group.trait]
                spreads[group.trait] = _Inside(array, alike)
            inside = spreads[group.trait]
            bound = inside.bound(group.count, len(array), middle, self._chance)
            if self._behind(middle, rest) <= max(bound, self._margins.fleet_floor):
                continue
            left = float(np.abs(own - middle).sum() + np.abs(others - rest).sum())
            near = inside.spread * reach(self._margins.fleet_warned) * middle
            slow = group.inside & (self._sign * (middle - array) >= -near)
            if whole - left > most and self._is_of_the_group(array, group, slow, rest):
                found, most = _Behind(group, middle, rest, bound, slow), whole - left
        return found

    def _behind(self, value: float, reference: float) -> float:
        return self._sign * (reference - value) / reference

    def _is_of_the_group(self, array: np.ndarray, group: _Group, slow: np.ndarray, rest: float) -> bool:
        """Whether chance would hardly put this many slow nodes into it (hypergeometric test)."""
        here = int(slow.sum())
        if here < max(_FEWEST, _MOST_OF * group.count):
            return False
        low = self._sign * (rest - array) > self._margins.fleet_floor * rest
        everywhere = int((slow | low).sum())
        return by_chance(here, group.count, everywhere, len(array)) < _BY_CHANCE / len(self.groups)


def by_chance(here: int, size: int, everywhere: int, total: int) -> float:
    """The chance that of `everywhere` nodes at least `here` are among the `size` of `total`: hypergeometric."""
    met = range(here, min(size, everywhere) + 1)
    ways = sum(math.comb(everywhere, each) * math.comb(total - everywhere, size - each) for each in met)
    return ways / math.comb(total, size)


class _Inside:
    """How far values lie apart inside the groups of a trait, and how far the groups' medians do."""

    def __init__(self, array: np.ndarray, groups: Sequence[np.ndarray]) -> None:
        import numpy as np  # noqa: PLC0415 - heavy

        ungrouped = ~np.logical_or.reduce(groups)
        parts = [part for each in (*groups, ungrouped) if len(part := array[each]) >= _FEWEST]
        self._medians = [float(np.median(part)) for part in parts]
        residuals = np.concatenate([part / middle - 1.0 for part, middle in zip(parts, self._medians, strict=True)])
        self.spread = around_median(len(residuals) / len(parts)) * scale(residuals.tolist())
        self._freedom = degrees(len(residuals), len(parts))

    def bound(self, count: int, total: int, middle: float, chance: float) -> float:
        """How far the median of this many good nodes may fall below that of the rest by chance, as a share of it."""
        error = self.spread * math.hypot(of_median(count), of_median(total - count))
        found = error * reach(chance, self._freedom)
        others = list(self._medians)
        if middle in others:
            others.remove(middle)
        if len(others) >= _MANY - 1:
            center = sorted(others)[len(others) // 2]
            between = around_median(len(others)) * scale([each / center - 1.0 for each in others])
            found = max(found, between * reach(chance, degrees(len(others), 1)))
        return found
