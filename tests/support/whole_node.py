"""Every check on one made-up node: as a run judges it, and as the pre-job check answers for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fleet.machine import Machine, facts_of
from support.judging import baseline_of
from support.loaded import measured_of

from nodegate import suite
from nodegate.errors import NotJudged
from nodegate.judge.judge import judge
from nodegate.measure.registry import MEASURED
from nodegate.node import Node
from nodegate.numbers.peers import Peers
from nodegate.profile import Profile
from nodegate.records.evidence import Evidence
from nodegate.run.bootcheck import Outcome, bootcheck

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from nodegate.records.finding import Record


def bootchecked(machine: Machine) -> Outcome:
    """What `nodegate bootcheck` answers on this machine."""
    return bootcheck(measure=lambda node: Evidence(node.name, "facts", 0.0, 0.0, document=machine.document()))


def whole(
    machine: Machine,
    profile: Profile = Profile.DELIVERY,
    only: Callable[[suite.Check], bool] = lambda check: True,
) -> Mapping[str, Record]:
    """Every check of the profile on one machine, or those of which `only` says so."""
    facts, node = facts_of(machine), Node("gpu01")
    context = {"node": node, "profile": profile, "baseline": baseline_of(facts, node)}

    def resolve(name: str) -> object:
        if name == "fleet":
            raise NotJudged("alone")
        if name == "peers":
            return Peers.of({}).of_node(node.name)
        if name in MEASURED:
            return measured_of(machine, name)
        return context[name] if name in context else facts.get(name)

    asked = [check for check in suite.checks() if profile.includes(check.tier) and only(check)]
    return {check.id: judge(check, resolve, node.name) for check in asked}
