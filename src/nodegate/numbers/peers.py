"""The same quantity on the other nodes of the platform: what a measured number is compared with in its own fleet."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass, replace
from statistics import median
from typing import TYPE_CHECKING, cast

from nodegate.metric import Statistic
from nodegate.numbers.comparison import believable
from nodegate.numbers.kin import TOGETHER, Together
from nodegate.numbers.levels import Levels, key_of
from nodegate.numbers.node_figures import OF, node_figures
from nodegate.numbers.pool import FEW, PeerGroup, Pool, Spread
from nodegate.numbers.spread import moderated, of_joined, of_looks, of_median, of_own_looks, with_looks
from nodegate.numbers.table import Row, Table, TableMaker
from nodegate.text import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from nodegate.metric import Metric
    from nodegate.numbers.batches import Batch, Traits
    from nodegate.numbers.kin import Joined
    from nodegate.numbers.margins import Margins
    from nodegate.numbers.slots import Slot

    Measured = Mapping[str, tuple[str, Sequence[Metric]]]  # node -> its platform ("" when unknown), what it measured
    Earlier = Callable[[Metric], Sequence[float]]  # a device's values under the same conditions in earlier runs
    Key = tuple[object, ...]  # two metrics of one key are comparable

_OF_CHIPS = "burn"
_MOST_KNOWN = 4096  # spreads that are kept: those of one node at a time are needed


@dataclass(frozen=True)
class NoPeers:
    """Why there is nothing to compare with. `launches` are the values of the few other launches of this size."""

    reason: str
    launches: tuple[float, ...] = ()


class Peers:
    """The measured numbers of a fleet: the table of them, with the number of each comparable quantity."""

    def __init__(
        self,
        table: Table,
        keys: Mapping[Key, int],
        platforms: Mapping[str, str],
        levels: Levels,
        joined: Mapping[str, Sequence[Joined]],
    ) -> None:
        self._table, self.levels, self.joined = table, levels, joined
        self._keys, self._platforms = keys, platforms
        self._pools: dict[tuple[int, str | None, Statistic], Pool] = {}
        self._spreads: dict[tuple[int, bool, Statistic], Spread] = {}
        self._known_spreads: dict[tuple[str, int, Statistic, bool], tuple[float, float, int]] = {}
        self._alike: defaultdict[Key, list[int]] = defaultdict(list)
        for number, key in levels.keys.items():
            self._alike[key].append(number)
        self._scatters: dict[int, tuple[float, float]] = {}
        self._inside: dict[int, Spread] = {}
        self._devices: dict[int | None, Mapping[str, Mapping[str, float]]] = {}
        self._medians: dict[int | None, Mapping[str, float]] = {}
        self._members: dict[int, Mapping[str, frozenset[str]]] = {}
        self._better = {number: str(key[2]) for key, number in keys.items()}
        kinds: defaultdict[Key, list[int]] = defaultdict(list)
        for key, number in keys.items():
            kinds[_kind(key)].append(number)
        self._figures = {
            number: (keys[device], int(words[OF]))
            for key, number in keys.items()
            if OF in (words := _words(key)) and (device := _key_of_devices(key)) in keys
        }
        self._joined_of = {
            number: tuple(map(int, words[TOGETHER].split()))
            for key, number in keys.items()
            if TOGETHER in (words := _words(key))
        }
        self._kin = {number: numbers for numbers in kinds.values() for number in numbers}

    @staticmethod
    def of(measured: Measured, traits: Traits | None = None) -> Peers:
        """The fleet of a run. A value that cannot be a measurement is not counted.

        Args:
            measured: what each node measured.
            traits: what sets each node apart: its rack, its firmware.
        """
        return Peers.of_nodes(((node, *each) for node, each in measured.items()), traits)

    @staticmethod
    def of_nodes(nodes: Iterable[tuple[str, str, Sequence[Metric]]], traits: Traits | None = None) -> Peers:
        """As `of`, one node (name, platform and metrics) at a time, which keeps few metrics in memory."""
        keys: dict[Key, int] = {}
        platforms: dict[str, str] = {}
        levels, maker, together = Levels(traits or {}), TableMaker(), Together()
        for node, platform, metrics in nodes:
            platforms[node] = platform
            for metric in (*metrics, *node_figures(metrics)):
                if not all(map(believable, metric.values)):
                    continue
                number = keys.setdefault(_key(platform, metric), len(keys))
                levels.add(node, platform, metric, number)
                together.add(node, metric, number)
                maker.add(number, Row(node, metric.device, metric.launch, metric.values))
        joined: defaultdict[str, list[Joined]] = defaultdict(list)
        for node, each in together.joined():
            number = keys.setdefault(_key(platforms[node], each.metric), len(keys))
            maker.add(number, Row(node, "", "", each.metric.values))
            joined[node].append(each)
        return Peers(maker.table(), keys, platforms, levels, joined)

    def of_node(self, node: str, earlier: Earlier | None = None) -> NodePeers:
        """What a check on this node gets as its argument `peers`; `earlier` gives the node's own past."""
        return NodePeers(self, node, earlier)

    def group(
        self, node: str, metric: Metric, margins: Margins, statistic: Statistic | None = None
    ) -> PeerGroup | NoPeers:
        """The same quantity on the other nodes of this node's platform, by the same statistic of as many looks.

        Where this node has had another number of looks (a launch hung, a run was resumed) the median and the spread
        are those that so many looks would have.

        Slot is compared with slot where enough nodes have this device, else all devices with all: a slot may be warmer
        or further from its NIC by design.
        """
        platform = self.platform(node)
        if not platform:
            return NoPeers("the platform is not known")
        number, statistic = self._number(node, metric), statistic or metric.statistic
        needed = max(margins.peers_min, 2)
        whose = metric.launch or node
        pool = self._large_enough(number, metric.device, whose, needed, statistic)
        if pool.others(whose) + 1 >= needed:
            spread = self._spread_without(whose, number or 0, statistic, by_slot=bool(pool.device))
            found = pool.group(whose, margins, spread, higher_is_better=metric.better == "higher")
            return self._for_these_looks(found, number or 0, metric, statistic)
        if metric.launch:
            others = pool.others(whose)
            few = f"only {others + 1} launch{'es' if others else ''} over so many nodes of platform {platform}"
            return NoPeers(f"{few} ({needed:g} are needed to compare)", pool.values_of_others(whose))
        return self._with_other_software(node, metric, margins, statistic) or NoPeers(
            f"only {counted(pool.others(whose) + 1, 'node')} of platform {platform} measured it in the same way"
            f" ({needed:g} are needed to compare)"
        )

    def _for_these_looks(self, found: PeerGroup, number: int, metric: Metric, statistic: Statistic) -> PeerGroup:
        """The others as they would be with as many looks as this node has had, and as unsteady a device."""
        if statistic is not Statistic.USUAL:
            return found
        found = replace(found, spread=max(found.spread, of_own_looks(metric.values, better=metric.better)))
        own, usual = len(metric.values), self._looks_of(number)[1]
        if own == usual:
            return found
        (middle, variance), (its_middle, its_variance) = (self._of_looks(number, each) for each in (own, usual))
        spread = math.sqrt(max(found.spread**2 + variance - its_variance, 0.0))
        return replace(found, median=found.median * middle / its_middle, spread=spread)

    def _large_enough(self, number: int | None, device: str, whose: str, needed: float, statistic: Statistic) -> Pool:
        """This device of all nodes where enough have it, else all devices of all."""
        pool = self._pool(number, device, statistic)
        return pool if pool.others(whose) + 1 >= needed else self._pool(number, None, statistic)

    def _with_other_software(
        self, node: str, metric: Metric, margins: Margins, statistic: Statistic
    ) -> PeerGroup | None:
        """The nodes that measured the same with another driver or library; None if they are too few as well."""
        key = key_of(self.platform(node), metric)
        if len(self._alike.get(key, ())) < 2:
            return None
        number = -1 - self._alike[key][0]
        needed = max(margins.peers_min, 2)
        pool = self._large_enough(number, metric.device, node, needed, statistic)
        if pool.others(node) + 1 < needed:
            return None
        spread = self._spread_without(node, number, statistic, by_slot=bool(pool.device))
        found = pool.group(node, margins, spread, higher_is_better=metric.better == "higher")
        return replace(found, unequal=self.levels.unlike(key, metric))

    def inside(self, metric: Metric, node: str) -> tuple[float, float, int]:
        """How far good devices lie from the others of their node: the spread, its degrees of freedom, of how many.

        Of all nodes of the platform together, each around its own median; of few nodes without the judged device.
        """
        number = self._number(node, metric)
        if number is None:
            return 0.0, 1.0, 1
        if number not in self._inside:
            nodes: defaultdict[str, list[tuple[float, str]]] = defaultdict(list)
            value_of = self._value_of(number, metric.statistic)
            for row in self._rows(number):
                nodes[row.node].append((value_of(row.seen), f"{row.node} {row.device}"))
            self._inside[number] = Spread([Pool("", held) for held in nodes.values()])
        spread = self._inside[number]
        return *spread.without(f"{node} {metric.device}"), spread.count

    def platform(self, node: str) -> str:
        """The platform of a node; empty if it is not known."""
        return self._platforms.get(node, "")

    def together(self, metric: Metric, node: str) -> frozenset[str]:
        """The nodes of the launch that gave this node its number, itself among them."""
        number = self._number(node, metric)
        if number is None or not metric.launch:
            return frozenset()
        if number not in self._members:
            members: defaultdict[str, set[str]] = defaultdict(set)
            for row in self._rows(number):
                members[row.launch].add(row.node)
            self._members[number] = {launch: frozenset(names) for launch, names in members.items()}
        return self._members[number].get(metric.launch, frozenset())

    def of_device(self, node: str, metric: Metric) -> Mapping[str, float]:
        """The best value of each node that measured the same quantity of its device of this name."""
        return self._of_devices(self._number(node, metric)).get(metric.device, {})

    def medians_of_devices(self, node: str, metric: Metric) -> Mapping[str, float]:
        """For each device of a node the median over all nodes that measured the same quantity of it."""
        number = self._number(node, metric)
        if number not in self._medians:
            found = self._of_devices(number)
            self._medians[number] = {device: median(values.values()) for device, values in found.items()}
        return self._medians[number]

    def count_below(self, node: str, metric: Metric, bound: float) -> dict[str, int]:
        """For each device how many nodes stay below a bound with it."""
        found = self._of_devices(self._number(node, metric))
        return {device: sum(value < bound for value in values.values()) for device, values in found.items()}

    def _number(self, node: str, metric: Metric) -> int | None:
        return self._keys.get(_key(self.platform(node), metric))

    def _of_devices(self, number: int | None) -> Mapping[str, Mapping[str, float]]:
        if number not in self._devices:
            found: defaultdict[str, dict[str, float]] = defaultdict(dict)
            for row in () if number is None else self._rows(number):
                found[row.device][row.node] = max(row.seen) if self._better_of(number) == "higher" else min(row.seen)
            self._devices[number] = found
        return self._devices[number]

    def _pool(self, number: int | None, device: str | None, statistic: Statistic) -> Pool:
        if number is None:
            return Pool("", ())
        found = self._pools.get((number, device, statistic))
        if found is None:
            value_of = self._value_of(number, statistic)
            held = {(row.launch or row.node, row.device): value_of(row.seen) for row in self._rows(number, device)}
            found = self._pools[number, device, statistic] = Pool(
                device or "", [(value, whose) for (whose, _), value in held.items()]
            )
        return found

    def _value_of(self, number: int, statistic: Statistic) -> Callable[[tuple[float, ...]], float]:
        """The value of a row by its looks: by as many as most have had, or by as many as all have had."""
        better, (fewest, usual) = self._better_of(number), self._looks_of(number)
        if statistic is not Statistic.USUAL:
            return lambda seen: statistic.of(seen[:fewest], better=better) or 0.0
        expected = self._of_looks(number, usual)[0]

        def value(seen: tuple[float, ...]) -> float:
            own = statistic.of(seen, better=better) or 0.0
            return own if len(seen) == usual else own * expected / self._of_looks(number, len(seen))[0]

        return value

    def _of_looks(self, number: int, looks: int) -> tuple[float, float]:
        """The usual value of so many looks as a part of the true one, and its variance by the noise of a look."""
        middle, variance = of_looks(looks)
        scatter, _ = self._scatter(number)
        better = 1 if self._better_of(number) == "higher" else -1
        return 1 + better * middle * scatter, variance * scatter**2

    def _spread_without(
        self, node: str, number: int, statistic: Statistic, *, by_slot: bool
    ) -> tuple[float, float, int]:
        """How far good values lie apart, in degrees of freedom how well that is known, and how many are judged.

        Of few values by the other quantities of the same kind too: the collectives of a run, its copies. The figure of
        a node is the median of its devices, and varies at least as that of so many does.
        """
        key = node, number, statistic, by_slot  # the same for all devices of a node
        if key not in self._known_spreads:
            if len(self._known_spreads) >= _MOST_KNOWN:
                self._known_spreads.clear()
            self._known_spreads[key] = self._spread_of(node, number, statistic, by_slot=by_slot)
        return self._known_spreads[key]

    def _spread_of(self, node: str, number: int, statistic: Statistic, *, by_slot: bool) -> tuple[float, float, int]:
        spread = self._spread(number, statistic, by_slot=by_slot)
        own = spread.without(node)
        if members := self._joined_of.get(number):
            inside = [self._of_looks(each, self._looks_of(each)[1])[1] for each in (number, *members)]
            singles = [self._spread(each, statistic, by_slot=False).without(node) for each in members]
            own = of_joined(own, inside[0], [(*each, square) for each, square in zip(singles, inside[1:], strict=True)])
        elif spread.count <= FEW:
            kin = [
                self._spread(each, statistic, by_slot=by_slot).without(node) for each in self._kin.get(number, [number])
            ]
            own = moderated(own, kin)
            if statistic is Statistic.USUAL:
                own = with_looks(own, self._of_looks(number, self._looks_of(number)[1])[1], self._scatter(number)[1])
        if number in self._figures:
            devices, many = self._figures[number]
            of_one, freedom = self._spread(devices, statistic, by_slot=True).without(node)
            own = max(own, (of_one * of_median(many), freedom))
        return *own, spread.count

    def _spread(self, number: int, statistic: Statistic, *, by_slot: bool) -> Spread:
        found = self._spreads.get((number, by_slot, statistic))
        if found is None:
            devices: list[str | None] = [None]
            if by_slot:
                devices = list(dict.fromkeys(row.device for row in self._rows(number)))
            pools = [self._pool(number, each, statistic) for each in devices]
            found = self._spreads[number, by_slot, statistic] = Spread(pools)
        return found

    def _looks_of(self, number: int) -> tuple[int, int]:
        """The fewest looks at it, and how many most nodes have had."""
        return self._table.looks(*self._numbers(number))

    def _scatter(self, number: int) -> tuple[float, float]:
        """How far two looks at one part lie apart, as a part of its value, and how well that is known."""
        if number not in self._scatters:
            self._scatters[number] = self._table.scatter(*self._numbers(number))
        return self._scatters[number]

    def _better_of(self, number: int | None) -> str:
        return self._better[self._numbers(number or 0)[0]]

    def _rows(self, number: int, device: str | None = None) -> Iterator[Row]:
        return self._table.rows(*self._numbers(number), device=device)

    def _numbers(self, number: int) -> Sequence[int]:
        """The quantities that are meant: of a negative number all that differ in software only."""
        return (number,) if number >= 0 else self._alike[self.levels.keys[-1 - number]]


@dataclass(frozen=True)
class NodePeers:
    """The fleet as one node sees it, and the node's own past."""

    peers: Peers
    node: str
    earlier: Earlier | None = None

    def group(self, metric: Metric, margins: Margins, statistic: Statistic | None = None) -> PeerGroup | NoPeers:
        """The same quantity on the other nodes."""
        return self.peers.group(self.node, metric, margins, statistic)

    def joined(self) -> Sequence[Joined]:
        """The numbers of this node that are judged together, family by family."""
        return self.peers.joined.get(self.node, ())

    def of_device(self, metric: Metric) -> Mapping[str, float]:
        """The best value of each node, this one too, that measured the same quantity of its device of this name."""
        return self.peers.of_device(self.node, metric)

    def medians_of_devices(self, metric: Metric) -> Mapping[str, float]:
        """For each device of a node the median over all nodes that measured the same quantity of it."""
        return self.peers.medians_of_devices(self.node, metric)

    def count_below(self, metric: Metric, bound: float) -> dict[str, int]:
        """For each device how many nodes stay below a bound with it."""
        return self.peers.count_below(self.node, metric, bound)

    def batches(self, metric: Metric, margins: Margins) -> tuple[Batch, ...]:
        """The racks, firmwares and drivers that this node shares with others, and that are behind the rest with it."""
        return self.peers.levels.batches(self.node, self.peers.platform(self.node), metric, margins)

    def slot(self, metric: Metric, like: Collection[str], margins: Margins) -> Slot | None:
        """The place of a device, if it is behind the places that are `like` it on all nodes."""
        return self.peers.levels.slot(self.peers.platform(self.node), metric, like, margins)

    def inside(self, metric: Metric) -> tuple[float, float, int]:
        """How far good devices lie from the others of their node."""
        return self.peers.inside(metric, self.node)


def _key(platform: str, metric: Metric) -> Key:
    return (platform, metric.unit, metric.better, *metric.key)


def _kind(key: Key) -> Key:
    """What the quantities of one kind share: the platform, the unit, what they are of, and the tool by their name."""
    platform, unit, better, name, _ = key
    words = _words(key)
    tool = str(name).partition(".")[0]
    if tool == _OF_CHIPS:
        tool = str(name)  # the same chips are good in each type of numbers: they tell no more than one does
    return platform, unit, better, tool, OF in words, words.get("group"), words.get("nodes")


def _key_of_devices(figure: Key) -> Key:
    """The key of what the figure of a node is the median of."""
    return *figure[:4], tuple(each for each in _words(figure).items() if each[0] != OF)


def _words(key: Key) -> dict[str, str]:
    return dict(cast("tuple[tuple[str, str], ...]", key[4]))
