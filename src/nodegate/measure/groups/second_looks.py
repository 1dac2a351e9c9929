"""Second looks at suspects: in pairs with nodes that passed; and at the racks and fleets that were slow."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from statistics import median
from typing import Literal

from nodegate.measure.groups.group_node import COLLECTIVES
from nodegate.measure.groups.plan import PAIR, Group, pair, pairs_by_rack, without
from nodegate.measure.groups.result import NAMES
from nodegate.measure.groups.search import Result
from nodegate.measure.groups.tour import SEARCHES, Tour
from nodegate.numbers.assessments import Doubt, Suspects

Enough = Mapping[str, float]  # collective -> what it has to reach, in GB/s

PARTNERS = 2
SLOWER = 0.975  # not a limit: of two nodes the one that is this much slower than the other makes their pair slow
GOOD_PAIRS = 4  # 8 nodes, enough to compare with (measured.peers_min)
FAR_SHARE = 0.96  # not a limit: a node that is this much slower over racks than good ones is left out of what follows
_KINDS: tuple[Literal["rack"], Literal["fleet"]] = ("rack", "fleet")  # the fleet last: it has the racks' nodes
_COLLECTIVE = {name: what for what, name in NAMES.items()}


class PairsAgain:
    """The second looks at suspects in pairs.

    A suspect whose rack has no other good node meets good ones of other racks, and in some fabrics these pairs are
    slower than those of one rack. Then they are compared with good pairs over racks, not with pairs of one rack.

    `compared` are the good nodes that were launched over racks to compare suspects with.
    """

    def __init__(self, tour: Tour, suspects: Suspects) -> None:
        self.tour, self._suspects = tour, suspects
        self.compared: set[str] = set()
        self._good_pairs: list[Group] = []
        self._enough: dict[str, float] = {}  # by collective, what pairs have to reach, as far as a suspect does not
        for _, doubt, what, enough in _doubts(suspects):
            if doubt.metric.conditions.get("group") == PAIR:
                self._enough[what] = max(self._enough.get(what, 0.0), enough)

    def run(self, bad: Sequence[str], good: Sequence[str]) -> frozenset[str]:
        """Suspects with nodes that passed, one after the other; if none passed, as at first. Who is then well."""
        if not good:
            return self.tour.pairs()
        doubts = (doubt for doubts in self._suspects.values() for doubt in doubts)
        # One that was held against pairs over racks already: those of this fabric are known to be slower.
        well, is_slower = set(good), any("racks" in doubt.metric.conditions for doubt in doubts)
        for place in self.tour.partners(bad, good, PARTNERS):
            met = [pair(suspect, partner, [partner]) for suspect, partner in place]
            far = [each for each in met if self.tour.is_far(each)]
            busy = {name for each in place for name in each}
            beside = self._good_ones_over_racks([name for name in good if name not in busy]) if far else []
            runs = self.tour.all([*met, *beside])
            well.update(name for group, run in runs.items() if run.is_well for name in group.nodes)
            is_slower |= self._is_slower_over_racks(far)
            self._note_far([*beside, *(far if is_slower else ())])
        if is_slower:
            if len(self._good_pairs) < GOOD_PAIRS:  # most good ones were partners of suspects
                more = self._good_ones_over_racks(good)
                self.tour.all(more)
                self._note_far(more)
            self._in_racks_again([name for name in bad if name in well])
        return frozenset(well)

    def slow_again(self) -> frozenset[str]:
        """The suspects whose pairs with nodes that passed were too slow again.

        A pair over two racks is held to what good ones over racks reach, not to what a pair of a rack does.
        """
        found = set()
        for name, doubt, what, enough in _doubts(self._suspects):
            if doubt.metric.conditions.get("group") != PAIR:
                continue
            pairs = self.tour.pairs_with_good_ones(name)
            far = FAR_SHARE * self.good_over_racks(what)
            least = {each: far if far and self.tour.is_far(each) else enough for each in pairs}
            if pairs and all(self.tour.speed(each, what) < least[each] for each in pairs):
                found.add(name)
        return frozenset(found)

    def good_over_racks(self, what: str) -> float:
        """The median of good pairs over two racks, in GB/s; 0 where none was launched."""
        return median([self.tour.speed(group, what) for group in self._good_pairs] or [0.0])

    def _good_ones_over_racks(self, good: Iterable[str]) -> list[Group]:
        """Good nodes of different racks with each other."""
        rack = self.tour.ties.rack_of
        known = sorted(filter(rack.get, good), key=rack.__getitem__)
        half = len(known) // 2
        halves = zip(known[:half], known[half:], strict=False)
        chosen = [each for each in halves if rack[each[0]] != rack[each[1]]][:GOOD_PAIRS]
        found = [pair(one, other, (one, other)) for one, other in chosen]
        self.compared.update(name for each in chosen for name in each)
        self._good_pairs += found
        return found

    def _is_slower_over_racks(self, far: Sequence[Group]) -> bool:
        """Whether pairs over racks do not reach what is enough: good ones, else all suspects of this round alike."""
        found = {what: self.good_over_racks(what) for what in self._enough}
        if not any(found.values()) and len(far) > 1:
            found = {what: max(self.tour.speed(group, what) for group in far) for what in self._enough}
        return any(0.0 < speed < self._enough[what] for what, speed in found.items())

    def _note_far(self, groups: Iterable[Group]) -> None:
        for group in groups:
            self.tour.note_all(group, partial(replace, racks=2))

    def _in_racks_again(self, suspects: Sequence[str]) -> None:
        """Pairs of suspects of one rack once more, and which of the two is the slower one with good nodes.

        Over racks a slow node may be as fast as all others. So a slow pair is held against both of its nodes, but where
        the other one is slower over racks too.
        """
        tour = self.tour
        among = [name for name in tour.names if name in suspects]
        far = [name for name in among if any(map(tour.is_far, tour.pairs_with_good_ones(name)))]
        groups = [each for each in pairs_by_rack(far, tour.ties.rack_of) if not tour.is_far(each)]
        tour.all(groups)
        for group, what in ((group, what) for group in groups for what in COLLECTIVES):
            first, second = sorted(group.nodes, key=lambda name: self._with_good_ones(name, what))
            if self._with_good_ones(first, what) < SLOWER * self._with_good_ones(second, what):
                tour.note_all(group, partial(replace, slower=first), what)

    def _with_good_ones(self, name: str, what: str) -> float:
        """The median of a node's pairs with good ones, in GB/s."""
        return median(self.tour.speed(each, what) for each in self.tour.pairs_with_good_ones(name))


def _doubts(suspects: Suspects) -> Iterator[tuple[str, Doubt, str, float]]:
    """Each suspect's doubts that have a limit, with the collective and what it has to reach in GB/s."""
    for name, doubts in suspects.items():
        for doubt in doubts:
            if doubt.metric.name in _COLLECTIVE and doubt.enough is not None:
                yield name, doubt, _COLLECTIVE[doubt.metric.name], doubt.enough


def slow_launches(suspects: Suspects) -> dict[Group, Enough]:
    """The racks and fleets whose nodes are all suspects because of the launch itself, and what each must reach."""
    nodes: defaultdict[str, dict[str, None]] = defaultdict(dict)
    enough: defaultdict[str, dict[str, float]] = defaultdict(dict)
    conditions: dict[str, Mapping[str, str]] = {}
    for name, doubt, what, least in _doubts(suspects):
        if launch := doubt.metric.launch:
            nodes[launch][name] = None
            enough[launch][what] = least
            conditions[launch] = doubt.metric.conditions
    return {
        Group(kind, launch, tuple(names)): enough[launch]
        for launch, names in nodes.items()
        for kind in _KINDS
        if (kind, str(len(names))) == (conditions[launch].get("group"), conditions[launch].get("nodes"))
    }


class SlowLaunches:
    """The launches that were slow, and what is known of their nodes. `slow_nodes` are known to be slow without them.

    A launch is as fast as its slowest node, so a slow one proves nothing of the others, for good or bad. Without the
    slow nodes it does.
    """

    def __init__(self, tour: Tour, slow_nodes: Collection[str]) -> None:
        self._tour, self._known = tour, set(slow_nodes)

    def run(self, slow: Mapping[Group, Enough]) -> None:
        """Racks at the same time, then the fleet: what was found in the racks is known there."""
        for kind in _KINDS:
            chosen = {group: enough for group, enough in slow.items() if group.kind == kind}
            if chosen:
                self._of_one_kind(chosen)

    def _of_one_kind(self, slow: Mapping[Group, Enough]) -> None:
        """Once more, without the slow nodes that are known by now; what is slow then is searched, and so on.

        Who is found is named only where the rest is fast without: one slow launch proves little.
        """
        found = {group: Result() for group in slow}
        still = self._still_slow(slow)
        for _ in range(SEARCHES):
            if not still:
                break
            more = self._searched(still, slow)
            for group in still:
                found[group].add(more)
            if not more.named:
                break
            self._known.update(more.named)
            still = self._still_slow({group: slow[group] for group in still})
        for group in slow:
            if group in still:
                found[group].blamed = []
            self._tour.note(group, found[group], "are slow")

    def _searched(self, still: Sequence[Group], slow: Mapping[Group, Enough]) -> Result:
        what = next(each for each in COLLECTIVES if any(each in slow[group] for group in still))
        sets = {smaller: slow[group].get(what, 0.0) for group in still for smaller in self._less(group)}
        needed = {name: enough for smaller, enough in sets.items() for name in smaller.nodes}
        outside = [name for name in self._tour.names if name not in needed and name not in self._known]

        def enough(group: Group) -> float:
            return max((needed.get(name, 0.0) for name in group.nodes), default=0.0)

        return self._tour.search_slow([smaller.nodes for smaller in sets], outside, what, enough)

    def _still_slow(self, slow: Mapping[Group, Enough]) -> list[Group]:
        """Launch them without the nodes that are known to be slow; those that are slow even so."""
        launched = {group: self._less(group) for group in slow}
        self._tour.all([smaller for less in launched.values() for smaller in less])
        still = []
        for group, less in launched.items():
            for smaller in less:
                if any(self._tour.speed(smaller, what) < enough for what, enough in slow[group].items()):
                    still.append(group)
                elif smaller != group:
                    self._tour.note_left_out(smaller, sorted(self._known.intersection(group.nodes)))
        return still

    def _less(self, group: Group) -> tuple[Group, ...]:
        """The launch without the nodes that are known to be slow; nothing if too few are left."""
        return (group,) if self._known.isdisjoint(group.nodes) else without(group, sorted(self._known))
