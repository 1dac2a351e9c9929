"""One node that was launched with others, and what a check says of it: what it keeps goes through the real parser."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from fleet.machine import Machine, facts_of
from support.attempts import attempts
from support.judging import baseline_of

from nodegate import suite
from nodegate.errors import CannotMeasure
from nodegate.judge.judge import judge
from nodegate.judge.node_parts import node_parts
from nodegate.measure.groups.result import parse
from nodegate.node import Node
from nodegate.numbers.peers import Peers

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nodegate.numbers.peers import NodePeers
    from nodegate.records.finding import Record
    from nodegate.records.program_run import Attempt, ProgramRun
    from nodegate.records.verdict import Verdict


@dataclass(frozen=True)
class GroupCase:
    """What one node keeps, and what one check must say of it.

    `beside` are other nodes that the run judges, which have the same numbers of the launches over many nodes.
    """

    name: str
    check: str
    verdict: Verdict
    message: str
    rans: Sequence[ProgramRun] | Attempt
    again: Sequence[ProgramRun] = ()
    limits: Mapping[str, object] = field(default_factory=dict)
    machine: Machine = field(default_factory=Machine.hgx_h100)
    beside: Sequence[str] = ()

    def __str__(self) -> str:
        return f"{self.check}: {self.name}"

    def record(self) -> Record:
        node, facts = Node("gpu01", origin="hosts.yaml:3"), facts_of(self.machine)
        baseline = baseline_of(facts, node, self.limits)
        tried = attempts([self.rans, *([self.again] if self.again else [])], node="gpu01")

        def resolve(name: str) -> object:
            if name == "nccl_groups":
                return parse(tried)
            known = {"baseline": baseline, "peers": self._peers(baseline.platform, tried), "rdma": facts.rdma}
            return known[name]

        return judge(suite.check(self.check), resolve, node.name, node_parts(facts))

    def _peers(self, platform: str, tried: Sequence[Attempt]) -> NodePeers:
        try:
            own = parse(tried).metrics
        except CannotMeasure:  # then the check says so
            own = ()
        together = [metric for metric in own if metric.launch]
        beside = dict.fromkeys(self.beside, (platform, together))
        return Peers.of({"gpu01": (platform, own), **beside}).of_node("gpu01")
