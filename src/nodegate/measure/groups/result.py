"""The results of launches over several nodes for one node: bandwidths of its groups, hangs, and bisection."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import sha256
from typing import Literal

from nodegate.errors import CannotMeasure
from nodegate.measure.groups.plan import PAIR, PART, whole_of
from nodegate.measure.measurement import ByName
from nodegate.measure.nccl.launches import Launched, read_test
from nodegate.measure.program_run import reason
from nodegate.metric import Metric, Statistic
from nodegate.numbers.against_others import of_hung
from nodegate.records.program_run import Attempt, LaunchNotes, LaunchPlan, ProgramRun
from nodegate.records.verdict import Verdict
from nodegate.tools.nccl_log import NcclLog, read_log

NAMES = {"all_reduce": "nccl.group_all_reduce_gb_per_s", "alltoall": "nccl.group_alltoall_gb_per_s"}
NAMES["sendrecv"] = "nccl.group_sendrecv_gb_per_s"
_JUDGED = ("pair", "rack", "fleet")
_TOGETHER = ("rack", "fleet")  # one launch over many nodes gives all of them one value
_LONG, _TWO = 200, 2
_NO_ATTEMPT, _NO_LAUNCH = Attempt(), LaunchPlan("")
Whose = Literal["here", "either", "other", "with", "path", "open"]


@dataclass(frozen=True)
class GroupRun(Launched):
    """One launch in which this node took part, in one of its attempts (`attempt`).

    `partners_well` is set if all the other nodes are known to be good: then this node is at fault; `served` if this one
    was the good partner, by which another one was judged. `log` is None where NCCL was not asked what it uses.
    """

    attempt: int = 0
    partners_well: bool = False
    served: bool = False
    log: NcclLog | None = None

    @property
    def plan(self) -> LaunchPlan:
        """Which launch it was."""
        return self.ran.plan.launch or _NO_LAUNCH

    @property
    def notes(self) -> LaunchNotes:
        """What the search for the node at fault noted of it."""
        return self.ran.launch

    @property
    def is_help(self) -> bool:
        """Whether this node was the good partner of one that was not known to be good."""
        return self.plan.kind == PAIR and self.served and not self.partners_well

    @property
    def is_far(self) -> bool:
        """Whether it is a pair of two racks, in a fabric that makes these slower than pairs of one rack."""
        return self.plan.kind == "pair" and self.notes.racks > 1

    @property
    def is_cut(self) -> bool:
        """Whether the evidence names only some of its nodes."""
        return self.plan.count > len(self.plan.nodes)

    @property
    def conditions(self) -> Mapping[str, str]:
        """What two values must share to be comparable."""
        far = {"racks": str(self.notes.racks)} if self.is_far else {}
        said = self.plan.settings  # clouds ask for dozens of them: a long text by its beginning and its checksum
        if len(said) > _LONG:
            said = f"{said[:_LONG]}... (sha256 {sha256(said.encode()).hexdigest()[:12]})"
        settings = {"settings": said} if said else {}
        return self.conditions_with(group=self.plan.kind, nodes=str(self.plan.count), **far, **settings)


@dataclass(frozen=True)
class NcclGroups(ByName):
    """All launches of a node. `alone` says why there were none: no other node is like this one."""

    node: str
    runs: tuple[GroupRun, ...]
    alone: str = ""
    failed: tuple[CannotMeasure, ...] = ()

    @cached_property
    def metrics(self) -> tuple[Metric, ...]:
        """The best group of each kind, once for each attempt: a bad neighbour does not make this node slow.

        A launch for which another node is named says nothing about this one, nor does a pair whose other node is the
        slower one, nor a pair with an unknown node once there is one with a good node, nor one in which this node was
        the good partner of another one.
        """
        found: defaultdict[tuple[str, tuple[tuple[str, str], ...]], list[tuple[GroupRun, float]]] = defaultdict(list)
        explained = {
            (run.what, *sorted(run.plan.nodes)) for run in self.runs if run.notes.slower not in ("", self.node)
        }
        for run in self.runs:
            name, value = NAMES.get(run.what, ""), run.busbw_gb_per_s
            not_its_own = run.plan.kind == "pair" and (run.what, *sorted(run.plan.nodes)) in explained
            is_judged = run.plan.kind in _JUDGED and name
            if is_judged and value and not (not_its_own or self._only_helped(run) or self.excuses(run)):
                found[name, tuple(sorted(run.conditions.items()))].append((run, value))
        return tuple(
            Metric(
                name,
                _best_of_attempts(values),
                "GB/s",
                conditions=dict(conditions),
                launch=values[-1][0].plan.group if values[-1][0].plan.kind in _TOGETHER else "",
                statistic=Statistic.BEST,
            )
            for (name, conditions), values in found.items()
        )

    def _only_helped(self, run: GroupRun) -> bool:
        """Whether this node was the good partner of another one, and has pairs of its own."""
        alike = [each for each in self.runs if (each.plan.kind, each.what) == (run.plan.kind, run.what)]
        return run.is_help and not all(each.is_help for each in alike)

    def is_for_others(self, metric: Metric) -> bool:
        """Whether a pair's number over racks is for others to compare with: this node has one of its own rack."""
        if "racks" not in metric.conditions:
            return False
        far = [run for run in self.runs if run.is_far and NAMES.get(run.what) == metric.name]
        pairs = [each for each in self.named(metric.name) if each.conditions.get("group") == "pair"]
        return all(run.served for run in far) or any("racks" not in each.conditions for each in pairs)

    def of(self, *whats: str) -> tuple[GroupRun, ...]:
        """The runs of these collectives, parts of a bisection not among them."""
        return tuple(run for run in self.runs if run.what in whats and run.plan.kind != "part")

    def excuses(self, run: GroupRun) -> tuple[str, ...]:
        """The other nodes for which a launch was bad, if this one is not among them and was good itself.

        The search names them; or this node was good in a rack or a fleet that was launched again without them.
        """
        alike, plan = [each for each in self.runs if each.what == run.what], run.plan
        same = [each for each in alike if each.plan.group == plan.group]
        named = {name for each in same for name in (*each.notes.blamed, *each.notes.paths)}
        if plan.kind in _TOGETHER:
            for each in alike:
                is_smaller = whole_of(plan.group) == whole_of(each.plan.group) and plan.count > each.plan.count
                named.update(name for name in each.notes.left_out if name in plan.nodes or is_smaller)
        mine = self.node in named or any(each.notes.concerned for each in same)
        is_cleared = any(each.is_well for each in self.runs if each.plan.kind != "apart")
        return tuple(sorted(named)) if named and not mine and is_cleared else ()

    @property
    def is_blamed(self) -> bool:
        """Whether a search names the node."""
        return any(self.node in run.notes.blamed for run in self.runs)

    @cached_property
    def bad_with(self) -> frozenset[str]:
        """The other nodes that are in every bad launch of this one: what all of these have in common is at fault."""
        bad = [frozenset(run.plan.nodes) for run in self.runs if is_sick(run) and not run.is_cut]
        return frozenset.intersection(*bad) - {self.node} if bad else frozenset()

    @cached_property
    def is_unsteady(self) -> bool:
        """Whether its pairs hang more often than by chance, with different nodes, and not behind what many share."""
        met = [run for run in self.runs if run.plan.count == _TWO]
        bad = [run for run in met if is_sick(run)]
        shared = any(run.notes.concerned and run.plan.count > _TWO for run in self.runs)
        partners = frozenset.intersection(*(frozenset(run.plan.nodes) for run in bad)) if bad else frozenset()
        return partners == {self.node} and not shared and of_hung(len(bad), len(met)) is Verdict.FAIL

    def well_without(self, names: Collection[str], what: str) -> int:
        """How many launches of a collective ended well with none of these nodes."""
        runs = [run for run in self.runs if run.is_well and run.what == what and run.plan.kind != "apart"]
        return sum(not run.is_cut and set(names).isdisjoint(run.plan.nodes) for run in runs)


def _best_of_attempts(values: Sequence[tuple[GroupRun, float]]) -> tuple[float, ...]:
    best: dict[int, float] = {}
    for run, value in [each for each in values if each[0].partners_well] or values:
        best[run.attempt] = max(best.get(run.attempt, 0.0), value)
    return tuple(value for _, value in sorted(best.items()))


def parse(attempts: Sequence[Attempt]) -> NcclGroups:
    """The result of the attempts on one node. Raises CannotMeasure: nothing was launched; the last reason."""
    alone = next((attempt.alone for attempt in attempts if attempt.alone), "")
    failed = tuple(reason(attempt) for attempt in attempts if attempt.cannot)
    runs = tuple(
        read(ran, each, place=place) for place, each in enumerate(attempts) for ran in each.runs if ran.plan.launch
    )
    if not runs and not alone:
        nothing = CannotMeasure("nothing was launched over several nodes", next_step="measure this node again")
        raise failed[-1] if failed else nothing
    node = next((attempt.node for attempt in attempts if attempt.node), "")
    return NcclGroups(node, runs, alone, failed)


def read(ran: ProgramRun, attempt: Attempt = _NO_ATTEMPT, *, place: int = 0) -> GroupRun:
    """One launch of an attempt, the first or a later one, whatever its result."""
    launch, node = ran.plan.launch or _NO_LAUNCH, attempt.node
    return GroupRun(
        replace(ran, stdout="", stderr=""),
        *read_test(ran),
        attempt=place,
        partners_well=len(launch.nodes) > 1 and {*launch.good, node}.issuperset(launch.nodes),
        served=node in launch.good,
        log=read_log(ran.stdout, attempt.hostname or node) if launch.asks_transports else None,
    )


def whose(groups: NcclGroups, run: GroupRun) -> Whose:
    """Whose fault a bad launch is: this node's, one of two, another one's that is named, a path's, or not known.

    A node is not blamed for what happened only `with` some other one, and never without it.
    """
    if is_sick(run) and run.plan.count == _TWO:
        if groups.is_unsteady:
            return "here"
        if groups.bad_with and not run.notes.concerned and groups.well_without(groups.bad_with, run.what):
            return "other" if groups.excuses(run) else "with"
    if groups.node in run.notes.blamed or (run.partners_well and (run.plan.kind != PART or groups.is_blamed)):
        return "here"
    if run.notes.concerned:
        return "path"
    if groups.excuses(run):
        return "other"
    return "either" if run.plan.count == 2 and not run.notes.searched and not run.notes.blamed else "open"


def is_sick(run: GroupRun) -> bool:
    """Whether a launch hung, failed or brought wrong data: what a machine does, not a launcher."""
    return run.ending in {"hung", "faulty"} or (run.ending == "whole" and not run.is_well)


def is_settled(attempts: Sequence[Attempt]) -> bool:
    """Whether a node is at fault, or may be, in a collective that hangs or is wrong.

    It is not launched again, which costs a time limit each time; and others are not judged by it.
    """
    try:
        groups = parse(attempts)
    except CannotMeasure:  # nothing was launched
        return False
    good_in = {run.what for run in groups.runs if run.is_well and run.plan.kind in {PAIR, PART}}
    return any(
        whose(groups, run) == "here" or (run.plan.kind == PAIR and run.what not in good_in)
        for run in groups.runs
        if is_sick(run)
    )


def lost(groups: NcclGroups) -> GroupRun | None:
    """The last launch of a node that cannot be launched any more, also not with others that can; None if it can."""
    last = groups.runs[-1] if groups.runs else None
    return last if last and last.ending == "refused" and whose(groups, last) == "here" else None
