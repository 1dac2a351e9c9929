"""The launches over nodes that are alike: pairs, racks, the fleet, and the search in those that are bad."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from nodegate.measure.groups.bisect import bisect
from nodegate.measure.groups.group_node import COLLECTIVES
from nodegate.measure.groups.launch import Launch, sweep
from nodegate.measure.groups.plan import PAIR, fleet, pair, pairs, racks, without
from nodegate.measure.groups.split_run import measure_split
from nodegate.measure.rdma.pairing import with_good_ones

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from nodegate.measure.groups.bisect import Found
    from nodegate.measure.groups.group_node import GroupNode
    from nodegate.measure.groups.launch_session import LaunchSession
    from nodegate.measure.groups.plan import Group
    from nodegate.measure.groups.result import GroupRun
    from nodegate.measure.measurement import Pool

PARTNERS_AGAIN = 2
SEARCH_TIMES = 8.0  # the longest search for a node, in time limits of a launch
PART_S, PART_SHARE = 60.0, 0.4  # time limit of a part of a group, or this share of a launch's limit if longer
SLOW_SHARE = 0.9  # not a limit: a part this much slower than the best one is searched next


class Tour:
    """The launches over nodes that are alike."""

    def __init__(self, launch_session: LaunchSession, ready: Sequence[GroupNode], pool: Pool) -> None:
        self._launch_session, self._pool = launch_session, pool
        self._names = [member.name for member in sorted(ready, key=lambda each: each.target.node.rack)]
        self._rack_of = {member.name: member.target.node.rack for member in ready}
        self._durations = ready[0].target.durations
        self._rdma = any(device.address for device in ready[0].target.facts.rdma.devices)
        self._speeds: dict[tuple[Group, str], float] = {}  # GB/s of what was launched over a group

    @property
    def names(self) -> Sequence[str]:
        """All nodes, rack by rack."""
        return self._names

    def speed(self, group: Group, what: str) -> float:
        """The bus bandwidth of a collective that was launched over a group, in GB/s; 0 without one."""
        return self._speeds.get((group, what), 0.0)

    def pairs_with_good_ones(self, name: str) -> list[Group]:
        """The pairs in which a node was launched with one that is known to be good."""
        pairs = dict.fromkeys(group for group, _ in self._speeds if group.kind == PAIR and group.good)
        return [group for group in pairs if name in group.nodes and name not in group.good]

    def pairs(self) -> frozenset[str]:
        """Every pair with every collective; the nodes that are then known to be good."""
        groups = pairs(self._names)
        runs = self.all(groups)
        well = {name for group, run in runs.items() if run.is_well for name in group.nodes}
        bad = {group: run for group, run in runs.items() if not run.is_well}
        if bad:
            sets = [tuple(name for name in group.nodes if name not in well) for group in bad]
            found = self.search(bad, disjoint(sets), sorted(well, key=self._names.index))
            left_out = [name for name in self._names if name in found.cleared]
            if well:  # their own pair said nothing about them
                for place in with_good_ones(left_out, sorted(well, key=self._names.index), 1):
                    self.all([pair(name, partner, [partner]) for name, partner in place])
            well |= found.cleared
        return frozenset(well)

    def pairs_again(self, bad: Sequence[str], good: Sequence[str]) -> frozenset[str]:
        """Suspects with nodes that passed, one after the other; if none passed, as at first."""
        if not good:
            return self.pairs()
        well = set(good)
        for place in with_good_ones(bad, good, PARTNERS_AGAIN):
            runs = self.all([pair(suspect, partner, [partner]) for suspect, partner in place])
            well.update(name for group, run in runs.items() if run.is_well for name in group.nodes)
        return frozenset(well)

    def apart(self, well: frozenset[str]) -> None:
        """The fleet in one launch, each node by itself: whether it starts, and each node's own time.

        Nodes that are bad in a pair stay out: one that hangs there hangs here too, and costs every node its time.
        """
        names = [name for name in self._names if name in well]
        if fleet(names) and not self._pool.cancelled:
            chosen = sweep(self._durations, rdma=self._rdma, short=True)
            measure_split(
                self._launch_session, names, Launch("all_reduce", chosen, self._durations.group_s, apart=True)
            )

    def big(self, well: frozenset[str]) -> None:
        """Racks at the same time, then the fleet; nodes that are bad in a pair would break it for all and stay out."""
        names = [name for name in self._names if name in well]
        bad = self._together(racks(names, self._rack_of), names)
        names = [name for name in names if name not in bad]
        self._together(fleet(names), names)

    def _together(self, groups: Sequence[Group], names: Sequence[str]) -> list[str]:
        """These groups at the same time, the search in the bad ones, and each again without the nodes that it names."""
        bad = {group: run for group, run in self.all(groups).items() if not run.is_well}
        if not bad:
            return []
        outside = [name for name in names if not any(name in group.nodes for group in bad)]
        found = self.search(bad, [group.nodes for group in bad], outside)
        self.all([less for group in bad for less in without(group, found.blamed)])
        return found.blamed

    def all(self, groups: Sequence[Group]) -> dict[Group, GroupRun]:
        """Every collective over these groups, the last one of each; a group that failed runs no more."""
        chosen = sweep(self._durations, rdma=self._rdma)
        last: dict[Group, GroupRun] = {}
        for collective in COLLECTIVES:
            going = [group for group in groups if group not in last or last[group].is_well]
            if not going or self._pool.cancelled:
                break
            runs = self._launch_session.launch(going, Launch(collective, chosen, self._durations.group_s))
            self._speeds |= {(group, collective): run.busbw_gb_per_s or 0.0 for group, run in runs.items()}
            last |= runs
        return last

    def search(
        self,
        bad: Mapping[Group, GroupRun],
        sets: Sequence[tuple[str, ...]],
        good: Sequence[str],
    ) -> Found:
        """Halve what is bad, and note the result on each node."""
        found = self._bisected(sets, good, next(iter(bad.values())).what, None)
        for group in bad:
            self.note(group, found)
        return found

    def search_slow(self, groups: Sequence[Group], good: Sequence[str], what: str) -> Found:
        """Halve what is slow: a part that is clearly slower than the best one has the slow node in it."""
        slowest = max((self.speed(group, what) for group in groups), default=0.0)
        return self._bisected([group.nodes for group in groups], good, what, [slowest])

    def _bisected(
        self, sets: Sequence[tuple[str, ...]], good: Sequence[str], what: str, best: list[float] | None
    ) -> Found:
        end = time.monotonic() + SEARCH_TIMES * self._durations.group_s

        def parts(groups: Sequence[Group]) -> list[bool]:
            return self._parts(groups, what, best)

        return bisect(sets, good, parts, may_go_on=lambda: time.monotonic() < end and not self._pool.cancelled)

    def _parts(self, groups: Sequence[Group], what: str, best: list[float] | None) -> list[bool]:
        """Whether these parts succeed; if a slow node is searched, also as fast as the best part so far.

        Parts become smaller, and smaller groups are no slower by themselves.
        """
        limit_s = min(self._durations.group_s, max(PART_S, PART_SHARE * self._durations.group_s))
        chosen = sweep(self._durations, rdma=self._rdma, short=True)
        runs = self._launch_session.launch(groups, Launch(what, chosen, limit_s))
        if best is None:
            return [runs[group].is_well for group in groups]
        speeds = [runs[group].busbw_gb_per_s or 0.0 for group in groups]
        best[0] = max(best[0], *speeds)
        return [
            runs[group].is_well and speed >= SLOW_SHARE * best[0] for group, speed in zip(groups, speeds, strict=True)
        ]

    def note(self, group: Group, found: Found) -> None:
        """Note the result of the search on each node of the group."""
        blamed = [name for name in found.blamed if name in group.nodes]
        together = [each for each in found.together if set(each) <= set(group.nodes)]
        open_ones = [each for each in found.undecided if set(each) <= set(group.nodes)]
        said = ""
        if together:
            said = f"{_shown(together[0])} fail only together, and succeed in halves"
        elif open_ones:
            said = f"it is among {_shown(open_ones[0])}: no time was left, or no good node, to distinguish them"
        elif not blamed:
            said = "each of its nodes succeeds with others: the path between them is bad"
        for collective in COLLECTIVES:
            self._launch_session.add_labels(group, collective, blamed=" ".join(blamed), searched=said)

    def note_left_out(self, group: Group, names: Sequence[str]) -> None:
        """Note on each node of a launch that it is good because these others take no part."""
        for collective in COLLECTIVES:
            self._launch_session.add_labels(group, collective, left_out=" ".join(names))


def disjoint(sets: Iterable[Sequence[str]]) -> list[tuple[str, ...]]:
    """The sets, with those that share a node merged: the odd node is in a pair of its neighbour."""
    found: list[tuple[str, ...]] = []
    for each in filter(None, sets):
        shared = [other for other in found if not set(other).isdisjoint(each)]
        joined = tuple(dict.fromkeys(name for one in (*shared, each) for name in one))
        found = [other for other in found if other not in shared] + [joined]
    return found


def _shown(names: Sequence[str]) -> str:
    return ", ".join(names) if len(names) <= 8 else f"{', '.join(names[:8])} and {len(names) - 8} more"
