"""One node whose GPUs ran the collectives, and what a check says of it: text of the fake programs, the real parser."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from fleet.machine import Machine, facts_of
from support import cases
from support import nccl as fake
from support.attempts import attempts
from support.judging import baseline_of

from nodegate.measure.nccl.launches import LAUNCHES
from nodegate.measure.nccl.result import parse
from nodegate.node import Node
from nodegate.numbers.peers import Peers
from nodegate.records.finding import Record
from nodegate.records.program_run import ProgramRun

WHATS = tuple(launch.what for launch in LAUNCHES)


@dataclass(frozen=True)
class NcclCase(cases.Case):
    """One node and what one check must say of it. `told` is what the programs do, `change` alters their evidence."""

    told: Mapping[str, object] = field(default_factory=dict)
    change: Callable[[list[ProgramRun]], list[ProgramRun]] = list
    machine: Callable[[], Machine] = Machine.hgx_h100
    limits: Mapping[str, object] = field(default_factory=dict)
    gpus: int = 8

    def record(self) -> Record:
        return said(self.check, self.tried(), self.machine(), self.limits)

    def tried(self) -> list[list[ProgramRun]]:
        return [self.change([fake.ran(what, gpus=self.gpus, **self.told) for what in WHATS])]


def said(
    check: str, tried: list[list[ProgramRun]], machine: Machine, limits: Mapping[str, object] | None = None
) -> Record:
    node, facts = Node("gpu01", origin="hosts.yaml:3"), facts_of(machine)
    baseline = baseline_of(facts, node, limits or {})

    peers = Peers.of({}).of_node(node.name)
    given = {"nccl": lambda: parse(attempts(tried)), "baseline": baseline, "node": node, "peers": peers}
    return cases.judged_with(check, facts, given)
