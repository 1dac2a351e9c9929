"""NCCL over groups of nodes: pairs of neighbours, racks, the whole fleet; and which node is at fault if one fails.

Pairs come first: a good partner shows which of two neighbours is bad. A rack or a fleet that hangs, fails or is
slow is halved until the node is isolated (bisection). A collective over many nodes is as fast as its slowest node, and
hangs with any that does; so a bad group says nothing about the single node, and does not count against it.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from nodegate.errors import CannotMeasure
from nodegate.measure.durations import OF_PROFILE
from nodegate.measure.groups.bisect import bisect
from nodegate.measure.groups.group_node import COLLECTIVES
from nodegate.measure.groups.launch import Launch, sweep
from nodegate.measure.groups.launch_session import LaunchSession
from nodegate.measure.groups.plan import fleet, pair, pairs, racks, without
from nodegate.measure.groups.result import ALONE, parse
from nodegate.measure.groups.split_run import measure_split
from nodegate.measure.measurement import Measurement
from nodegate.measure.nccl.launches import RESTS_ON
from nodegate.measure.nccl.run import gpu_count
from nodegate.measure.program_run import ProgramRun
from nodegate.measure.rdma.pairing import with_good_ones
from nodegate.profile import Profile

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from nodegate.facts import NodeFacts
    from nodegate.measure.durations import Durations
    from nodegate.measure.groups.bisect import Found
    from nodegate.measure.groups.group_node import GroupNode
    from nodegate.measure.groups.plan import Group
    from nodegate.measure.groups.result import GroupRun
    from nodegate.measure.measurement import Pool, Runs, Target

ALL_KINDS_FROM_S = OF_PROFILE[Profile.DELIVERY].group_s  # a run as thorough as this launches racks and the fleet too
PARTNERS_AGAIN = 2
SEARCH_TIMES = 8.0  # the longest search for a node, in time limits of a launch
PART_S, PART_SHARE = 60.0, 0.4  # time limit of a part of a group, or this share of a launch's limit if longer
SLOW_SHARE = 0.9  # not a limit: a part this much slower than the best one is searched next


def applies(facts: NodeFacts) -> str:
    """Why there is nothing to measure on a node. GPUs that cannot be read are reported when it is measured."""
    try:
        return "" if gpu_count(facts) else "no GPUs"
    except CannotMeasure:
        return ""


def measure(targets: Sequence[Target], pool: Pool) -> Runs:
    """Pairs, then racks and the fleet if the profile asks for them; each with the search for the node at fault."""
    with LaunchSession(targets, pool) as launch_session:
        for ready in launch_session.pools():
            if len(ready) < 2:
                _alone(launch_session, ready[0], len(targets))
                continue
            tour = Tour(launch_session, ready, pool)
            well = tour.pairs()
            if targets[0].durations.group_s >= ALL_KINDS_FROM_S:
                tour.apart(well)
                tour.big(well)
    return launch_session.runs


def again(targets: Sequence[Target], pool: Pool, suspects: frozenset[str]) -> Runs:
    """Suspects with nodes that passed; a rack or a fleet that is suspect as a whole once more, halved if it is slow."""
    with LaunchSession(targets, pool) as launch_session:
        for ready in launch_session.pools():
            names = [member.name for member in ready]
            bad, good = [name for name in names if name in suspects], [name for name in names if name not in suspects]
            if not bad or len(names) < 2:
                continue
            tour = Tour(launch_session, ready, pool)
            well = tour.pairs_again(bad, good)
            if targets[0].durations.group_s >= ALL_KINDS_FROM_S:
                tour.big(well, among=suspects, slow=True)
    return {name: runs for name, runs in launch_session.runs.items() if name in suspects and runs}


def _alone(launch_session: LaunchSession, member: GroupNode, count: int) -> None:
    like = f"no other node with {member.gpus} x {member.model}, the same path of nccl-tests and the same settings"
    why = "no other node takes part" if count < 2 else like
    launch_session.note(member.name, ProgramRun(what=ALONE, labels={"why": why}))


class Tour:
    """The launches over nodes that are alike."""

    def __init__(self, launch_session: LaunchSession, ready: Sequence[GroupNode], pool: Pool) -> None:
        self._launch_session, self._pool = launch_session, pool
        self._names = [member.name for member in sorted(ready, key=lambda each: each.target.node.rack)]
        self._rack_of = {member.name: member.target.node.rack for member in ready}
        self._durations = ready[0].target.durations
        self._rdma = any(device.address for device in ready[0].target.facts.rdma.devices)

    def pairs(self) -> frozenset[str]:
        """Every pair with every collective; the nodes that are then known to be good."""
        groups = pairs(self._names)
        runs = self._all(groups)
        well = {name for group, run in runs.items() if run.is_well for name in group.nodes}
        bad = {group: run for group, run in runs.items() if not run.is_well}
        if bad:
            sets = [tuple(name for name in group.nodes if name not in well) for group in bad]
            found = self._search(bad, disjoint(sets), sorted(well, key=self._names.index))
            left_out = [name for name in self._names if name in found.cleared]
            if well:  # their own pair said nothing about them
                for place in with_good_ones(left_out, sorted(well, key=self._names.index), 1):
                    self._all([pair(name, partner, [partner]) for name, partner in place])
            well |= found.cleared
        return frozenset(well)

    def pairs_again(self, bad: Sequence[str], good: Sequence[str]) -> frozenset[str]:
        """Suspects with nodes that passed, one after the other; if none passed, as at first."""
        if not good:
            return self.pairs()
        well = set(good)
        for place in with_good_ones(bad, good, PARTNERS_AGAIN):
            runs = self._all([pair(suspect, partner, [partner]) for suspect, partner in place])
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

    def big(self, well: frozenset[str], *, among: frozenset[str] | None = None, slow: bool = False) -> None:
        """Racks at the same time, then the fleet; nodes that are bad in a pair would break it for all and stay out."""
        names = [name for name in self._names if name in well]
        bad = self._together(racks(names, self._rack_of), names, among, slow=slow)
        names = [name for name in names if name not in bad]
        self._together(fleet(names), names, among, slow=slow)

    def _together(
        self, groups: Sequence[Group], names: Sequence[str], among: frozenset[str] | None, *, slow: bool
    ) -> list[str]:
        """These groups at the same time, the search in the bad ones, and each again without the nodes that it names."""
        chosen = [group for group in groups if among is None or among.issuperset(group.nodes)]
        runs = self._all(chosen)
        bad = {group: run for group, run in runs.items() if slow or not run.is_well}
        if not bad:
            return []
        outside = [name for name in names if not any(name in group.nodes for group in bad)]
        found = self._search(bad, [group.nodes for group in bad], outside, slow=slow)
        self._all([less for group in bad for less in without(group, found.blamed)])
        return found.blamed

    def _all(self, groups: Sequence[Group]) -> dict[Group, GroupRun]:
        """Every collective over these groups; a group that failed runs no more."""
        chosen = sweep(self._durations, rdma=self._rdma)
        last: dict[Group, GroupRun] = {}
        for collective in COLLECTIVES:
            going = [group for group in groups if group not in last or last[group].is_well]
            if not going or self._pool.cancelled:
                break
            last |= self._launch_session.launch(going, Launch(collective, chosen, self._durations.group_s))
        return last

    def _search(
        self, bad: Mapping[Group, GroupRun], sets: Sequence[tuple[str, ...]], good: Sequence[str], *, slow: bool = False
    ) -> Found:
        """Halve what is bad, and note the result on each node."""
        end = time.monotonic() + SEARCH_TIMES * self._durations.group_s
        what = next(iter(bad.values())).what
        best = [max((run.busbw_gb_per_s or 0.0 for run in bad.values()), default=0.0)]

        def parts(groups: Sequence[Group]) -> list[bool]:
            return self._parts(groups, what, best if slow else None)

        found = bisect(sets, good, parts, may_go_on=lambda: time.monotonic() < end and not self._pool.cancelled)
        for group in bad:
            self._say(group, found)
        return found

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

    def _say(self, group: Group, found: Found) -> None:
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


def takes_s(durations: Durations) -> float:
    """About how long it takes if nothing is wrong: each launch starts, runs and ends in about 20 s."""
    return min(20.0, durations.group_s) * len(COLLECTIVES) * (3 if durations.group_s >= ALL_KINDS_FROM_S else 1)


NCCL_GROUPS = Measurement(
    name="nccl_groups",
    stage="fabric",
    applies=applies,
    rests_on=RESTS_ON,
    measure=measure,
    again=again,
    parse=parse,
    takes_s=takes_s,
)
