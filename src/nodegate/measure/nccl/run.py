"""NCCL inside a node: every collective once over all of its GPUs, each launch under a time limit.

all_reduce is run twice, with NCCL's own choice and with NCCL_ALGO=Ring. A launch that hangs only in the first way, or
is no faster, has lost NVLink SHARP (NVLS): the sum that the NVSwitches compute, which needs the fabric manager's
multicast. Source: NVIDIA/nccl-tests issue 212 (H100: 480 GB/s with NVLS, 370 with Ring) and README.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from nodegate.errors import END_OF_THE_RUN, CannotMeasure, Unreachable
from nodegate.facts import NodeFacts
from nodegate.measure.durations import Durations
from nodegate.measure.measurement import (
    Inapplicable,
    Measurement,
    Pool,
    Runs,
    Target,
    on_each_node,
    split_by_mig,
    suspects_alone,
)
from nodegate.measure.nccl.launches import LAUNCHES, RESTS_ON, RING_SETTINGS, Launch, sweep_s
from nodegate.measure.nccl.result import parse
from nodegate.measure.program_run import not_run, run
from nodegate.records.finding import OWN_WORD
from nodegate.records.program_run import Plan, ProgramRun
from nodegate.tools import nccl_tests
from nodegate.tools.nccl_rows import Row
from nodegate.unknown import Unknown

FEWEST_GPUS = 2
_SWITCH = 2  # NVML_NVLINK_DEVICE_TYPE_SWITCH
LONG_S = 120.0  # with this time limit or more, the sweep goes up to the largest size
MIB = 1 << 20
# A job's own choice of GPUs or of a test's options must not be taken over from the login.
UNSET = ("CUDA_VISIBLE_DEVICES", "NCCL_TESTS_DEVICE", "NCCL_TESTS_MIN_BW", "NCCL_TESTS_SPLIT", "NCCL_TESTS_SPLIT_MASK")
_START_AND_END_S = 8.0  # about, for one launch: CUDA contexts, NCCL's start, the buffers


@dataclass(frozen=True)
class Sweep:
    """Sizes in bytes, from `first`, doubled up to `judged`, whose row is the one that is judged; times of each size."""

    first_bytes: int
    judged_bytes: int
    iterations: int
    warmup: int

    @property
    def options(self) -> tuple[str, ...]:
        """As nccl-tests takes them; -c 1 compares every result."""
        sizes = ("-b", str(self.first_bytes), "-e", str(self.judged_bytes), "-f", "2")
        return (*sizes, "-n", str(self.iterations), "-w", str(self.warmup), "-c", "1")

    def needed_s(self, gb_per_s: float) -> float:
        """How long it takes at this speed."""
        return sweep_s(self.iterations + self.warmup, self.judged_bytes, gb_per_s)


FIRST = Sweep(64 * MIB, 64 * MIB, iterations=10, warmup=2)  # by which the sizes of bridged cards are chosen
FIRST_WHAT = "first size"


def sweep(durations: Durations, *, nvlink: bool) -> Sweep:
    """Which sizes are run.

    NVLink needs large messages: 512 MiB give 84 to 97 % of what 8 GiB give (ai-dynamo/aiconfigurator). Eight PCIe cards
    without peer access reach only 1 GB/s, where 8 GiB would take minutes and look like a hang.
    """
    long = durations.collective_s >= LONG_S
    if nvlink:
        return Sweep(512 * MIB, (8192 if long else 1024) * MIB, iterations=20, warmup=5)
    return Sweep(64 * MIB, (512 if long else 128) * MIB, iterations=10, warmup=2)


def bounded(durations: Durations, first: Row | None) -> Sweep:
    """The largest sizes that a third of the time limit holds at the speed of a first launch; None: it gave none.

    Bridges join pairs of cards: over all eight of them a collective goes by PCIe.
    """
    sweeps = (sweep(durations, nvlink=True), sweep(durations, nvlink=False), FIRST)
    speed = first.out_of_place.algbw_gb_per_s if first else 0.0
    fits = (each for each in sweeps if first and each.needed_s(speed) <= durations.collective_s / 3)
    return next(fits, sweeps[1] if first is None else FIRST)


def applies(facts: NodeFacts) -> Inapplicable | None:
    """Why there is nothing to measure; None if there is. GPUs that cannot be read are reported when it is measured."""
    try:
        count = gpu_count(facts)
    except CannotMeasure:
        return None
    if count < FEWEST_GPUS:
        witness = OWN_WORD if len(facts.gpus.devices) == 1 else ""
        return Inapplicable(f"{count or 'no'} GPU{'' if count == 1 else 's'}: a collective needs two", witness=witness)
    return split_by_mig(facts)


def gpu_count(facts: NodeFacts) -> int:
    """How many GPUs respond to the driver. Raises CannotMeasure: the node does not report it."""
    return sum(gpu.lost is None for gpu in facts.gpus.devices)


def links(facts: NodeFacts) -> Literal["switched", "direct", "none"]:
    """How the GPUs are joined by the NVLinks that are up: cards without a bridge have links too, which are down."""
    found = [gpu.nvlinks for gpu in facts.gpus.devices if not isinstance(gpu.nvlinks, Unknown)]
    up = [link for links in found for link in links if link.up is True]
    if not up:
        return "none"
    return "switched" if any(link.remote_type == _SWITCH for link in up) else "direct"


def measure(targets: Sequence[Target], pool: Pool) -> Runs:
    """Every launch on every node; the nodes at the same time, the launches of a node one after the other."""
    return on_each_node(lambda target: _launches(target, pool))(targets, pool)


def _launches(target: Target, pool: Pool) -> Sequence[ProgramRun]:
    try:
        gpus, joined = gpu_count(target.facts), links(target.facts)
    except CannotMeasure as said:
        return [not_run(launch.what, said) for launch in LAUNCHES]
    if joined == "direct":
        chosen, first = _by_first_size(target, gpus)
    else:
        chosen, first = sweep(target.durations, nvlink=joined == "switched"), ()
    done: list[ProgramRun] = []
    stop: CannotMeasure | None = None
    for launch in LAUNCHES:
        plan = _plan(target, gpus, chosen)
        stop = stop or _reason_to_stop(done, pool)
        try:
            if stop:
                raise stop
            done.append(_run(target, launch, chosen, plan))
        except Unreachable as said:
            stop = said
            done.append(not_run(launch.what, said, plan))
        except CannotMeasure as said:
            done.append(not_run(launch.what, said, plan))
    return [*first, *done]


def _plan(target: Target, gpus: int, chosen: Sweep) -> Plan:
    return Plan(gpus=gpus, size_bytes=chosen.judged_bytes, limit_s=round(target.durations.collective_s, 1))


def _by_first_size(target: Target, gpus: int) -> tuple[Sweep, tuple[ProgramRun, ...]]:
    """The sizes by a launch of one small size, which is kept beside the others and judged by none of them."""
    try:
        ran = replace(_run(target, LAUNCHES[0], FIRST, _plan(target, gpus, FIRST)), what=FIRST_WHAT)
    except CannotMeasure:  # the launches themselves report it
        return bounded(target.durations, None), ()
    try:
        row = nccl_tests.parse(ran.stdout, ran.stderr).row(FIRST.judged_bytes)
    except CannotMeasure:
        row = None
    return bounded(target.durations, row), (ran,)


def _reason_to_stop(done: Sequence[ProgramRun], pool: Pool) -> CannotMeasure | None:
    """A hang ends the node's launches, except for Ring after all_reduce, which distinguishes NVLS from the rest."""
    if pool.cancelled:
        return CannotMeasure("the run was ended", next_step="continue with --resume", lacks=END_OF_THE_RUN)
    hung = [ran for ran in done if ran.timed_out]
    stuck = any(ran.stuck for ran in hung)
    if not hung or (len(done) == 1 and not stuck):
        return None
    why = "cannot be ended" if stuck else f"did not end within {hung[0].plan.limit_s:g} s"
    return CannotMeasure(f"not run: {hung[0].what} {why} before", next_step=f"see the finding on {hung[0].what}")


def _run(target: Target, launch: Launch, chosen: Sweep, plan: Plan) -> ProgramRun:
    program = f"{launch.collective}_perf"
    tool = target.tools.find(program, f"{program}_mpi")
    unset = [word for name in UNSET for word in ("-u", name)]
    if not launch.ring:
        unset += [word for name in RING_SETTINGS for word in ("-u", name)]
    settings = [f"{name}={value}" for name, value in launch.settings.items()]
    # The program is the last argument: it may be preceded by a container command, which passes on no environment.
    argv = (*tool.argv[:-1], "env", *unset, *settings, tool.argv[-1], *chosen.options, "-g", str(plan.gpus))
    return run(target.session, launch.what, argv, timeout_s=target.durations.collective_s, plan=plan)


NCCL = Measurement(
    name="nccl",
    stage="node",
    applies=applies,
    rests_on=RESTS_ON,
    measure=measure,
    again=suspects_alone(measure),
    alone=True,
    parse=parse,
    takes_s=lambda durations: (
        len(LAUNCHES) * min(_START_AND_END_S * (2 if durations.collective_s >= LONG_S else 1), durations.collective_s)
    ),
)
