"""Whole nodes with planted faults, judged among healthy neighbours as a run does it, without pytest or a run folder."""

import json
from collections.abc import Callable
from functools import cache

from fleet.load.after import document_after
from fleet.load.recordings import MODULES, recordings
from fleet.machine import Machine
from fleet.racks import racks

from nodegate import suite
from nodegate.baseline.baseline import Baselines
from nodegate.judge.waivers import Waivers
from nodegate.measure.measurement import document as document_of
from nodegate.measure.registry import FACTS_AFTER
from nodegate.node import Node
from nodegate.profile import Profile
from nodegate.records.evidence import FACTS, Evidence, parse_evidence
from nodegate.run.judging import Judging

Make = Callable[[str, int], Machine]
HEALTHY = 8  # as many as the statistics of a fleet need
EXPECTED = {"mounts": ["/scratch", "/mnt/data:ro"], "gpus": 8}
MEASURED_PARTS = ("pci", "infiniband", "nvml")  # sections of facts that decide how a made-up node is measured


class _Recordings:
    """What a run folder gives: evidence by node and measurement."""

    def __init__(self, evidence):
        self._evidence = evidence

    def read_evidence(self, node, measurement=FACTS):
        return self._evidence.get((node, measurement))


def judged(make, faults, memory_gib):
    """What all checks of profile delivery say of nodes with these faults, which measure together.

    Args:
        make: makes a healthy machine of a name and number.
        faults: for each node what is planted in it.
        memory_gib: what the nodes' memory must be.
    """
    machines = [make(f"faulty{number}", number) for number in range(1, len(faults) + 1)]
    for machine, plants in zip(machines, faults, strict=True):
        for plant in plants:
            plant(machine)
    platform = make.__name__
    evidence = _evidence_of(machines, make)
    healthy = [f"healthy{number}" for number in range(1, HEALTHY + 1)]
    run = _run([*(machine.name for machine in machines), *healthy], platform, memory_gib)
    run.evidence.folder = _Recordings({**_healthy_evidence(platform), **evidence})
    return {machine.name: _records(run, machine.name) for machine in machines}


def judged_alone(machines, expected, baselines=None):
    """What all checks of profile delivery say of these nodes in one run, with nobody else to compare them with.

    Args:
        machines: the nodes, with whatever is planted in them.
        expected: what the inventory says of each.
        baselines: where not the shipped ones.
    """
    run = _alone(machines, expected, baselines or _baselines())
    run.evidence.folder = _Recordings(_evidence(machines))
    return {name: _records(run, name) for name in run.nodes}


def facts_alone(machines, expected):
    """The run of these nodes before anything is measured."""
    run = _alone(machines, expected, _baselines())
    facts = {(each.name, FACTS): _parsed(each.name, FACTS, each.document()) for each in machines}
    run.evidence.folder = _Recordings(facts)
    return run


def _alone(machines, expected, baselines):
    where = racks(machine.name for machine in machines)
    nodes = {each.name: Node(each.name, expected={**expected, "rack": where[each.name]}) for each in machines}
    run = Judging(nodes, Profile.DELIVERY, baselines, Waivers(()))
    for name in nodes:
        for check in suite.checks():
            run.register.ask(check, name)
    return run


def _records(run, node):
    return tuple(run.record(check, node) for check in suite.checks() if Profile.DELIVERY.includes(check.tier))


def _run(names, platform, memory_gib):
    expected = {**EXPECTED, "limits": {"host.memory_gib": memory_gib}}
    nodes = {name: Node(name, groups=(platform,), expected=expected) for name in names}
    run = Judging(nodes, Profile.DELIVERY, _baselines(), Waivers(()))
    measured = run.view.metrics
    run.view.metrics = lambda name: _healthy_metrics(platform, name) if name.startswith("healthy") else measured(name)
    run.contexts.summaries = {name: _healthy_summary(platform, name) for name in names if name.startswith("healthy")}
    for name in names:
        for check in suite.checks():
            run.register.ask(check, name)
    return run


def _evidence_of(machines, make):
    """What is recorded of faulty nodes and two good partners; what no fault changes is made once for all tests."""
    fresh = [make(machine.name, number) for number, machine in enumerate(machines, start=1)]
    changed = {
        module.NAME
        for module in MODULES
        if any(
            module.NAME in machine.load.changes
            or module.NAME in machine.load.refused
            or any(machine.sections[name] != healthy.sections[name] for name in MEASURED_PARTS)
            for machine, healthy in zip(machines, fresh, strict=True)
        )
    }
    found = dict(_unchanged(make.__name__, len(machines)))
    for machine in machines:
        for name, document in ((FACTS, machine.document()), (FACTS_AFTER, document_after(machine))):
            found[machine.name, name] = _parsed(machine.name, name, document)
        for name, why in machine.load.refused.items():
            found[machine.name, name] = Evidence(machine.name, name, 0.0, 0.0, error=why)
    partners = [make("partner1", 90), make("partner2", 91)] if changed else []
    for module in MODULES:
        if module.NAME in changed:
            for node, attempts in module.recorded([*machines, *partners]).items():
                if (node, module.NAME) not in found or found[node, module.NAME].error is None:
                    found[node, module.NAME] = _parsed(node, module.NAME, document_of(module.NAME, attempts))
    return found


@cache
def _unchanged(platform, count):
    make: Make = getattr(Machine, platform)
    names = [*((f"faulty{number}", number) for number in range(1, count + 1)), ("partner1", 90), ("partner2", 91)]
    return _evidence([make(*name) for name in names])


def _parsed(node, name, document):
    return parse_evidence(json.dumps(document).encode(), node=node, measurement=name, file=f"{node}/{name}")


def _evidence(machines):
    return {
        (node, name): _parsed(node, name, found)
        for node, measured in recordings(machines).items()
        for name, found in measured.items()
    }


@cache
def _baselines():
    return Baselines.read()


@cache
def _healthy_evidence(platform):
    make: Make = getattr(Machine, platform)
    return _evidence([make(f"healthy{number}", number + 10) for number in range(1, HEALTHY + 1)])


@cache
def _healthy_summary(platform, name):
    run = Judging({name: Node(name)}, Profile.DELIVERY, _baselines(), Waivers(()))
    run.evidence.folder = _Recordings(_healthy_evidence(platform))
    found = run.contexts.summary(name)
    assert found is not None
    return found


@cache
def _healthy_metrics(platform, name):
    run = Judging({name: Node(name)}, Profile.DELIVERY, _baselines(), Waivers(()))
    run.evidence.folder = _Recordings(_healthy_evidence(platform))
    return run.view.metrics(name)
