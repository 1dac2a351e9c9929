"""The launches over nodes that are alike: pairs, racks, the fleet, and the search in those that are bad."""

import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import zip_longest

from nodegate.measure.groups.group_node import COLLECTIVES, GroupNode
from nodegate.measure.groups.launch import SHOWN_NODES, Launch, sweep
from nodegate.measure.groups.launch_session import LaunchSession
from nodegate.measure.groups.plan import PAIR, Group, Nodes, Ties, fleet, pair, pairs_by_rack, racks, whole_of, without
from nodegate.measure.groups.result import GroupRun
from nodegate.measure.groups.search import Boundary, Result, search
from nodegate.measure.measurement import Pool
from nodegate.measure.rdma.pairing import Round, with_good_ones
from nodegate.records.program_run import LaunchNotes

SEARCHES = 3  # in one launch: what else is bad shows when it is launched without what is named
LOOKS = 3  # good partners for a node whose pair was bad once: each with every collective, nine looks
SEARCH_TIMES = 8.0  # the longest search for a node, in time limits of a launch
PART_S, PART_SHARE = 60.0, 0.4  # time limit of a part of a group, or this share of a launch's limit if longer


class Tour:
    """The launches over nodes that are alike: `names` are all of them, rack by rack, `ties` their racks."""

    def __init__(self, launch_session: LaunchSession, ready: Sequence[GroupNode], pool: Pool) -> None:
        self._launch_session, self._pool = launch_session, pool
        self.names = [member.name for member in sorted(ready, key=lambda each: each.target.node.rack)]
        self.ties = Ties({member.name: member.target.node.rack for member in ready})
        self._durations = ready[0].target.durations
        self._rdma = any(device.address for device in ready[0].target.facts.rdma.devices)
        self._speeds: dict[tuple[Group, str], float] = {}  # GB/s of what was launched over a group
        self._variants: defaultdict[str, list[Group]] = defaultdict(list)  # a launch, and itself without some nodes
        self._behind_paths: set[str] = set()  # nodes that are bad with each other, and well with all others

    def speed(self, group: Group, what: str) -> float:
        """The bus bandwidth of a collective that was launched over a group, in GB/s; 0 without one."""
        return self._speeds.get((group, what), 0.0)

    def pairs_with_good_ones(self, name: str) -> list[Group]:
        """The pairs in which a node was launched with one that is known to be good."""
        pairs = dict.fromkeys(group for group, _ in self._speeds if group.kind == PAIR and group.good)
        return [group for group in pairs if name in group.nodes and name not in group.good]

    def is_far(self, group: Group) -> bool:
        """Whether the nodes of a group are in several racks."""
        found = {self.ties.rack(name) for name in group.nodes}
        return len(found) > 1 and all(found)

    def note_all(self, group: Group, noted: Callable[[LaunchNotes], LaunchNotes], *whats: str) -> None:
        """Note something on the launches of some collectives over a group; of all if none is named."""
        for what in whats or COLLECTIVES:
            self._launch_session.note(group, what, noted)

    def pairs(self) -> frozenset[str]:
        """Every pair with every collective; the nodes that are then known to be good."""
        runs = self.all(pairs_by_rack(self.names, self.ties.rack_of))
        well = {name for group, run in runs.items() if run.is_well for name in group.nodes}
        bad = {group: run for group, run in runs.items() if not run.is_well}
        if bad:
            found = self.search(bad, well, self._in_order(well))
            for group in bad:
                if found.cleared.union(well).issuperset(group.nodes) and not found.concerned(group):
                    found.together.append((group.nodes, Boundary("path", group.nodes[:1], group.nodes[1:])))
                self.note(group, found)
            self._behind_paths.update(*(found.concerned(group) for group in bad))
            left_out = self._in_order(found.cleared)
            if well:  # their own pair said nothing about them
                for place in self.partners(left_out, self._in_order(well - self._behind_paths or well), LOOKS):
                    self.all([pair(name, partner, [partner]) for name, partner in place])
            well |= found.cleared
        return frozenset(well)

    def big(self, well: frozenset[str]) -> None:
        """Racks at the same time, then the fleet; nodes that are bad in a pair would break it for all and stay out."""
        names = [name for name in self.names if name in well and name not in self._behind_paths]
        bad = self._together(racks(names, self.ties.rack_of), names)
        names = [name for name in names if name not in bad]
        self._together(fleet(names), names)

    def _together(self, groups: Sequence[Group], names: Sequence[str]) -> list[str]:
        """These groups at the same time. What is bad is searched, and launched again without what is named.

        So the rest is judged, and what else is bad is found there. Returns the nodes that were named.
        """
        left_out: list[str] = []
        found = {group: Result() for group in groups}
        bad = {group: run for group, run in self.all(groups).items() if not run.is_well}
        for _ in range(SEARCHES):
            if not bad:
                break
            outside = [name for name in names if not any(name in group.nodes for group in bad)]
            more = self.search(bad, left_out, [name for name in outside if name not in left_out])
            left_out += [name for name in more.named if name not in left_out]
            for group in bad:
                found[group].add(more)
                self.note(group, found[group])
            bad = self._without(bad, left_out) if more.named else {}
        return left_out

    def _without(self, groups: Iterable[Group], left_out: Sequence[str]) -> dict[Group, GroupRun]:
        """Launch them without these nodes; those that are bad even so."""
        smaller = {less: group for group in groups for less in without(group, left_out)}
        runs = self.all(list(smaller))
        for less, run in runs.items():
            if run.is_well:
                self.note_left_out(less, [name for name in left_out if name in smaller[less].nodes])
        return {smaller[less]: run for less, run in runs.items() if not run.is_well}

    def all(self, groups: Sequence[Group]) -> dict[Group, GroupRun]:
        """Every collective over these groups, the last one of each; a group that failed runs no more."""
        chosen = sweep(self._durations, rdma=self._rdma)
        last: dict[Group, GroupRun] = {}
        for group in groups:
            self._variants[whole_of(group.name)].append(group)
        for collective in COLLECTIVES:
            going = [group for group in groups if group not in last or last[group].is_well]
            if not going or self._pool.cancelled:
                break
            runs = self._launch_session.launch(going, Launch(collective, chosen, self._durations.group_s))
            self._speeds |= {(group, collective): run.busbw_gb_per_s or 0.0 for group, run in runs.items()}
            last |= runs
        return last

    def search(self, bad: Mapping[Group, GroupRun], left_out: Collection[str], good: Sequence[str]) -> Result:
        """What is bad in these groups without some of their nodes, each with the collective that failed."""
        result = Result()
        for what in dict.fromkeys(run.what for run in bad.values()):
            groups = [group for group, run in bad.items() if run.what == what]
            sets = [tuple(name for name in group.nodes if name not in left_out) for group in groups]
            failed: defaultdict[str, set[str]] = defaultdict(set)
            for group in groups if groups[0].kind == PAIR else ():
                for name in group.nodes:
                    failed[name].update(each for each in group.nodes if each != name)
            ties = replace(self.ties, failed_with=failed)
            result.add(self._searched(disjoint(sets), good, what, lambda _group, run: run.is_well, ties))
        return result

    def search_slow(
        self, sets: Sequence[Nodes], good: Sequence[str], what: str, enough: Callable[[Group], float]
    ) -> Result:
        """What makes these sets slow: a part is good that reaches what its launch has to reach."""

        def is_fast(group: Group, run: GroupRun) -> bool:
            return run.is_well and (run.busbw_gb_per_s or 0.0) >= enough(group)

        return self._searched(sets, good, what, is_fast, self.ties)

    def _searched(
        self,
        sets: Sequence[Nodes],
        good: Sequence[str],
        what: str,
        is_well: Callable[[Group, GroupRun], bool],
        ties: Ties,
    ) -> Result:
        end = time.monotonic() + SEARCH_TIMES * self._durations.group_s
        limit_s = min(self._durations.group_s, max(PART_S, PART_SHARE * self._durations.group_s))
        launch = Launch(what, sweep(self._durations, rdma=self._rdma, short=True), limit_s)

        def parts(groups: Sequence[Group]) -> list[bool]:
            runs = self._launch_session.launch(groups, launch)
            return [is_well(group, runs[group]) for group in groups]

        def may_go_on() -> bool:
            return time.monotonic() < end and not self._pool.cancelled

        return search(sets, good, parts, ties=ties, everybody=self.names, may_go_on=may_go_on)

    def note(self, group: Group, found: Result, word: str = "fail") -> None:
        """Note the result of the search on each node of the group, for the launches without some nodes too."""
        for variant in self._variants[group.name]:
            blamed = [name for name in found.blamed if name in variant.nodes]
            concerned = found.concerned(variant).difference(blamed)
            paths = [name for name in variant.nodes if name in concerned]
            said = found.said(variant, self.ties, word)
            self.note_all(variant, partial(replace, blamed=_first(blamed), paths=_first(paths), searched=said))
            for collective in COLLECTIVES:
                for name in concerned:
                    self._launch_session.note(variant, collective, partial(replace, concerned=True), name)

    def note_left_out(self, group: Group, names: Sequence[str]) -> None:
        """Note on each node of a launch that it is good because these others take no part."""
        self.note_all(group, partial(replace, left_out=_first(names)))

    def partners(self, suspects: Sequence[str], good: Sequence[str], count: int) -> list[Round]:
        """Rounds in which each suspect meets good ones, of its own rack if enough are: no others are as near."""
        found: list[Round] = []
        for rack in dict.fromkeys(map(self.ties.rack, suspects)):
            near = [name for name in good if self.ties.rack(name) == rack]
            own = [name for name in suspects if self.ties.rack(name) == rack]
            enough = near if 2 * len(near) >= len(own) else good
            more = with_good_ones(own, enough, count)
            found = [(*one, *other) for one, other in zip_longest(found, more, fillvalue=())]
        return found

    def _in_order(self, names: Collection[str]) -> list[str]:
        return [name for name in self.names if name in names]


def _first(names: Sequence[str]) -> tuple[str, ...]:
    """Of many nodes the first ones: evidence has them on each node."""
    return tuple(names[:SHOWN_NODES])


def disjoint(sets: Iterable[Sequence[str]]) -> list[tuple[str, ...]]:
    """The sets, with those that share a node merged: the odd node is in a pair of its neighbour."""
    found: list[tuple[str, ...]] = []
    for each in filter(None, sets):
        shared = [other for other in found if not set(other).isdisjoint(each)]
        joined = tuple(dict.fromkeys(name for one in (*shared, each) for name in one))
        found = [other for other in found if other not in shared] + [joined]
    return found
