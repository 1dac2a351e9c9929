"""Looks: what nodes measured of each quantity, the numbers of a node that are judged together, and their spread."""

from __future__ import annotations

import math
from array import array
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from statistics import fmean, median
from typing import NamedTuple, cast

from nodegate.metric import Metric, Statistic
from nodegate.numbers.spread import (
    FEW,
    Known,
    Pool,
    Spread,
    moderated,
    of_joined,
    of_looks,
    of_median,
    scale,
    with_looks,
)

Key = tuple[object, ...]  # two numbers of one key are comparable: platform, unit, better, name, conditions
SOFTWARE = frozenset({"driver", "cublas", "cuda", "nccl", "tool_version"})  # numbers are compared across them, and told
OF, TOGETHER = "median of", "together"  # conditions of the figure of a node, and of a number that joins several
LOW, FAR = 0.05, 4.0  # a look is far worse by this part of the value, and by so many spreads
_OF_STEPS = 0.5  # degrees of freedom that each difference of two looks in a row gives to their robust spread
_OF_CHIPS = "burn"  # the same chips are good in each type of numbers: they tell no more than one does
_MIN_DEVICES = 4  # from which on the median of a node holds off one bad device
_DEVICES = frozenset({"TFLOPS", "GB/s", "Gb/s"})  # units of what devices do; how warm they are is no fault of a node
_NCCL = ("all_reduce", "all_reduce_ring", "all_gather", "reduce_scatter", "alltoall", "sendrecv")
_FAMILIES = {
    "collectives": [f"nccl.{each}_gb_per_s" for each in _NCCL],
    "copies to the GPUs": ["memory.host_to_device_gb_per_s", "memory.host_to_device_at_once_gb_per_s"],
    "copies to the host": ["memory.device_to_host_gb_per_s", "memory.device_to_host_at_once_gb_per_s"],
    "memory bandwidths": [f"memory.{each}_gb_per_s" for each in ("device", "read", "copy", "triad")],
    "low-precision rates": ["burn.bf16_tflops", "burn.fp8_tflops"],  # fp32 does not use the tensor cores
}
_FAMILY = {name: family for family, names in _FAMILIES.items() for name in names}


class Row(NamedTuple):
    """What a node measured of one quantity of one device: a value a look. `launch` as in `Metric`."""

    node: str
    device: str
    launch: str
    seen: tuple[float, ...]


class Scatter(NamedTuple):
    """How far a look lies from its part's value, as a part of it; degrees of freedom; the share of looks far worse."""

    spread: float = 0.0
    freedom: float = 0.0
    disturbed: float = 0.0


class Quantity:
    """One comparable quantity over the nodes: a row a node and device, in columns, since a fleet has a million values.

    `kin` are those of its kind (the collectives of a run, its copies), `of_devices` what the figure of a node is the
    median of, and of how many, `members` what it joins.
    """

    def __init__(self, key: Key, number: int) -> None:
        self.key, self.number, self.better = key, number, str(key[2])
        self.kin: list[Quantity] = [self]
        self.of_devices: tuple[Quantity, int] | None = None
        self.members: Sequence[Quantity] = ()
        self._whose: list[tuple[str, str, str]] = []
        self._values, self._ends = array("d"), array("q", [0])
        self._pools: dict[tuple[str | None, Statistic], Pool] = {}
        self._spreads: dict[tuple[bool | str, Statistic], Spread] = {}
        self._last: tuple[object, tuple[float, float, int]] = None, (0.0, 1.0, 1)

    def add(self, node: str, device: str, launch: str, seen: Sequence[float]) -> None:
        """One more row."""
        self._whose.append((node, device, launch))
        self._values.extend(seen)
        self._ends.append(len(self._values))

    def rows(self, device: str | None = None) -> Iterator[Row]:
        """The rows in the order in which they came; of one device alone if it is given."""
        for at, whose in enumerate(self._whose):
            if device is None or whose[1] == device:
                yield Row(*whose, tuple(self._values[self._ends[at] : self._ends[at + 1]]))

    def __len__(self) -> int:
        return len(self._whose)

    @staticmethod
    def of_all(several: Sequence[Quantity]) -> Quantity:
        """The values of several as of one: those that differ in software only."""
        found = Quantity(several[0].key, -1)
        for row in (row for each in several for row in each.rows()):
            found.add(*row)
        return found

    @cached_property
    def loose(self) -> Key:
        """What two numbers share that can be compared at all: all but the software, and how many a figure is of."""
        return without(self.key, *SOFTWARE, OF)

    @cached_property
    def software(self) -> tuple[tuple[str, str], ...]:
        """With what it was measured."""
        return tuple(sorted(each for each in words(self.key).items() if each[0] in SOFTWARE))

    @cached_property
    def looks(self) -> tuple[int, int]:
        """The fewest looks at a part, and how many most have had."""
        counts = Counter(end - begin for begin, end in zip(self._ends, self._ends[1:], strict=False))
        return min(counts), max(counts, key=lambda count: (counts[count], -count))

    @cached_property
    def scatter(self) -> Scatter:
        """How far looks at one part lie apart, over all parts."""
        import numpy as np  # noqa: PLC0415 - heavy: only where fleets are compared

        values, ends = np.asarray(self._values), np.asarray(self._ends)
        looks, steps, lost = np.diff(ends), [np.zeros(0)], [np.zeros(0)]
        for count in np.unique(looks[looks > 1]):
            seen = values[ends[:-1][looks == count][:, None] + np.arange(count)]
            middles = np.median(seen, axis=1, keepdims=True)
            good = middles[:, 0] > 0
            steps.append((np.diff(seen[good], axis=1) / middles[good]).ravel())
            lost.append((1 - seen[good] / middles[good]).ravel() * (1 if self.better == "higher" else -1))
        held = np.concatenate(steps)
        if not len(held):
            return Scatter()
        spread = scale(held) / math.sqrt(2)
        far = float(np.mean(np.concatenate(lost) > max(LOW, FAR * spread)))
        return Scatter(spread, _OF_STEPS * len(held), far)

    def of_looks(self, looks: int) -> tuple[float, float]:
        """The usual value of so many looks as a part of the true one, and its variance by the noise of a look."""
        middle, variance = of_looks(looks)
        better = 1 if self.better == "higher" else -1
        return 1 + better * middle * self.scatter.spread, variance * self.scatter.spread**2

    @property
    def by_looks(self) -> float:
        """The variance of a value by the noise of as many looks as most have had."""
        return self.of_looks(self.looks[1])[1]

    def value_of(self, statistic: Statistic) -> Callable[[tuple[float, ...]], float]:
        """The value of a row by its looks: by as many as most have had, or by as many as all have had."""
        fewest, usual = self.looks
        if statistic is not Statistic.USUAL:
            return lambda seen: statistic.of(seen[:fewest], better=self.better) or 0.0
        expected = self.of_looks(usual)[0]

        def value(seen: tuple[float, ...]) -> float:
            own = statistic.of(seen, better=self.better) or 0.0
            return own if len(seen) == usual else own * expected / self.of_looks(len(seen))[0]

        return value

    def pool(self, device: str | None, statistic: Statistic) -> Pool:
        """The values of one device, or of all."""
        if (device, statistic) not in self._pools:
            value_of = self.value_of(statistic)
            held = {(row.launch or row.node, row.device): value_of(row.seen) for row in self.rows(device)}
            self._pools[device, statistic] = Pool(device or "", ((value, whose) for (whose, _), value in held.items()))
        return self._pools[device, statistic]

    def spread(self, statistic: Statistic, *, by_slot: bool) -> Spread:
        """How far the values lie apart, each slot by itself or all together."""
        if (by_slot, statistic) not in self._spreads:
            devices = dict.fromkeys(device for _, device, _ in self._whose) if by_slot else {None: None}
            pools = [self.pool(each, statistic) for each in devices]
            self._spreads[by_slot, statistic] = Spread(pools)
        return self._spreads[by_slot, statistic]

    def inside(self, statistic: Statistic) -> Spread:
        """How far devices lie from the others of their node."""
        if ("inside", statistic) not in self._spreads:
            nodes: defaultdict[str, list[tuple[float, str]]] = defaultdict(list)
            value_of = self.value_of(statistic)
            for row in self.rows():
                nodes[row.node].append((value_of(row.seen), f"{row.node} {row.device}"))
            self._spreads["inside", statistic] = Spread([Pool("", held) for held in nodes.values()])
        return self._spreads["inside", statistic]

    def spread_without(self, node: str, statistic: Statistic, *, by_slot: bool) -> tuple[float, float, int]:
        """How far good values lie apart, in degrees of freedom how well that is known, and how many are judged.

        Of few values by the other quantities of the same kind too. The figure of a node is the median of its devices,
        and varies at least as that of so many does.
        """
        asked = node, statistic, by_slot  # the same for all devices of a node, one after the other
        if self._last[0] != asked:
            spread = self.spread(statistic, by_slot=by_slot)
            own = self._known(spread, node, statistic, by_slot=by_slot)
            if self.of_devices:
                devices, many = self.of_devices
                of_one, freedom = devices.spread(statistic, by_slot=True).without(node)
                own = max(own, (of_one * of_median(many), freedom))
            self._last = asked, (*own, spread.count)
        return self._last[1]

    def _known(self, spread: Spread, node: str, statistic: Statistic, *, by_slot: bool) -> Known:
        own = spread.without(node)
        if self.members:
            singles = [(each.spread(statistic, by_slot=False).without(node), each.by_looks) for each in self.members]
            return of_joined(own, self.by_looks, singles)
        if spread.count > FEW:
            return own
        own = moderated(own, [each.spread(statistic, by_slot=by_slot).without(node) for each in self.kin])
        return with_looks(own, self.by_looks, self.scatter.freedom) if statistic is Statistic.USUAL else own


def key_of(platform: str, metric: Metric) -> Key:
    """What two numbers share that can be compared."""
    return (platform, metric.unit, metric.better, *metric.key)


def words(key: Key) -> dict[str, str]:
    """The conditions of a quantity."""
    return dict(cast("tuple[tuple[str, str], ...]", key[4]))


def without(key: Key, *conditions: str) -> Key:
    """A key without some of its conditions."""
    return *key[:4], tuple(each for each in words(key).items() if each[0] not in conditions)


def related(quantities: Mapping[Key, Quantity]) -> None:
    """Tell each quantity its kin, what it is the figure of, and what it joins."""
    kinds: defaultdict[Key, list[Quantity]] = defaultdict(list)
    by_number = {each.number: each for each in quantities.values()}
    for key, found in quantities.items():
        said, name = words(key), str(key[3])
        tool = name.partition(".")[0]
        what = name if tool == _OF_CHIPS else tool
        kind = (*key[:3], what, OF in said, said.get("group"), said.get("nodes"))
        found.kin = kinds[kind]
        found.kin.append(found)
        devices = quantities.get(without(key, OF)) if OF in said else None
        found.of_devices = (devices, int(said[OF])) if devices else None
        found.members = [by_number[int(each)] for each in said.get(TOGETHER, "").split()]


def node_figures(metrics: Sequence[Metric]) -> list[Metric]:
    """The median over the devices of a node, of each quantity that enough of them have; one for each attempt.

    Eight GPUs that are 3 % slow together cannot be chance, where one can.
    """
    alike: defaultdict[object, list[Metric]] = defaultdict(list)
    for metric in metrics:
        if metric.device and metric.unit in _DEVICES:
            alike[metric.key].append(metric)
    found = []
    for group in (each for each in alike.values() if len(each) >= _MIN_DEVICES):
        values = tuple(map(median, zip(*(metric.values for metric in group), strict=False)))
        conditions = {**group[0].conditions, OF: str(len(group))}
        found.append(replace(group[0], values=values, device="", conditions=conditions, launch="", over_runs={}))
    return found


def key_of_devices(figure: Metric) -> object:
    """The key of the devices that a figure is the median of."""
    return replace(figure, conditions={name: it for name, it in figure.conditions.items() if name != OF}).key


class Joined(NamedTuple):
    """The numbers of a family as one, and the name of the one that has lost most."""

    metric: Metric
    worst: str


class Together:
    """Joins the numbers of a node that are slow for one reason: they are judged by the mean of what each has left.

    Six collectives that each lose 4 % in the noise are beyond chance together, where none of them is alone.
    """

    def __init__(self) -> None:
        self._nodes: defaultdict[tuple[str, str], list[tuple[int, Metric]]] = defaultdict(list)
        self._values: defaultdict[int, list[float]] = defaultdict(list)

    def add(self, node: str, metric: Metric, number: int) -> None:
        """A number of a node as a whole, of the quantity with this number."""
        family = _FAMILY.get(metric.name)
        if family and not metric.device and not metric.launch:
            self._nodes[node, family].append((number, metric))
            self._values[number].append(metric.judged)

    def joined(self) -> Iterator[tuple[str, Joined]]:
        """Each node with its families: a value a look, in per cent of what the nodes have in the middle."""
        middles = {number: median(values) for number, values in self._values.items() if len(values) > 1}
        for (node, family), members in self._nodes.items():
            known = [(number, metric, middles[number]) for number, metric in members if middles.get(number)]
            if len(known) > 1:
                parts = ([value / middle for value in metric.values] for _, metric, middle in known)
                values = tuple(100 * fmean(look) for look in zip(*parts, strict=False))
                numbers = " ".join(str(number) for number, _, _ in known)  # quantities of other software are others
                worst = min(known, key=lambda each: each[1].judged / each[2])[1].name
                yield node, Joined(Metric(f"together.{family}", values, "%", conditions={TOGETHER: numbers}), worst)
