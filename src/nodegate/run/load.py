"""What a campaign measures, and its stages under load over all nodes at once: gpu, node, links, fabric."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from nodegate.errors import CannotMeasure
from nodegate.facts import known_or_none
from nodegate.judge.fleet import OWN_MACHINE, SAME_MACHINE_STEP
from nodegate.measure.durations import Durations
from nodegate.measure.measurement import Measurement, Runs, Target, document
from nodegate.measure.program_run import not_begun
from nodegate.measure.registry import FACTS_AFTER
from nodegate.metric import Metric
from nodegate.node import Node
from nodegate.numbers.assessments import Bounds, Doubt
from nodegate.records.evidence import Evidence
from nodegate.records.program_run import Attempt
from nodegate.records.run_folder import RunFolder
from nodegate.run.gate import Gate
from nodegate.run.progress import ThreadPool
from nodegate.scheduler.hold import Holder
from nodegate.toolbox.toolbox import Toolbox
from nodegate.transport.session import Session

AGAIN_BURN_S = 120.0  # enough to distinguish a slow GPU from a disturbed run
MOST_AMONG_NODES = 3  # looks at a number of several nodes: the partners are others each time
NODES_AT_ONCE = 64


class Load:
    """One measurement after the other, each over every node that may take part; evidence as it comes."""

    def __init__(
        self,
        folder: RunFolder,
        targets: Sequence[Target],
        pool: ThreadPool,
        gate: Gate,
        lost: Callable[[], Mapping[str, CannotMeasure]] = dict,
    ) -> None:
        self._lost = lost  # the nodes on which jobs may start again, and why
        self._folder, self._targets, self._pool, self._gate = folder, targets, pool, gate
        self.loaded: set[str] = set()  # the nodes on which a program ran

    def run(self, measurements: Sequence[Measurement], *, keep: bool) -> None:
        """Run all of them. `keep`: what has good evidence already is not measured again.

        Raises:
            UsageError: the evidence cannot be stored.
        """
        lost = self._lost()
        for measurement in measurements:
            if self._pool.cancelled:
                return
            going = [target for target in self._targets if self._takes_part(target, measurement, lost, keep=keep)]
            if not going:
                continue
            self.loaded.update(target.node.name for target in going)
            self._measure(measurement, going)
            lost = self._lost()  # what was measured while a job may have been on the node says nothing of it
            for name in (target.node.name for target in going if target.node.name in lost):
                self._folder.write_evidence(Evidence(name, measurement.name, time.time(), 0.0, error=lost[name]))

    def _takes_part(
        self, target: Target, measurement: Measurement, lost: Mapping[str, CannotMeasure], *, keep: bool
    ) -> bool:
        name = target.node.name
        if keep:
            earlier = self._folder.read_evidence(name, measurement.name)
            if earlier is not None and earlier.error is None:
                return False
        if known_or_none(lambda: measurement.applies(target.facts)):  # what is wrong, gate and measurement report
            return False
        blocked = self._gate.refusal(name, measurement) or lost.get(name)
        if blocked is not None:
            self._folder.write_evidence(Evidence(name, measurement.name, time.time(), 0.0, error=blocked))
        return blocked is None

    def _measure(self, measurement: Measurement, going: list[Target]) -> None:
        attempts: dict[str, list[Attempt]] = {target.node.name: [] for target in going}
        started, bounds = time.time(), _bounds(measurement, going)
        self._say(measurement, going, "")
        runs = measurement.measure(going, self._pool)
        metrics = dict.fromkeys(attempts, ()) | self._keep(measurement, attempts, runs, started)
        looks = going[0].durations.looks if measurement.alone else range(1, MOST_AMONG_NODES + 1)
        shorter = [
            replace(each, durations=replace(each.durations, burn_s=min(each.durations.burn_s, AGAIN_BURN_S)))
            for each in going
        ]
        for at, wanted in enumerate(looks):
            doubted = self._doubted(measurement, attempts, metrics, bounds) if at else dict.fromkeys(attempts, ())
            for _ in range(_runs_missing(wanted, measurement, attempts, metrics)):
                settled = _those(attempts, measurement.settled) | frozenset(self._lost())
                again = {
                    name: doubts
                    for name, doubts in doubted.items()
                    if any(each.began for each in attempts[name]) and name not in settled
                }
                if not again or self._pool.cancelled:
                    return
                self._say(measurement, shorter, f", {len(again)} nodes once more")
                ready = [target for target in shorter if target.node.name not in settled]
                runs = measurement.again(ready, self._pool, again)
                metrics |= self._keep(measurement, attempts, runs, started)

    def _doubted(
        self,
        measurement: Measurement,
        attempts: Mapping[str, Sequence[Attempt]],
        metrics: Mapping[str, tuple[Metric, ...]],
        bounds: Mapping[str, Bounds],
    ) -> Mapping[str, tuple[Doubt, ...]]:
        """The nodes of which more looks are taken: with a doubtful number, or none; and their like."""
        by_number = self._gate.suspects(metrics, bounds, alone=measurement.alone)
        return {**dict.fromkeys(_those(attempts, measurement.doubtful), ()), **by_number}

    def _say(self, measurement: Measurement, going: list[Target], more: str) -> None:
        expected_s = measurement.takes_s(going[0].durations) if measurement.takes_s else 0.0
        self._pool.begin(f"{measurement.stage}: {measurement.name}{more}", expected_s)

    def _keep(
        self, measurement: Measurement, attempts: dict[str, list[Attempt]], runs: Runs, started: float
    ) -> dict[str, tuple[Metric, ...]]:
        """Write the results, unless the run is ended, and return the numbers in them, of earlier attempts too."""
        found: dict[str, tuple[Metric, ...]] = {}
        if self._pool.cancelled:
            return found
        missing = not_begun(CannotMeasure("no result came back", next_step="run again with --resume"))
        for name, earlier in attempts.items():
            if name not in runs and earlier:
                continue
            earlier.append(runs.get(name, missing))
            found[name] = _metrics_of(measurement, earlier)
            whole = document(measurement.name, earlier, found[name])
            evidence = Evidence(name, measurement.name, started, time.time() - started, document=whole)
            self._store(evidence, is_first=len(earlier) == 1)
        return found

    def _store(self, evidence: Evidence, *, is_first: bool) -> None:
        """Write what a measurement gave. If the second or third look does not fit, what fitted before stays."""
        try:
            self._folder.write_evidence(evidence)
        except (ValueError, RecursionError) as fault:
            if is_first:
                step = "measure fewer nodes at once, or with --pairs few"
                error = CannotMeasure(f"what was measured cannot be stored: {fault}", next_step=step)
                self._folder.write_evidence(replace(evidence, document=None, error=error))


def left_out(names: Sequence[str], plan: Plan, gate: Gate) -> Iterator[Evidence]:
    """Nothing is measured under a second name of a machine: the lock is under the first."""
    same = CannotMeasure(
        "another name of the inventory is the same machine", next_step=SAME_MACHINE_STEP, lacks=OWN_MACHINE
    )
    for node in names:
        said = same
        for measurement in plan.measurements:
            said = gate.refusal(node, measurement) or said
            yield Evidence(node, measurement.name, time.time(), 0.0, error=said)
        if plan.facts_after:
            yield Evidence(node, FACTS_AFTER, time.time(), 0.0, error=said)


def _metrics_of(measurement: Measurement, attempts: Sequence[Attempt]) -> tuple[Metric, ...]:
    try:
        return measurement.parse(attempts).metrics
    except CannotMeasure:  # nothing to compare: the check reports that
        return ()


def _bounds(measurement: Measurement, targets: Sequence[Target]) -> dict[str, Bounds]:
    """What physics allows on each node, where it is known by more than its platform."""
    found: dict[str, Bounds] = {}
    if measurement.bounds is not None:
        for target in targets:
            with suppress(CannotMeasure):  # a node whose facts cannot be read is judged by what its platform says
                found[target.node.name] = measurement.bounds(target.facts)
    return found


def _runs_missing(
    wanted: int,
    measurement: Measurement,
    attempts: Mapping[str, Sequence[Attempt]],
    metrics: Mapping[str, tuple[Metric, ...]],
) -> int:
    """How many more runs give so many looks: one that is cut into parts gives several, a very short one does not."""
    runs = max([1, *map(len, attempts.values())])
    parts = [len(each.values) for found in metrics.values() for each in found] if measurement.alone else []
    looks: int = max([runs, *parts])
    return max(0, math.ceil((wanted - looks) * runs / looks))


def _those(
    attempts: Mapping[str, Sequence[Attempt]], says: Callable[[Sequence[Attempt]], bool] | None
) -> frozenset[str]:
    """The nodes of whose attempts a measurement says so; none where it says nothing of the kind."""
    return frozenset(name for name, each in attempts.items() if says is not None and says(each))


@dataclass(frozen=True)
class Plan:
    """The nodes to measure and how.

    `take_lock`: hold the node's lock while it is measured, so that two runs never use a node at once.
    `keep`: evidence that is already in the run folder is used (a resumed run).
    `holders` keep jobs off the nodes that they know while these are under load.
    `judged_here`: the reader of `arrivals` judges, and the load waits for that; else the gate judges alone.
    """

    nodes: Sequence[Node]
    durations: Durations
    measurements: tuple[Measurement, ...] = ()
    facts_after: bool = False
    take_lock: bool = False
    keep: bool = False
    judged_here: bool = True
    nodes_at_once: int = NODES_AT_ONCE
    holders: Sequence[Holder] = ()

    @property
    def under_load(self) -> bool:
        """Whether more than facts is requested."""
        return bool(self.measurements) or self.facts_after

    @property
    def names(self) -> tuple[str, ...]:
        """The evidence that a node must have at the end, without facts."""
        return (*(each.name for each in self.measurements), *((FACTS_AFTER,) if self.facts_after else ()))


@dataclass(frozen=True)
class Connections:
    """How the campaign reaches nodes and finds their tools."""

    connect: Callable[[Node], Session]
    toolbox: Callable[[Session], Toolbox]
