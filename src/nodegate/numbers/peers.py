"""The same quantity on the other nodes of the platform: what a measured number is compared with in its own fleet."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median, stdev

from nodegate.metric import Metric, Statistic
from nodegate.numbers.against_others import Slot, find_slot, is_place
from nodegate.numbers.comparison import FewPeers, Margins, NoPeers, PeerGroup, believable
from nodegate.numbers.parts import Batch, Traits, find_batches, find_split
from nodegate.numbers.quantities import (
    OF,
    SOFTWARE,
    Joined,
    Key,
    Quantity,
    Row,
    Scatter,
    Together,
    key_of,
    node_figures,
    related,
    without,
)
from nodegate.numbers.spread import Pool, of_median, of_own_looks
from nodegate.text import counted

_TOLD = 4.0  # degrees of freedom from which on looks tell their own noise
_NODES_DIFFER = 0.005  # choice: a number of a node as a whole, between good nodes; GEMM of ten public nodes: 0.5 %
_OF_BEST = 0.75  # the spread of the best of two and more looks, in that of one
_GROUP = "group"  # the condition of what several nodes measured with each other
Measured = Mapping[str, tuple[str, Sequence[Metric]]]  # node -> its platform ("" when unknown), what it measured
Earlier = Callable[[Metric], Sequence[float]]  # a device's values under the same conditions in earlier runs


class Peers:
    """The measured numbers of a fleet by their quantities. `traits` says what sets each node apart."""

    def __init__(
        self,
        quantities: Mapping[Key, Quantity],
        platforms: Mapping[str, str],
        traits: Traits,
        joined: Mapping[str, Sequence[Joined]],
    ) -> None:
        related(quantities)
        self.joined = joined
        self._quantities, self._platforms, self._traits = quantities, platforms, traits
        self._alike: defaultdict[Key, list[Quantity]] = defaultdict(list)  # those that differ in software only
        for each in quantities.values():
            if each.key[0] and not each.members:
                self._alike[each.loose].append(each)
        self._unions: dict[Quantity, Quantity] = {}
        self._batches: dict[Key, Mapping[str, tuple[Batch, ...]]] = {}
        self._places: dict[Key, Mapping[str, Sequence[float]]] = {}
        self._slots: dict[tuple[object, ...], Slot | None] = {}
        self._devices: dict[Quantity | None, Mapping[str, Mapping[str, float]]] = {None: {}}

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
        found: dict[Key, Quantity] = {}
        platforms: dict[str, str] = {}
        together, joined = Together(), defaultdict[str, list[Joined]](list)

        def add(node: str, metric: Metric) -> Quantity:
            key = key_of(platforms[node], metric)
            quantity = found.get(key) or found.setdefault(key, Quantity(key, len(found)))
            quantity.add(node, metric.device, metric.launch, metric.values)
            return quantity

        for node, platform, metrics in nodes:
            platforms[node] = platform
            for metric in (*metrics, *node_figures(metrics)):
                if all(map(believable, metric.values)):
                    together.add(node, metric, add(node, metric).number)
        for node, each in together.joined():
            add(node, each.metric)
            joined[node].append(each)
        return Peers(found, platforms, traits or {}, joined)

    def of_node(self, node: str, earlier: Earlier | None = None) -> NodePeers:
        """What a check on this node gets as its argument `peers`; `earlier` gives the node's own past."""
        return NodePeers(self, node, earlier)

    def group(
        self, node: str, metric: Metric, margins: Margins, statistic: Statistic | None = None
    ) -> PeerGroup | NoPeers:
        """The same quantity on the other nodes of this node's platform, by the same statistic of as many looks.

        Slot is compared with slot where enough nodes have this device, else all devices with all: a slot may be warmer
        or further from its NIC by design. Where too few have the same software, those with another one are taken.
        """
        platform, quantity = self.platform(node), self._of(node, metric)
        if not platform:
            return NoPeers("the platform is not known")
        whose, statistic = metric.launch or node, statistic or metric.statistic
        needed = max(margins.peers_min, 2)
        found = self._group(quantity, whose, metric, margins, statistic)
        if found is not None:
            return found
        pool = quantity.pool(None, statistic) if quantity else Pool("", ())
        others = pool.others(whose)
        if metric.launch:
            few = f"only {others + 1} launch{'es' if others else ''} over so many nodes of platform {platform}"
            return NoPeers(f"{few} ({needed:g} are needed to compare)", pool.values_of_others(whose))
        alike = self._alike.get(without(key_of(platform, metric), *SOFTWARE, OF), ())
        if len(alike) > 1:
            union = self._unions.get(alike[0]) or self._unions.setdefault(alike[0], Quantity.of_all(alike))
            if found := self._group(union, node, metric, margins, statistic):
                return replace(found, unequal=_unlike(alike, metric))
        return NoPeers(
            f"only {counted(others + 1, 'node')} of platform {platform} measured it in the same way"
            f" ({needed:g} are needed to compare)",
            few=self._few(node, quantity, metric, statistic, margins) if quantity and others else None,
            scatter=quantity.scatter.spread if quantity else 0.0,
        )

    def _group(
        self, quantity: Quantity | None, whose: str, metric: Metric, margins: Margins, statistic: Statistic
    ) -> PeerGroup | None:
        """The others, this device of all nodes where enough have it, else all devices of all; None where too few."""
        needed = max(margins.peers_min, 2)
        pools = (quantity.pool(each, statistic) for each in (metric.device, None)) if quantity else ()
        pool = next((each for each in pools if each.others(whose) + 1 >= needed), None)
        if quantity is None or pool is None:
            return None
        parts = margins.slow_part_min, margins.fast_part_min
        if parts not in pool.splits:
            pool.splits[parts] = find_split(pool.held, *parts, higher_is_better=metric.better == "higher")
        center = pool.median_without(whose)
        spread, freedom, judged = quantity.spread_without(whose, statistic, by_slot=bool(pool.device))
        noise = Scatter()
        if statistic is Statistic.USUAL:
            noise, (center, spread) = quantity.scatter, _for_these_looks(center, spread, quantity, metric)
        return PeerGroup(
            pool.others(whose),
            len(pool) - len(pool.own(whose)),
            center,
            spread,
            freedom,
            judged,
            device=pool.device,
            split=pool.splits[parts],
            scatter=noise.spread,
            disturbed=noise.disturbed,
        )

    def _few(
        self, node: str, quantity: Quantity, metric: Metric, statistic: Statistic, margins: Margins
    ) -> FewPeers | None:
        """The few other nodes. How far good ones lie apart is told by the looks and by the devices, hardly by them."""
        values = quantity.pool(metric.device, statistic).values_of_others(node)
        between, freedom = _NODES_DIFFER, math.inf
        if quantity.of_devices:
            between, freedom = quantity.of_devices[0].inside(metric.statistic).without(f"{node} ")
            between *= of_median(quantity.of_devices[1])
        elif metric.device:
            between, freedom = quantity.inside(metric.statistic).without(f"{node} {metric.device}")
        told, noise = quantity.scatter.freedom, margins.past_noise
        if statistic is Statistic.USUAL and told >= _TOLD:
            noise = math.sqrt(quantity.of_looks(len(metric.values))[1])
        elif len(metric.values) > 1:  # the best of several
            noise, told = max(_OF_BEST * noise, stdev(metric.values) / abs(median(metric.values) or 1)), math.inf
        return FewPeers(values, math.hypot(between, noise), freedom if between > noise else told or math.inf)

    def inside(self, metric: Metric, node: str) -> tuple[float, float, int]:
        """How far good devices lie from the others of their node: the spread, its degrees of freedom, of how many.

        Of all nodes of the platform together, each around its own median; of few nodes without the judged device.
        """
        quantity = self._of(node, metric)
        if quantity is None:
            return 0.0, 1.0, 1
        spread = quantity.inside(metric.statistic)
        return *spread.without(f"{node} {metric.device}"), spread.count

    def batches(self, node: str, metric: Metric, margins: Margins) -> tuple[Batch, ...]:
        """The batches of this node that are behind the rest of the fleet, by figures of nodes, not by devices."""
        quantity = self._of(node, metric)
        if quantity is None:
            return ()
        if quantity.loose not in self._batches:
            self._batches[quantity.loose] = self._found_batches(quantity.loose, metric, margins)
        return self._batches[quantity.loose].get(node, ())

    def _found_batches(self, key: Key, metric: Metric, margins: Margins) -> Mapping[str, tuple[Batch, ...]]:
        whole = {
            row.node: (_judged(row, metric), quantity.software)
            for quantity in self._alike.get(key, ())
            for row in quantity.rows("")
            if not row.launch and _GROUP not in metric.conditions
        }
        nodes = [node for node in self._platforms if node in whole]  # in the order of the fleet
        if len(nodes) < max(margins.peers_min, 2):
            return {}
        traits = {}
        for node in nodes:
            known, software = self._traits.get(node, {}), whole[node][1]
            told = frozenset(known.values())
            traits[node] = {**known, **{name: value for name, value in software if value not in told}}
        values, software_of = {node: whole[node][0] for node in nodes}, {node: whole[node][1] for node in nodes}
        return find_batches(values, traits, software_of, margins, higher_is_better=metric.better == "higher")

    def slot(self, node: str, metric: Metric, like: frozenset[str], margins: Margins) -> Slot | None:
        """The place of a device, if it is behind the places that are `like` it on all nodes."""
        quantity = self._of(node, metric) if is_place(metric) else None
        if quantity is None:
            return None
        key = quantity.loose
        if key not in self._places:
            places: defaultdict[str, list[float]] = defaultdict(list)
            for row in (row for quantity in self._alike.get(key, ()) for row in quantity.rows()):
                if row.device:
                    places[row.device].append(_judged(row, metric))
            self._places[key] = places
        asked = (key, metric.device, like)
        if asked not in self._slots:
            self._slots[asked] = find_slot(metric.device, self._places[key], like, margins)
        return self._slots[asked]

    def platform(self, node: str) -> str:
        """The platform of a node; empty if it is not known."""
        return self._platforms.get(node, "")

    def together(self, metric: Metric, node: str) -> frozenset[str]:
        """The nodes of the launch that gave this node its number, itself among them."""
        quantity = self._of(node, metric)
        if quantity is None or not metric.launch:
            return frozenset()
        return frozenset(row.node for row in quantity.rows() if row.launch == metric.launch)

    def of_devices(self, node: str, metric: Metric) -> Mapping[str, Mapping[str, float]]:
        """For each device the best value of each node that measured the same quantity of it."""
        quantity = self._of(node, metric)
        if quantity not in self._devices:
            found: defaultdict[str, dict[str, float]] = defaultdict(dict)
            for row in quantity.rows() if quantity else ():
                found[row.device][row.node] = max(row.seen) if metric.better == "higher" else min(row.seen)
            self._devices[quantity] = found
        return self._devices[quantity]

    def _of(self, node: str, metric: Metric) -> Quantity | None:
        return self._quantities.get(key_of(self.platform(node), metric))


def _for_these_looks(center: float, spread: float, quantity: Quantity, metric: Metric) -> tuple[float, float]:
    """Median and spread of the others as with as many looks as this node has had, and as unsteady a device.

    A launch of it may have hung, or its run was resumed.
    """
    spread = max(spread, of_own_looks(metric.values, better=metric.better))
    own, usual = len(metric.values), quantity.looks[1]
    if own != usual:
        (middle, variance), (its_middle, its_variance) = map(quantity.of_looks, (own, usual))
        spread, center = math.sqrt(max(spread**2 + variance - its_variance, 0.0)), center * middle / its_middle
    return center, spread


def _judged(row: Row, metric: Metric) -> float:
    return metric.statistic.of(row.seen, better=metric.better) or 0.0


def _unlike(alike: Sequence[Quantity], metric: Metric) -> str:
    """In words, with what else most of the others measured: "driver 570.1, most others 580.2"."""
    own = {name: value for name, value in sorted(metric.conditions.items()) if name in SOFTWARE}
    others: Counter[tuple[tuple[str, str], ...]] = Counter()
    for each in alike:
        if dict(each.software) != own:
            others[each.software] += len(each)
    if not others:
        return ""
    usual = dict(others.most_common(1)[0][0])
    odd = [(name, own.get(name, "none"), usual.get(name, "none")) for name in {**own, **usual}]
    return ", ".join(f"{name} {mine}, most others {its}" for name, mine, its in odd if mine != its)


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

    def of_devices(self, metric: Metric) -> Mapping[str, Mapping[str, float]]:
        """For each device the best value of each node, this one too, that measured the same quantity of it."""
        return self.peers.of_devices(self.node, metric)
