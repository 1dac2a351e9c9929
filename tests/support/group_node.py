"""One node that was launched with others, and what a check says of it: what it keeps goes through the real parser."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from fleet.machine import Machine, facts_of
from support import cases
from support.attempts import attempts
from support.judging import baseline_of

from nodegate.errors import CannotMeasure
from nodegate.measure.groups.result import parse
from nodegate.node import Node
from nodegate.numbers.peers import Peers
from nodegate.records.program_run import Attempt, ProgramRun


@dataclass(frozen=True)
class GroupCase(cases.Case):
    """What one node keeps, and what one check must say of it.

    `beside` are other nodes that the run judges, which have the same numbers of the launches over many nodes.
    """

    rans: Sequence[ProgramRun] | Attempt
    again: Sequence[ProgramRun] = ()
    limits: Mapping[str, object] = field(default_factory=dict)
    machine: Machine = field(default_factory=Machine.hgx_h100)
    beside: Sequence[str] = ()

    def record(self):
        node, facts = Node("gpu01", origin="hosts.yaml:3"), facts_of(self.machine)
        baseline = baseline_of(facts, node, self.limits)
        tried = attempts([self.rans, *([self.again] if self.again else [])], node="gpu01")

        given = {
            "nccl_groups": lambda: parse(tried),
            "baseline": baseline,
            "peers": lambda: self._peers(baseline.platform, tried),
        }
        return cases.judged_with(self.check, facts, given)

    def _peers(self, platform, tried):
        try:
            own = parse(tried).metrics
        except CannotMeasure:  # then the check says so
            own = ()
        together = [metric for metric in own if metric.launch]
        beside = dict.fromkeys(self.beside, (platform, together))
        return Peers.of({"gpu01": (platform, own), **beside}).of_node("gpu01")
