"""The levels above a device and a node: the batch or the rack of a node, and the place of a device on all nodes."""

from __future__ import annotations

from array import array
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping

from nodegate.metric import Metric
from nodegate.numbers.batches import Batch, Traits, find_batches
from nodegate.numbers.margins import Margins
from nodegate.numbers.node_figures import OF
from nodegate.numbers.slots import Slot, find_slot, is_compared

Key = tuple[object, ...]

Software = tuple[tuple[str, str], ...]

# Conditions that say with which software something was measured: numbers are compared across them, which is said.
SOFTWARE = frozenset({"driver", "cublas", "cuda", "nccl", "tool_version"})
_TOGETHER = "group"  # the condition of what several nodes measured with each other


def key_of(platform: str, metric: Metric) -> Key:
    """What two numbers share that can be compared at all: all but the software, and how many devices a figure is of."""
    name, conditions = metric.key
    kept = tuple(each for each in conditions if each[0] not in SOFTWARE and each[0] != OF)
    return (platform, metric.unit, metric.better, name, kept)


def software_of(metric: Metric) -> Software:
    """With what it was measured."""
    return tuple(sorted((name, value) for name, value in metric.conditions.items() if name in SOFTWARE))


def _columns() -> defaultdict[str, array[float]]:
    return defaultdict(lambda: array("d"))


class Levels:
    """The numbers of a fleet by what its nodes have in common. `traits` says what sets each node apart."""

    def __init__(self, traits: Traits) -> None:
        self._traits = traits
        # Of the kinds of numbers that may be compared, those that differ in software only.
        self.keys: dict[int, Key] = {}
        self._software: defaultdict[Key, Counter[Software]] = defaultdict(Counter)
        self._whole: defaultdict[Key, dict[str, tuple[float, Software]]] = defaultdict(dict)  # by node
        self._same: dict[Software, Software] = {}  # most nodes have the same: it is kept once
        self._places: defaultdict[Key, defaultdict[str, array[float]]] = defaultdict(_columns)
        self._batches: dict[Key, Mapping[str, tuple[Batch, ...]]] = {}
        self._slots: dict[tuple[object, ...], Slot | None] = {}

    def add(self, node: str, platform: str, metric: Metric, number: int) -> None:
        """Take in a number of a device, a node, or a figure of a node; it is of the kind `number`."""
        if not platform:
            return
        key = self.keys.setdefault(number, key_of(platform, metric))
        software = software_of(metric)
        software = self._same.setdefault(software, software)
        self._software[key][software] += 1
        if metric.device:
            if is_compared(metric):
                self._places[key][metric.device].append(metric.judged)
        elif not metric.launch and _TOGETHER not in metric.conditions:
            self._whole[key][node] = metric.judged, software

    def unlike(self, key: Key, metric: Metric) -> str:
        """In words, with what else most of the others measured: "driver 570.1, most others 580.2"."""
        own = software_of(metric)
        others = Counter({each: count for each, count in self._software[key].items() if each != own})
        if not others:
            return ""
        usual = dict(others.most_common(1)[0][0])
        odd = [(name, dict(own).get(name, "none"), usual.get(name, "none")) for name in {**dict(own), **usual}]
        return ", ".join(f"{name} {mine}, most others {its}" for name, mine, its in odd if mine != its)

    def batches(self, node: str, platform: str, metric: Metric, margins: Margins) -> tuple[Batch, ...]:
        """The batches of this node that are behind the rest of the fleet, by figures of nodes, not by devices."""
        key = key_of(platform, metric)
        if key not in self._batches:
            self._batches[key] = self._found(key, margins, higher_is_better=metric.better == "higher")
        return self._batches[key].get(node, ())

    def _found(self, key: Key, margins: Margins, *, higher_is_better: bool) -> Mapping[str, tuple[Batch, ...]]:
        whole = self._whole.get(key, {})
        if len(whole) < max(margins.peers_min, 2):
            return {}
        values = {node: first for node, (first, _) in whole.items()}
        software = {node: own for node, (_, own) in whole.items()}
        traits = {node: self._traits_of(node, own) for node, own in software.items()}
        return find_batches(values, traits, software, margins, higher_is_better=higher_is_better)

    def _traits_of(self, node: str, software: Software) -> Mapping[str, str]:
        known = self._traits.get(node, {})
        told = frozenset(known.values())
        return {**known, **{name: value for name, value in software if value not in told}}

    def slot(self, platform: str, metric: Metric, like: Collection[str], margins: Margins) -> Slot | None:
        """The place of a device, if it is behind the places that are `like` it on all nodes."""
        if not is_compared(metric):
            return None
        key = key_of(platform, metric)
        asked = (key, metric.device, frozenset(like))
        if asked not in self._slots:
            self._slots[asked] = find_slot(metric.device, self._places.get(key, {}), like, margins)
        return self._slots[asked]
