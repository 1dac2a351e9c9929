"""One check on one made-up machine, without pytest's collection, transports or a run folder.

The machine's document goes through the real parsers, its limits come from the suite's own baselines.
"""

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from operator import methodcaller

from fleet.changes import changes
from fleet.machine import Machine, facts_of
from support import cases
from support.loaded import measured_of

from nodegate import suite
from nodegate.baseline.baseline import Baselines
from nodegate.baseline.entry import unit_for
from nodegate.errors import CannotMeasure
from nodegate.judge.characteristics import characteristics
from nodegate.judge.fleet import Fleet
from nodegate.judge.identity import identity
from nodegate.judge.judge import judge
from nodegate.judge.node_parts import node_parts
from nodegate.measure.registry import MEASURED
from nodegate.node import Node
from nodegate.numbers.peers import Peers
from nodegate.profile import Profile
from nodegate.records.finding import Limit
from nodegate.subjects.order import order_of

SITE = "the site's own"  # the source that limits given by a test name
UNNAMED = {"gpu.reports": None}  # limits of a platform that names no reading which its boards must have


def judge_one(check_id, machine, **about):
    """What the check `check_id` ("pcie.link_width") says of a machine, about which judge_all is told."""
    return judge_all(machine, [suite.check(check_id)], **about)[check_id]


def judge_all(machine, checks, *, profile=Profile.DELIVERY, baseline=None, node=None, fleet=None):
    """What checks say of a machine, by their ids.

    Args:
        machine: the made-up node, healthy or with faults planted.
        checks: those that judge it.
        profile: for checks that are stricter at delivery.
        baseline: limits that win over those of the machine's platform; a limit of None takes that one away.
        node: as the inventory would describe it; default: a node "gpu01" with nothing expected.
        fleet: all nodes of the run; default: this one alone.
    """
    node = node or Node("gpu01", origin="hosts.yaml:3")
    facts = facts_of(machine)
    context = {"node": node, "profile": profile, "baseline": baseline_of(facts, node, baseline)}

    def resolve(name):
        if name == "fleet":
            return fleet or fleet_of({node.name: machine})
        if name == "ordered":
            return order_of(node, facts)
        if name == "peers":
            return Peers.of({}).of_node(node.name)
        if name in MEASURED:
            return measured_of(machine, name)
        return context[name] if name in context else facts.get(name)

    parts = node_parts(facts)
    return {check.id: judge(check, resolve, node.name, parts) for check in checks}


def baseline_of(facts, node, limits=None):
    """The suite's baseline for a machine, with single limits put in its place or taken away (None)."""
    found = _baselines().for_node(node, _or_none(facts, "gpus"), _or_none(facts, "pci"), _or_none(facts, "host"))
    given = dict(limits or {})
    entries = {key: entry for key, entry in found.entries.items() if key not in given}
    overrides = {key: limit for key, limit in found.overrides.items() if key not in given}
    for key, value in given.items():
        if value is not None:
            overrides[key] = value if isinstance(value, Limit) else Limit(value, _unit(found, key), SITE)
    return dataclasses.replace(found, entries=entries, overrides=overrides)


def fleet_of(machines, rack=""):
    """The fleet that these machines make, by node name; all of one rack, if it is given."""
    found, ids = {}, {}
    for name, each in machines.items():
        facts = facts_of(each)
        found[name] = (baseline_of(facts, Node(name)).platform, characteristics(facts))
        ids[name] = identity(facts, Node(name))
    return Fleet(found, ids, racks=dict.fromkeys(machines, rack) if rack else None)


def _unit(baseline, key):
    entry = baseline.entries.get(key)
    units = (entry.unit,) if entry else unit_for(key)
    return units[0] if len(units) == 1 else ""


_baselines = cache(Baselines.read)


def _or_none(facts, name):
    try:
        return facts.get(name)
    except CannotMeasure:
        return None


class _Plant:
    """Changes of a machine: `plant.lose_gpu(3)` calls its method `lose_gpu` with 3."""

    def __getattr__(self, method):
        assert hasattr(Machine, method), method
        return lambda *given, **named: methodcaller(method, *given, **named)


plant = _Plant()
gpu, nvlink, fails = plant.set_gpu, plant.set_nvlink, plant.section_fails  # the most frequent ones


@changes
def both(machine, *each):
    """One change after the other."""
    for change in each:
        change(machine)


@changes
def every_gpu(machine, path, value):
    """All GPUs of the machine have this value."""
    for entry in machine.sections["nvml"]["gpus"]:
        machine.set_gpu(entry["index"], path, value)


@dataclass(frozen=True)
class Case(cases.Case):
    """One machine and what one check must say of it.

    `change` plants the fault.
    """

    change: Callable[[Machine], object] = lambda machine: None
    machine: Callable[[], Machine] = Machine.hgx_h100
    profile: Profile = Profile.DELIVERY
    limits: Mapping[str, object] = field(default_factory=dict)
    expected: Mapping[str, object] = field(default_factory=dict)  # what the inventory says of the node


def judged(case):
    """What the check says."""
    machine = case.machine()
    case.change(machine)
    node = Node("gpu01", expected=case.expected, origin="hosts.yaml:3")
    return judge_one(case.check, machine, profile=case.profile, baseline=case.limits, node=node)
