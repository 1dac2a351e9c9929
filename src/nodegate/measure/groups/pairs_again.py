"""Suspects once more, in pairs with nodes that passed.

A suspect whose rack has no other good node meets good ones of other racks, and in some fabrics these pairs are slower
than those of one rack. Then they are compared with good pairs over racks, not with pairs of one rack.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from statistics import median
from typing import TYPE_CHECKING

from nodegate.measure.groups.group_node import COLLECTIVES
from nodegate.measure.groups.plan import pair, pairs_by_rack

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from nodegate.measure.groups.plan import Group
    from nodegate.measure.groups.tour import Tour

PARTNERS = 2
SLOWER = 0.975  # not a limit: of two nodes the one that is this much slower than the other makes their pair slow
GOOD_PAIRS = 4  # 8 nodes, enough to compare with (measured.peers_min)


class PairsAgain:
    """The second looks at suspects in pairs. `enough`: what a pair has to reach, by collective, in GB/s.

    `compared` are the good nodes that were launched over racks to compare suspects with.
    """

    def __init__(self, tour: Tour, enough: Mapping[str, float]) -> None:
        self.tour = tour
        self.compared: set[str] = set()
        self._enough = enough
        self._good_pairs: list[Group] = []

    def run(self, bad: Sequence[str], good: Sequence[str]) -> frozenset[str]:
        """Suspects with nodes that passed, one after the other; if none passed, as at first. Who is then well."""
        if not good:
            return self.tour.pairs()
        well, is_slower = set(good), False
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

    def good_over_racks(self, what: str) -> float:
        """The median of good pairs over two racks, in GB/s; 0 where none was launched."""
        speeds = [self.tour.speed(group, what) for group in self._good_pairs]
        return median(speeds or [0.0])

    def _good_ones_over_racks(self, good: Iterable[str]) -> list[Group]:
        """Good nodes of different racks with each other."""
        rack = self.tour.rack_of
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
        groups = [each for each in pairs_by_rack(far, tour.rack_of) if not tour.is_far(each)]
        tour.all(groups)
        for group, what in ((group, what) for group in groups for what in COLLECTIVES):
            first, second = sorted(group.nodes, key=lambda name: self._with_good_ones(name, what))
            if self._with_good_ones(first, what) < SLOWER * self._with_good_ones(second, what):
                tour.note_all(group, partial(replace, slower=first), what)

    def _with_good_ones(self, name: str, what: str) -> float:
        """The median of a node's pairs with good ones, in GB/s."""
        return median(self.tour.speed(each, what) for each in self.tour.pairs_with_good_ones(name))
