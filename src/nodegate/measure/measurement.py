"""What a measurement is: how it is run over the fleet, and what its evidence says about one node."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Literal, Protocol, TypeVar

from nodegate.errors import CannotMeasure
from nodegate.measure.program_run import not_begun
from nodegate.records.plain import attempt_from_labels, from_plain, to_plain
from nodegate.records.program_run import Attempt, ProgramRun

if TYPE_CHECKING:
    from nodegate.facts import NodeFacts
    from nodegate.measure.durations import Durations
    from nodegate.metric import Metric
    from nodegate.node import Node
    from nodegate.numbers.assessments import Bounds, Suspects
    from nodegate.toolbox.toolbox import Toolbox
    from nodegate.transport.session import Session

T = TypeVar("T")
Stage = Literal["gpu", "node", "links", "fabric"]
STAGES: tuple[Stage, ...] = ("gpu", "node", "links", "fabric")  # in this order, with a barrier between them


@dataclass(frozen=True)
class Target:
    """A node for a measurement: its open session, what the probe saw, and where its tools are."""

    node: Node
    session: Session
    facts: NodeFacts
    tools: Toolbox
    durations: Durations


class Pool(Protocol):
    """The threads of a run, and its end."""

    def at_once(self, jobs: Mapping[str, Callable[[], T]]) -> dict[str, T | CannotMeasure]:
        """Do all jobs at the same time; returns when the last has ended. A job's failure concerns only that job.

        Their names are used in messages: a node, or "gpu01 mlx5_0 - gpu02 mlx5_0".
        """
        ...

    @property
    def cancelled(self) -> bool:
        """Whether the run was ended (Ctrl-C): then nothing is started any more."""
        ...


class Measured(Protocol):
    """The result of a measurement for one node. Each measurement has its own type with more in it."""

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """Every number that can be compared with a baseline, the fleet and the past."""
        ...


class ByName(Measured):
    """A result whose numbers are asked for by their names."""

    def named(self, *names: str) -> tuple[Metric, ...]:
        """The metrics of these names."""
        return tuple(metric for metric in self.metrics if metric.name in names)


@dataclass(frozen=True)
class Inapplicable:
    """Why a measurement does not apply to a node; `witness` says that it is by design, without one it is left open.

    `is_split`: its GPUs are split, by design where the site says so.
    """

    reason: str
    is_split: bool = False
    witness: str = ""


_SPLIT = Inapplicable("MIG is on for every GPU: there is no whole GPU", is_split=True)
Runs = dict[str, Attempt]  # by node; every node that took part has an entry


@dataclass(frozen=True)
class Measurement:
    """One measurement under load. Its name is the argument by which checks ask for it, and its evidence file's.

    `applies` says why it does not apply to a node ("no RDMA adapters"), None if it does: a `skip`, not an `error`.
    `rests_on` are the ids of checks that must not have failed on a node, which otherwise would spoil this measurement
    for it and its neighbours. `measure` runs it over all targets at once. `again` measures suspects once more, with
    the other targets as partners if needed; what it returns of others is kept too. `parse` reads the attempts of one
    node, in their order. `takes_s` is about how many seconds it takes, for the progress line. `doubtful`: whether a
    node has no number for a reason that a second attempt may clear (a link that hung once): it is measured again, as
    with a bad number.
    `bounds` says what a node's own parts allow, where that is more than its platform says. `settled`: whether a node's
    fault is known, or must be feared: it takes no part in second looks, as a suspect or as another one's partner.
    `alone`: each node is measured without the others, so that more looks at all cost no more time than at one.
    """

    name: str
    stage: Stage
    applies: Callable[[NodeFacts], Inapplicable | None]
    rests_on: tuple[str, ...]
    measure: Callable[[Sequence[Target], Pool], Runs]
    again: Callable[[Sequence[Target], Pool, Suspects], Runs]
    parse: Callable[[Sequence[Attempt]], Measured]
    takes_s: Callable[[Durations], float] | None = None
    doubtful: Callable[[Sequence[Attempt]], bool] | None = None
    bounds: Callable[[NodeFacts], Bounds] | None = None
    settled: Callable[[Sequence[Attempt]], bool] | None = None
    alone: bool = False

    def of_document(self, document: Mapping[str, object]) -> Measured:
        """The result in a node's evidence. Raises CannotMeasure: it has nothing that can be judged."""
        return self.parse(attempts_of(document))


def attempts_of(document: Mapping[str, object]) -> tuple[Attempt, ...]:
    """The attempts in the document of a measurement, also in one of a release before 0.3.

    Raises:
        CannotMeasure: it is malformed.
    """
    try:
        attempts = document.get("attempts")
        if not isinstance(attempts, list):
            raise ValueError("no list of attempts")  # noqa: TRY004, TRY301
        plain = (attempt_from_labels(each) if isinstance(each, list) else each for each in attempts)
        return tuple(from_plain(Attempt, each) for each in plain)
    except ValueError as fault:
        reason = f"the evidence file is malformed: {fault!s:.80}"
        raise CannotMeasure(reason, next_step="measure this node again") from None


def document(name: str, attempts: Sequence[Attempt], metrics: Sequence[Metric] = ()) -> dict[str, object]:
    """The document of a measurement for its evidence file: each attempt's programs, unchanged.

    `metrics` are for people who read the file; a verdict is derived from the programs' output, read again.
    """
    return {
        "schema": "nodegate.measured/2",
        "measurement": name,
        "values": [metric.to_json() for metric in metrics],
        "attempts": [to_plain(attempt) for attempt in attempts],
    }


def broke_off(document: Mapping[str, object]) -> bool:
    """Whether the document of a measurement says that nothing ran, or that one of its programs could not be run."""
    try:
        attempts = attempts_of(document)
    except CannotMeasure:
        return True
    failed = any(ran.cannot for attempt in attempts for ran in attempt.runs)
    return failed or not any(attempt.began for attempt in attempts)


def no_gpus(facts: NodeFacts) -> Inapplicable | None:
    """`applies` of a measurement of GPUs: also None if NVML does not answer: the measurement then reports why."""
    try:
        devices = facts.gpus.devices
    except CannotMeasure:
        return None
    return split_by_mig(facts) if devices else Inapplicable("no NVIDIA GPU")


def split_by_mig(facts: NodeFacts) -> Inapplicable | None:
    """That every GPU is split into instances; None where that is not so."""
    gpus = facts.known_gpus
    return _SPLIT if gpus and all(gpu.mig_enabled is True for gpu in gpus) else None


def on_each_node(run: Callable[[Target], Sequence[ProgramRun]]) -> Callable[[Sequence[Target], Pool], Runs]:
    """`measure` of a measurement that needs no other node."""

    def measure(targets: Sequence[Target], pool: Pool) -> Runs:
        done = pool.at_once({target.node.name: partial(run, target) for target in targets})
        return {
            name: not_begun(result) if isinstance(result, CannotMeasure) else Attempt(tuple(result))
            for name, result in done.items()
        }

    return measure


def suspects_alone(
    measure: Callable[[Sequence[Target], Pool], Runs],
) -> Callable[[Sequence[Target], Pool, Suspects], Runs]:
    """`again` of a measurement that needs no other node: the same, on the suspects."""
    return lambda targets, pool, suspects: measure([target for target in targets if target.node.name in suspects], pool)
