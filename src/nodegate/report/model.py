"""What a report is made of: the run's conditions, nodes with their records, drift, and the checks' sentences."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from nodegate.causes.conditions import conditions
from nodegate.causes.explain import causes_of
from nodegate.causes.fleet import fleet_causes
from nodegate.inventory.hostlist import natural
from nodegate.verdict import NODE_ORDER, NodeVerdict

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nodegate.causes.cause import Cause
    from nodegate.files.source import Source
    from nodegate.finding import Record


@dataclass(frozen=True)
class Run:
    """The conditions of a run: who, when, with what. Times are seconds since the epoch by the controller's clock.

    `selection` says in words which part of the checks or nodes was asked for; empty means all of the profile.
    `versions` are python and the libraries on the controller. `answer` is the sentence of profile troubleshoot.
    """

    id: str
    profile: str
    started_epoch_s: float
    finished_epoch_s: float
    suite_version: str
    command: str = ""
    host: str = ""
    user: str = ""
    inventory: tuple[Source, ...] = ()
    baselines: tuple[Source, ...] = ()
    interrupted: bool = False
    selection: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)
    answer: str = ""


@dataclass(frozen=True)
class NodeReport:
    """One node: its verdict, what it is, and what each check said of it.

    `serials` maps a part ("chassis", "GPU 0") to its serial number. `identity` is rows of (label, value): model,
    driver, VBIOS, BIOS, kernel, firmware. `unreachable` is the reason where the verdict is `unreachable`. `gpus` counts
    those that PCIe or NVML lists, lost ones included.
    """

    node: str
    verdict: NodeVerdict
    platform: str = ""
    rack: str = ""
    serials: Mapping[str, str] = field(default_factory=dict)
    identity: tuple[tuple[str, str], ...] = ()
    records: tuple[Record, ...] = ()
    unreachable: str = ""
    gpus: int = 0


@dataclass(frozen=True)
class Drift:
    """A characteristic that most nodes of a platform share, and the nodes that differ.

    `count` nodes of `total` hold the `majority` value; `others` maps each other value to its nodes.
    """

    platform: str
    characteristic: str
    majority: str
    count: int
    total: int
    others: Mapping[str, tuple[str, ...]]


@dataclass(frozen=True)
class CheckInfo:
    """What a check says of itself: the first sentence of its docstring, and the failure modes that it speaks to."""

    title: str
    failure_modes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Report:
    """All that the files of a run folder are written from."""

    run: Run
    nodes: tuple[NodeReport, ...] = ()
    drift: tuple[Drift, ...] = ()
    checks: Mapping[str, CheckInfo] = field(default_factory=dict)

    @cached_property
    def node_causes(self) -> Mapping[str, tuple[Cause, ...]]:
        """The causes of each node, worst first; of a healthy node none."""
        return {node.node: causes_of(node.records, conditions()) for node in self.nodes}

    @cached_property
    def causes(self) -> tuple[Cause, ...]:
        """The causes of the run, worst first, equal ones of several nodes as one."""
        return fleet_causes(self.node_causes, {node.node: node.rack for node in self.nodes if node.rack})


def check_ids(report: Report) -> tuple[str, ...]:
    """Every check of the run: those it was told of, in their order, then any other that left a record."""
    seen = dict.fromkeys(report.checks)
    seen.update(dict.fromkeys(sorted({record.check for node in report.nodes for record in node.records})))
    return tuple(seen)


def worst_first(nodes: tuple[NodeReport, ...]) -> list[NodeReport]:
    """The nodes from the worst verdict to the best, by name (numbers as numbers) inside a verdict."""
    return sorted(nodes, key=lambda node: (NODE_ORDER.index(node.verdict), natural(node.node)))


def node_counts(report: Report) -> dict[NodeVerdict, int]:
    """How many nodes hold each verdict; zeros included."""
    counts = dict.fromkeys(NodeVerdict, 0)
    for node in report.nodes:
        counts[node.verdict] += 1
    return counts
