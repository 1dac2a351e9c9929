"""Whole nodes with planted faults, judged among healthy neighbours as a run does it, without pytest or a run folder."""

from __future__ import annotations

import json
from functools import cache
from typing import TYPE_CHECKING

from nodegate import suite
from nodegate.baseline.baseline import Baselines
from nodegate.demo.load.recordings import recordings
from nodegate.demo.machine import Machine
from nodegate.evidence import FACTS, Evidence, parse_evidence
from nodegate.judge.waivers import Waivers
from nodegate.node import Node
from nodegate.profile import Profile
from nodegate.run.judging import Judging

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from nodegate.finding import Record
    from nodegate.metric import Metric

    Plant = Callable[[Machine], object]
    Make = Callable[[str, int], Machine]

HEALTHY = 8  # as many as the statistics of a fleet need
EXPECTED = {"mounts": ["/scratch", "/mnt/data:ro"], "gpus": 8}
MEMORY_GIB = {"hgx": 2048, "l40s": 1024}


class _Recordings:
    """What a run folder gives: evidence by node and measurement."""

    def __init__(self, evidence: Mapping[tuple[str, str], Evidence]) -> None:
        self._evidence = evidence

    def read_evidence(self, node: str, measurement: str = FACTS) -> Evidence | None:
        return self._evidence.get((node, measurement))


class _JudgedOnce(Judging):
    """A run whose healthy nodes were measured once and for all."""

    def metrics(self, name: str) -> tuple[Metric, ...]:
        known = name.startswith("healthy")
        return _healthy_metrics(self.nodes[name].groups[0], name) if known else super().metrics(name)


def judged(make: Make, faults: Sequence[Iterable[Plant]], memory_gib: int) -> Mapping[str, tuple[Record, ...]]:
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
    evidence = _evidence([*machines, make("partner1", 90), make("partner2", 91)])
    healthy = [f"healthy{number}" for number in range(1, HEALTHY + 1)]
    run = _run([*(machine.name for machine in machines), *healthy], platform, memory_gib)
    run.folder = _Recordings({**_healthy_evidence(platform), **evidence})  # type: ignore[assignment]
    return {machine.name: _records(run, machine.name) for machine in machines}


def _records(run: Judging, node: str) -> tuple[Record, ...]:
    return tuple(run.record(check, node) for check in suite.checks() if Profile.DELIVERY.includes(check.tier))


def _run(names: Sequence[str], platform: str, memory_gib: int) -> _JudgedOnce:
    expected = {**EXPECTED, "limits": {"host.memory_gib": memory_gib}}
    nodes = {name: Node(name, groups=(platform,), expected=expected) for name in names}
    run = _JudgedOnce(nodes, Profile.DELIVERY, _baselines(), Waivers(()))
    for name in names:
        for check in suite.checks():
            run.ask(check, name)
    return run


def _evidence(machines: Sequence[Machine]) -> dict[tuple[str, str], Evidence]:
    return {
        (node, name): parse_evidence(json.dumps(found).encode(), node=node, measurement=name, file=f"{node}/{name}")
        for node, measured in recordings(machines).items()
        for name, found in measured.items()
    }


@cache
def _baselines() -> Baselines:
    return Baselines.read()


@cache
def _healthy_evidence(platform: str) -> Mapping[tuple[str, str], Evidence]:
    make: Make = getattr(Machine, platform)
    return _evidence([make(f"healthy{number}", number + 10) for number in range(1, HEALTHY + 1)])


@cache
def _healthy_metrics(platform: str, name: str) -> tuple[Metric, ...]:
    run = Judging({name: Node(name)}, Profile.DELIVERY, _baselines(), Waivers(()))
    run.folder = _Recordings(_healthy_evidence(platform))  # type: ignore[assignment]
    return run.metrics(name)
