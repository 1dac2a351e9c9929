"""What a report is made of: the run's conditions, nodes with their records, drift, and the checks' sentences."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from nodegate.causes.conditions import conditions
from nodegate.causes.explain import causes_of
from nodegate.causes.fleet import fleet_causes
from nodegate.inventory.hostlist import natural
from nodegate.records.claim import Shown, State
from nodegate.records.finding import Finding, Record
from nodegate.records.part import NODE
from nodegate.records.verdict import GOOD, NODE_ORDER, NodeVerdict, Verdict

_REACH_IT = "check its power, network and sshd: nodegate doctor says which step fails"

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from nodegate.files.source import Source
    from nodegate.policy.policy import Policy
    from nodegate.records.cause import Cause


@dataclass(frozen=True)
class Run:
    """The conditions of a run: who, when, with what. Times are seconds since the epoch by the controller's clock.

    `selection` says in words which part of the checks or nodes was asked for; empty means all of the profile.
    `versions` are python and the libraries on the controller. `answer` is the sentence of profile troubleshoot.
    `manifest_sha256` is the fingerprint of the manifest of all evidence (manifest.sha256), empty if there is none;
    `evidence` says where the evidence is from, if it is not this run's own. `notes` are true of the run as a whole.
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
    manifest_sha256: str = ""
    evidence: str = ""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class NodeReport:
    """One node: its verdict, what it is, and what each check said of it.

    `serials` maps a part ("chassis", "GPU 0") to its serial number. `identity` is rows of (label, value): model,
    driver, VBIOS, BIOS, kernel, firmware. `unreachable` is the reason where the verdict is `unreachable`. `gpus` counts
    those that PCIe or NVML lists, lost ones included. `claims` is what was shown of each claim of the profile.
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
    claims: tuple[Shown, ...] = ()

    @property
    def is_sound(self) -> bool:
        """Whether something was judged, and nothing failed or could not be measured; not all may be proven."""
        verdicts = {Verdict.PASS if record.waiver else record.verdict for record in self.records}
        return Verdict.PASS in verdicts and not verdicts & {Verdict.FAIL, Verdict.ERROR}

    @property
    def is_partly_judged(self) -> bool:
        """Whether it is not accepted only because the run was asked for a part of its profile."""
        left = all(each.left_out or each.signed for each in self.unproven)
        return left and self.is_sound and self.verdict is NodeVerdict.INCOMPLETE

    @property
    def unproven(self) -> tuple[Shown, ...]:
        """The claims that are not proven, signed for or not."""
        return tuple(each for each in self.claims if each.state is State.NOT_PROVEN)


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
    """All that the files of a run folder are written from. `policy` is what the result for the fleet follows from."""

    run: Run
    nodes: tuple[NodeReport, ...] = ()
    drift: tuple[Drift, ...] = ()
    checks: Mapping[str, CheckInfo] = field(default_factory=dict)
    policy: Policy | None = None

    @cached_property
    def node_causes(self) -> Mapping[str, tuple[Cause, ...]]:
        """The causes of each node, worst first; of a healthy node none."""
        return {node.node: causes_of(_records(node), conditions()) for node in self.nodes}

    @cached_property
    def causes(self) -> tuple[Cause, ...]:
        """The causes of the run, worst first, equal ones of several nodes as one."""
        return fleet_causes(self.node_causes, {node.node: node.rack for node in self.nodes if node.rack})


def _records(node: NodeReport) -> tuple[Record, ...]:
    """What is said of a node; of one that cannot be reached its reason, where no check could say it."""
    if node.records or node.verdict is not NodeVerdict.UNREACHABLE:
        return node.records
    reason = node.unreachable or "not reachable; no reason was given"
    lost = Finding(NODE, Verdict.ERROR, text=reason, action=_REACH_IT, code="timeout")
    return (Record(node.node, "node.judged", Verdict.ERROR, (lost,)),)


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


def gpu_counts(report: Report) -> tuple[int, int]:
    """How many GPUs are in accepted nodes, and in all nodes of which the number is known."""
    return sum(node.gpus for node in report.nodes if node.verdict in GOOD), sum(node.gpus for node in report.nodes)


def in_order(names: Iterable[str]) -> tuple[str, ...]:
    """The names, each once, numbers in them as numbers."""
    return tuple(sorted(set(names), key=lambda name: (natural(name[:200]), name)))


def by_check(records: Iterable[Record], checks: Iterable[str]) -> list[Record]:
    """The records of a node in the order of the checks; they come as they were judged. Those of other checks last."""
    places = {check: at for at, check in enumerate(checks)}
    return sorted(records, key=lambda record: places.get(record.check, len(places)))
