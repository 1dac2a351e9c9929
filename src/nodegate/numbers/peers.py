"""The same quantity on the other nodes of the platform: what a measured number is compared with in its own fleet."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median

from nodegate.metric import Metric, Statistic
from nodegate.numbers import quantity
from nodegate.numbers.batches import Batch, Traits
from nodegate.numbers.comparison import believable
from nodegate.numbers.kin import Joined, Together
from nodegate.numbers.levels import Levels, key_of
from nodegate.numbers.margins import Margins
from nodegate.numbers.node_figures import node_figures
from nodegate.numbers.pool import PeerGroup, Pool, Spread
from nodegate.numbers.quantities import Quantities
from nodegate.numbers.quantity import Key
from nodegate.numbers.slots import Slot
from nodegate.numbers.spread import of_own_looks
from nodegate.numbers.table import Row, Table, TableMaker
from nodegate.text import counted

Measured = Mapping[str, tuple[str, Sequence[Metric]]]  # node -> its platform ("" when unknown), what it measured

Earlier = Callable[[Metric], Sequence[float]]  # a device's values under the same conditions in earlier runs


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
        self.levels, self.joined = levels, joined
        self._keys, self._platforms = keys, platforms
        self._quantities = Quantities(table, keys, levels)
        self._inside: dict[int, Spread] = {}
        self._devices: dict[int | None, Mapping[str, Mapping[str, float]]] = {}
        self._medians: dict[int | None, Mapping[str, float]] = {}
        self._members: dict[int, Mapping[str, frozenset[str]]] = {}

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
                number = keys.setdefault(quantity.key(platform, metric), len(keys))
                levels.add(node, platform, metric, number)
                together.add(node, metric, number)
                maker.add(number, Row(node, metric.device, metric.launch, metric.values))
        joined: defaultdict[str, list[Joined]] = defaultdict(list)
        for node, each in together.joined():
            number = keys.setdefault(quantity.key(platforms[node], each.metric), len(keys))
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
            spread = self._quantities.spread_without(whose, number or 0, statistic, by_slot=bool(pool.device))
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
        noise, spread = self._quantities.scatter(number), of_own_looks(metric.values, better=metric.better)
        found = replace(found, spread=max(found.spread, spread), scatter=noise.spread, disturbed=noise.disturbed)
        own, usual = len(metric.values), self._quantities.looks_of(number)[1]
        if own == usual:
            return found
        (middle, variance), (its_middle, its_variance) = (
            self._quantities.of_looks(number, each) for each in (own, usual)
        )
        spread = math.sqrt(max(found.spread**2 + variance - its_variance, 0.0))
        return replace(found, median=found.median * middle / its_middle, spread=spread)

    def _large_enough(self, number: int | None, device: str, whose: str, needed: float, statistic: Statistic) -> Pool:
        """This device of all nodes where enough have it, else all devices of all."""
        pool = self._quantities.pool(number, device, statistic)
        return pool if pool.others(whose) + 1 >= needed else self._quantities.pool(number, None, statistic)

    def _with_other_software(
        self, node: str, metric: Metric, margins: Margins, statistic: Statistic
    ) -> PeerGroup | None:
        """The nodes that measured the same with another driver or library; None if they are too few as well."""
        key = key_of(self.platform(node), metric)
        if len(self._quantities.alike.get(key, ())) < 2:
            return None
        number = -1 - self._quantities.alike[key][0]
        needed = max(margins.peers_min, 2)
        pool = self._large_enough(number, metric.device, node, needed, statistic)
        if pool.others(node) + 1 < needed:
            return None
        spread = self._quantities.spread_without(node, number, statistic, by_slot=bool(pool.device))
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
            value_of = self._quantities.value_of(number, metric.statistic)
            for row in self._quantities.rows(number):
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
            for row in self._quantities.rows(number):
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
        return self._keys.get(quantity.key(self.platform(node), metric))

    def _of_devices(self, number: int | None) -> Mapping[str, Mapping[str, float]]:
        if number not in self._devices:
            found: defaultdict[str, dict[str, float]] = defaultdict(dict)
            for row in () if number is None else self._quantities.rows(number):
                found[row.device][row.node] = (
                    max(row.seen) if self._quantities.better_of(number) == "higher" else min(row.seen)
                )
            self._devices[number] = found
        return self._devices[number]


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
