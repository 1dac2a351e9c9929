"""Nodes that one thing sets apart (a rack, a firmware, a driver) and that are behind the rest of the fleet together.

Each is judged at its own level: the median of the batch beside the median of the rest, with the spread of values inside
batches and, where there are enough of them, that of the batches themselves. Methods: docs/reference/statistics.md.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nodegate.numbers.margins import Margins
from nodegate.numbers.spread import around_median, degrees, of_median, reach, scale

if TYPE_CHECKING:
    import numpy as np

Traits = Mapping[str, Mapping[str, str]]  # node -> what sets nodes apart: {"rack": "r7", "GPU VBIOS": "96.00.74"}

OF_BATCH = "batch "  # begins the code of what is said of a batch: its name follows
_FEWEST = 3  # nodes that make a batch: of two, each may be slow by itself
_MANY = 8  # batches from which on their own spread is known
_KINDS = 20  # of numbers of nodes as a whole that a run judges
_ROUNDS = 8  # batches that are told of one number
_MOST_NAMES = 3
_BY_CHANCE = 0.05  # how seldom as many slow nodes would meet in a batch of any fleet if each were slow by itself
_MOST_OF = 2 / 3  # of a batch are slow, or it is not the batch


@dataclass(frozen=True)
class Batch:
    """So many nodes that have something in common, `behind` the `others` of their platform by a part of their median.

    `names` are the things that all of them have and none of the others: "rack r7", "GPU VBIOS 96.00.74". `bound` is how
    far behind a batch of good nodes may be, by chance. `factor` is the rest's median over the batch's. `unequal`: with
    other software than the rest, so that it may be the software.
    """

    names: tuple[str, ...]
    nodes: int
    of: int
    others: int
    median: float
    rest: float
    bound: float
    unequal: bool = False

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
    what is left. So a rack with many nodes of a slow firmware is not blamed for the firmware.

    Args:
        values: the first number of each node.
        traits: what sets each node apart.
        software: what each was measured with, where values with other software are compared.
        margins: how far apart is too far.
        higher_is_better: which end is the fast one.
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
        group, middle, rest, bound, slow = best
        inside = {name for name, own in zip(names, group.inside, strict=True) if own}
        mine = {software.get(name) for name in inside}
        its = {software.get(name) for name in names if name not in inside}
        others = len(names) - group.count
        batch = Batch(group.names, int(slow.sum()), group.count, others, middle, rest, bound, unequal=not mine & its)
        for place in np.flatnonzero(slow):
            found[names[place]].append(batch)
        array = np.where(slow, array * batch.factor, array)
        search.groups.remove(group)
    return {name: tuple(batches) for name, batches in found.items()}


@dataclass(frozen=True, eq=False)
class _Group:
    """Nodes with one value of a trait; `names` are all traits that set just these nodes apart."""

    trait: str
    names: tuple[str, ...]
    inside: np.ndarray
    count: int


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
        self._chance = margins.wronged / (_KINDS * max(len(groups), 1))

    def best(self, array: np.ndarray) -> tuple[_Group, float, float, float, np.ndarray] | None:
        """The group that explains most, with its median, the rest's, what chance explains, and who of it is slow."""
        import numpy as np  # noqa: PLC0415 - heavy

        spreads: dict[str, _Inside] = {}
        found, most = None, 0.0
        overall = float(np.median(array)) if len(array) else 0.0
        whole = float(np.abs(array - overall).sum())
        for group in self.groups:
            middle = float(np.median(array[group.inside]))
            if group.count * 2 < len(array) and self._behind(middle, overall) <= self._margins.fleet_floor / 2:
                continue  # most groups: the rest need not be looked at
            rest = float(np.median(array[~group.inside]))
            if group.trait not in spreads:
                spreads[group.trait] = _Inside(array, [each for each in self.groups if each.trait == group.trait])
            inside = spreads[group.trait]
            bound = inside.bound(group.count, len(array), middle, self._chance)
            if self._behind(middle, rest) <= max(bound, self._margins.fleet_floor):
                continue
            left = np.abs(array[group.inside] - middle).sum() + np.abs(array[~group.inside] - rest).sum()
            slow = group.inside & (
                self._sign * (middle - array) >= -inside.spread * reach(self._margins.warned) * middle
            )
            if whole - left > most and self._is_of_the_group(array, group, slow, rest):
                found, most = (group, middle, rest, bound, slow), whole - float(left)
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

    def __init__(self, array: np.ndarray, groups: Sequence[_Group]) -> None:
        import numpy as np  # noqa: PLC0415 - heavy

        ungrouped = ~np.logical_or.reduce([each.inside for each in groups])
        parts = [
            part for each in (*(group.inside for group in groups), ungrouped) if len(part := array[each]) >= _FEWEST
        ]
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
