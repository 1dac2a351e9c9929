"""What a report is made of: the run's conditions, nodes with their records, drift, and the checks' sentences."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from nodegate.causes.conditions import conditions
from nodegate.causes.explain import causes_of
from nodegate.causes.fleet import fleet_causes
from nodegate.inventory.hostlist import natural
from nodegate.policy.policy import Policy
from nodegate.records.cause import Cause
from nodegate.records.finding import Finding, Record
from nodegate.records.part import NODE
from nodegate.records.run import CheckInfo, Drift, NodeReport, Run
from nodegate.records.verdict import GOOD, NODE_ORDER, NodeVerdict, Verdict

_REACH_IT = "check its power, network and sshd: nodegate doctor says which step fails"


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
        found = {}
        for node in self.nodes:
            records = node.records
            if not records and node.verdict is NodeVerdict.UNREACHABLE:  # no check could say why
                reason = node.unreachable or "not reachable; no reason was given"
                lost = Finding(NODE, Verdict.ERROR, text=reason, action=_REACH_IT, code="timeout")
                records = (Record(node.node, "node.judged", Verdict.ERROR, (lost,)),)
            found[node.node] = causes_of(records, conditions())
        return found

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


def gpu_counts(report: Report) -> tuple[int, int]:
    """How many GPUs are in accepted nodes, and in all nodes whose number is known."""
    return sum(node.gpus for node in report.nodes if node.verdict in GOOD), sum(node.gpus for node in report.nodes)


def in_order(names: Iterable[str]) -> tuple[str, ...]:
    """The names, each once, numbers in them as numbers."""
    return tuple(sorted(set(names), key=lambda name: (natural(name[:200]), name)))


def by_check(records: Iterable[Record], checks: Iterable[str]) -> list[Record]:
    """The records of a node in the order of the checks, not of judging; unknown checks come last."""
    places = {check: at for at, check in enumerate(checks)}
    return sorted(records, key=lambda record: places.get(record.check, len(places)))
