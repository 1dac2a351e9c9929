"""The results of launches over several nodes for one node: bandwidths of its groups, hangs, and bisection."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from typing import TYPE_CHECKING

from nodegate.errors import CannotMeasure
from nodegate.measure.groups.ended import read_test, row_of
from nodegate.measure.groups.plan import whole_of
from nodegate.measure.program_run import reason
from nodegate.metric import Metric
from nodegate.records.program_run import Attempt, LaunchPlan
from nodegate.tools.nccl_log import read_log
from nodegate.unknown import Unknown

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nodegate.measure.groups.ended import Ending
    from nodegate.records.program_run import ProgramRun
    from nodegate.tools.nccl_log import NcclLog
    from nodegate.tools.nccl_tests import NcclTest

NAMES = {"all_reduce": "nccl.group_all_reduce_gb_per_s", "alltoall": "nccl.group_alltoall_gb_per_s"}
NAMES["sendrecv"] = "nccl.group_sendrecv_gb_per_s"
APART_NAME = "nccl.apart_all_reduce_gb_per_s"
_JUDGED = ("pair", "rack", "fleet")
_TOGETHER = ("rack", "fleet")  # one launch over many nodes gives all of them one value
_LONG = 200
_NO_ATTEMPT = Attempt()


@dataclass(frozen=True)
class GroupRun:
    """One launch in which this node took part. `nodes` may be shortened if they are many; `count` is how many.

    `partners_well` is set if all the other nodes are known to be good: then this node is at fault; `served` if this one
    was the good partner, by which another one was judged. `blamed`
    are the nodes that the search names for this launch, `paths` those on the sides of a bad path or behind bad uplinks,
    which a node cannot help; `concerned`, that this node is one of these. `searched` says it. `left_out` are the
    nodes without which a rack or a fleet was launched again and was good. `settings` is what the inventory set for it.
    """

    what: str
    kind: str
    group: str
    head: str
    nodes: tuple[str, ...]
    count: int
    gpus: int
    size_bytes: int
    attempt: int
    ending: Ending
    why: str = ""
    next_step: str = ""
    duration_s: float = 0.0
    partners_well: bool = False
    served: bool = False
    blamed: tuple[str, ...] = ()
    searched: str = ""
    paths: tuple[str, ...] = ()
    concerned: bool = False
    left_out: tuple[str, ...] = ()
    builds: int = 1
    racks: int = 0  # 0: not known
    slower: str = ""  # the node of a pair that is slow with good ones too
    settings: str = ""
    log: NcclLog | None = None  # None: NCCL was not asked
    one_domain: bool = False  # its nodes are in one NVLink domain
    test: NcclTest | None = None
    own_gb_per_s: float | None = None  # of a launch in which each node runs by itself
    stuck: tuple[str, ...] = ()

    @property
    def busbw_gb_per_s(self) -> float | None:
        """The bus bandwidth of the judged size, out of place; None if the launch is not whole."""
        row = row_of(self.test, self.size_bytes) if self.test and self.ending == "whole" else None
        return row.out_of_place.busbw_gb_per_s if row else None

    @property
    def is_well(self) -> bool:
        """Whether it ended, with right data."""
        return self.ending == "whole" and self.test is not None and not self.test.corrupt

    @property
    def is_help(self) -> bool:
        """Whether this node was the good partner of one that was not known to be good."""
        return self.kind == "pair" and self.served and not self.partners_well

    @property
    def is_far(self) -> bool:
        """Whether it is a pair of two racks, in a fabric that makes these slower than pairs of one rack."""
        return self.kind == "pair" and self.racks > 1

    @property
    def conditions(self) -> Mapping[str, str]:
        """What two values must share to be comparable."""
        if self.test is None:
            return {}
        row = row_of(self.test, self.size_bytes)
        far = {"racks": str(self.racks)} if self.is_far else {}
        told = {"tool_version": self.test.version, "nccl": self.test.nccl, "cuda": self.test.cuda}
        return {
            "tool": "nccl-tests",
            **{name: value for name, value in told.items() if not isinstance(value, Unknown)},
            "group": self.kind,
            "nodes": str(self.count),
            "gpus": str(self.gpus),
            "size_bytes": str(self.size_bytes),
            "dtype": row.dtype if row else "",
            **far,
            **({"settings": _shortened(self.settings)} if self.settings else {}),
        }


@dataclass(frozen=True)
class NcclGroups:
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
        explained = {(run.what, *sorted(run.nodes)) for run in self.runs if run.slower not in {"", self.node}}
        for run in self.runs:
            name, value = _quantity(run)
            not_its_own = run.kind == "pair" and (run.what, *sorted(run.nodes)) in explained
            if name and value and not (not_its_own or self._only_helped(run) or self.excuses(run)):
                found[name, tuple(sorted(run.conditions.items()))].append((run, value))
        return tuple(
            Metric(
                name,
                _best_of_attempts(values),
                "GB/s",
                conditions=dict(conditions),
                launch=values[-1][0].group if values[-1][0].kind in _TOGETHER else "",
            )
            for (name, conditions), values in found.items()
        )

    def _only_helped(self, run: GroupRun) -> bool:
        """Whether this node was the good partner of another one, and has pairs of its own."""
        alike = [each for each in self.runs if (each.kind, each.what) == (run.kind, run.what)]
        return run.is_help and not all(each.is_help for each in alike)

    def named(self, *names: str) -> tuple[Metric, ...]:
        """The metrics of these names."""
        return tuple(metric for metric in self.metrics if metric.name in names)

    def is_for_others(self, metric: Metric) -> bool:
        """Whether a pair's number over racks is for others to compare with: this node has one of its own rack."""
        if "racks" not in metric.conditions:
            return False
        far = [run for run in self.runs if run.is_far and NAMES.get(run.what) == metric.name]
        pairs = [each for each in self.named(metric.name) if each.conditions.get("group") == "pair"]
        return all(run.served for run in far) or any("racks" not in each.conditions for each in pairs)

    def of(self, *whats: str) -> tuple[GroupRun, ...]:
        """The runs of these collectives, parts of a bisection not among them."""
        return tuple(run for run in self.runs if run.what in whats and run.kind != "part")

    def excuses(self, run: GroupRun) -> tuple[str, ...]:
        """The other nodes for which a launch was bad, if this one is not among them and was good itself.

        The search names them; or this node was good in a rack or a fleet that was launched again without them.
        """
        alike = [each for each in self.runs if each.what == run.what]
        same = [each for each in alike if each.group == run.group]
        named = {name for each in same for name in (*each.blamed, *each.paths)}
        if run.kind in _TOGETHER:
            named |= {
                name
                for each in alike
                for name in each.left_out
                if name in run.nodes or (whole_of(run.group) == whole_of(each.group) and run.count > each.count)
            }
        mine = self.node in named or any(each.concerned for each in same)
        return tuple(sorted(named)) if named and not mine and self.is_cleared else ()

    @property
    def is_blamed(self) -> bool:
        """Whether a search names the node."""
        return any(self.node in run.blamed for run in self.runs)

    @property
    def is_cleared(self) -> bool:
        """Whether the node succeeded in a group or a part of one."""
        return any(run.is_well for run in self.runs if run.kind != "apart")


def _quantity(run: GroupRun) -> tuple[str, float | None]:
    """The metric of a launch, and its value in GB/s."""
    if run.kind == "apart":
        return APART_NAME, run.own_gb_per_s
    return (NAMES.get(run.what, ""), run.busbw_gb_per_s) if run.kind in _JUDGED else ("", None)


def _best_of_attempts(values: Sequence[tuple[GroupRun, float]]) -> tuple[float, ...]:
    known: Sequence[tuple[GroupRun, float]] = [each for each in values if each[0].partners_well]
    known = known or values
    best: dict[int, float] = {}
    for run, value in known:
        best[run.attempt] = max(best.get(run.attempt, 0.0), value)
    return tuple(value for _, value in sorted(best.items()))


def parse(attempts: Sequence[Attempt]) -> NcclGroups:
    """The result of the attempts on one node.

    Raises:
        CannotMeasure: nothing was launched; the last reason.
    """
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
    plan, launch, notes, node = ran.plan, ran.plan.launch or LaunchPlan(""), ran.launch, attempt.node
    test, ending, why, step = read_test(ran)
    return GroupRun(
        what=ran.what,
        kind=launch.kind,
        group=launch.group,
        head=launch.head,
        nodes=launch.nodes,
        count=launch.count,
        gpus=plan.gpus,
        size_bytes=plan.size_bytes,
        attempt=place,
        ending=ending,
        why=why,
        next_step=step,
        duration_s=ran.duration_s,
        partners_well=len(launch.nodes) > 1 and {*launch.good, node}.issuperset(launch.nodes),
        served=node in launch.good,
        blamed=notes.blamed,
        paths=notes.paths,
        searched=notes.searched,
        concerned=notes.concerned,
        left_out=notes.left_out,
        builds=launch.builds,
        racks=notes.racks,
        slower=notes.slower,
        settings=launch.settings,
        log=read_log(ran.stdout, attempt.hostname or node) if launch.asks_transports else None,
        one_domain=launch.one_domain,
        test=test,
        own_gb_per_s=_own(ran, test),
        stuck=ran.stuck,
    )


def _shortened(text: str) -> str:
    """A long text by its beginning and its checksum: clouds ask for dozens of settings."""
    return text if len(text) <= _LONG else f"{text[:_LONG]}... (sha256 {sha256(text.encode()).hexdigest()[:12]})"


def _own(ran: ProgramRun, test: NcclTest | None) -> float | None:
    """This node's own bandwidth if each ran by itself: from its slowest rank's time."""
    gpus, time_us = ran.plan.launch.gpus_of_node if ran.plan.launch else 0, ran.launch.time_us
    if test is None or time_us <= 0 or gpus < 2:
        return None
    return round(ran.plan.size_bytes / 1000.0 / time_us * 2.0 * (gpus - 1) / gpus, 3)
