"""The burn: every GPU of a node at full load, every result compared, with clocks, power and temperature.

nodegate's own program needs only the driver on the node. If gpu_burn is installed and the run is long, it runs
too: a program by others that should come to the same answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

from nodegate.errors import CannotMeasure
from nodegate.measure.burn import document as burn_document
from nodegate.measure.burn.document import BurnDocument, GpuLoad, Phase
from nodegate.measure.burn.power import in_first
from nodegate.measure.durations import Durations
from nodegate.measure.measurement import ByName, Measurement, Target, no_gpus, on_each_node, suspects_alone
from nodegate.measure.own_program import by_another, by_index, read_attempts, run_another, run_own
from nodegate.measure.program_run import check_end, unended
from nodegate.metric import Metric, joined
from nodegate.records.program_run import Attempt, ProgramRun
from nodegate.tools import gpu_burn
from nodegate.tools.gpu_burn import GpuBurnRun
from nodegate.unknown import Unknown

OWN = "burn"
OTHER = "gpu_burn"  # the tool, once for each of its modes
MODES: Mapping[str, tuple[str, ...]] = {"tensor cores": ("-tc",), "fp32": ()}
# Share of the time; tensor cores draw the most power. What a board has no units for goes to the first.
PHASES = (("bf16", 0.4), ("fp8", 0.15), ("fp4", 0.1), ("fp32", 0.15), ("fp64", 0.2))

LOOKS = 3  # that one burn is: parts of equal length
_THE_BURN = "the burn"
_STATE: tuple[tuple[str, str, Literal["higher", "lower"]], ...] = (
    ("sm_clock_mhz", "MHz", "higher"),
    ("power_w", "W", "higher"),
    ("temperature_c", "°C", "lower"),
)
_START_LIMIT_S = 120.0
_ANSWER_LIMIT_S = 60.0
_END_S = 30.0
_OTHER_FROM_S = 300.0  # a shorter burn is not an acceptance
_OTHER_SHARE = 0.2
# A report takes two batches, 24 s on the largest memories: fewer than five reports say little.
_OTHER_LEAST_S, _OTHER_MOST_S = 120.0, 300.0
_OTHER_END_S = 150.0  # 30 s are its own time limit for its children
# gpu_burn looks for its compare kernel in the working directory; CUDA's order of GPUs is set to that of NVML.
_IN_ITS_FOLDER = (
    'tool=$(command -v "$1") && tool=$(readlink -f "$tool") && cd "${tool%/*}" && shift'
    ' && CUDA_DEVICE_ORDER=PCI_BUS_ID exec "$tool" "$@"'
)


@dataclass(frozen=True)
class OtherRun:
    """One run of the program gpu_burn in one of its modes for this many seconds: its output, or why there is none."""

    mode: str
    found: GpuBurnRun | CannotMeasure
    seconds: str = ""


@dataclass(frozen=True)
class Burn(ByName):
    """The burns of a node: the first, and those of a suspect that was measured again.

    `runs` are the attempts with a document, in order; `failed` says why others have none. `others` are the runs of
    gpu_burn, none if it is not installed or the burn was short.
    """

    runs: tuple[BurnDocument, ...]
    failed: tuple[CannotMeasure, ...]
    others: tuple[OtherRun, ...]

    @cached_property
    def loads(self) -> Mapping[int, tuple[GpuLoad, ...]]:
        """What each GPU did in each burn, by its NVML index."""
        return by_index(load for each in self.runs for load in each.gpus)

    @property
    def dtypes(self) -> tuple[str, ...]:
        """The types of numbers with which every GPU had to compute."""
        return tuple(dict.fromkeys(dtype for each in self.runs for dtype in each.dtypes))

    @cached_property
    def metrics(self) -> tuple[Metric, ...]:
        """Rates by type, and clock, power and temperature under settled load, for each GPU; then gpu_burn's rates."""
        singles: list[Metric] = []
        for document in self.runs:
            asked = "unknown" if isinstance(document.asked_s, Unknown) else f"{document.asked_s:.0f}"
            own = (each for load in document.gpus for each in _metrics_of_gpu(document, load))
            singles += [replace(each, over_runs={"seconds": asked}) for each in own]
        return joined([*singles, *(each for other in self.others for each in _metrics_of_other(other))])

    def rates(self) -> tuple[Metric, ...]:
        """Only the rates of nodegate's own burn."""
        return tuple(each for each in self.metrics if each.name.endswith("_tflops") and "gpu_burn" not in each.name)


def parse(attempts: Sequence[Attempt]) -> Burn:
    """The result of the attempts on one node. Raises CannotMeasure: none of them has a document; the last reason."""
    nothing = CannotMeasure("no burn was run", next_step="burn this node again")
    runs, failed, others = read_attempts(attempts, _document, beside=OTHER, nothing=nothing)
    for ran in (ran for attempt in attempts for ran in attempt.runs if burn_document.WIRE in ran.stdout):
        failed += [unended(ran, _THE_BURN)] if ran.timed_out or ran.stuck else []
    beside = tuple(
        OtherRun(ran.plan.mode or ran.what, by_another(ran, gpu_burn.parse, _unended), "".join(ran.argv[-1:]))
        for ran in others
    )
    return Burn(tuple(runs), tuple(failed), beside)


def burn_of(target: Target) -> tuple[ProgramRun, ...]:
    """Burn all GPUs of a node with nodegate's program, then with gpu_burn if it is installed and the burn is long."""
    seconds = target.durations.burn_s
    options = {"seconds": seconds, "phases": [list(each) for each in PHASES]} | _cublas(target)
    own = run_own(
        target,
        OWN,
        options=options | {"start_limit_s": _START_LIMIT_S, "answer_limit_s": _ANSWER_LIMIT_S},
        purpose=f"burns every GPU for {seconds:g} s and compares the results; writes nothing to disk.",
        timeout_s=seconds + 2 * _START_LIMIT_S + _ANSWER_LIMIT_S + _END_S,
    )
    other_s = other_seconds(seconds)
    if not other_s or own.exit_code != 0 or own.stuck:
        return (own,)
    others = run_another(
        target,
        OTHER,
        {mode: (*options, f"{other_s:.0f}") for mode, options in MODES.items()},
        before=("sh", "-c", _IN_ITS_FOLDER, "sh"),
        timeout_s=other_s + _OTHER_END_S,
        shortened=gpu_burn.condensed,  # it prints its reports again at each line of its nvidia-smi
    )
    return (own, *others)


def other_seconds(burn_s: float) -> float:
    """How long gpu_burn runs in each of its modes, in seconds; 0: not at all."""
    return min(max(_OTHER_SHARE * burn_s, _OTHER_LEAST_S), _OTHER_MOST_S) if burn_s >= _OTHER_FROM_S else 0.0


def takes_s(durations: Durations) -> float:
    """About how long it takes, without gpu_burn."""
    return durations.burn_s + _END_S


def _cublas(target: Target) -> dict[str, object]:
    """Where the program looks for cuBLAS first, and why what --tools has did not come."""
    found = target.tools.cublas()
    if found.own_kernels:
        return {"path": "ptx"}
    return {"places": [list(each) for each in found.places], "not_brought": found.not_brought}


def _document(ran: ProgramRun) -> BurnDocument:
    """The output before the program hung is read too."""
    came = burn_document.WIRE in ran.stdout
    if ran.cannot or not came:
        check_end(ran, _THE_BURN, document=came)
    return burn_document.decode(ran.stdout)


def _unended(ran: ProgramRun) -> CannotMeasure | None:
    step = "look for processes in D state on the node, then power-cycle it"
    return CannotMeasure(f"gpu_burn did not end: {', '.join(ran.stuck)}", next_step=step) if ran.stuck else None


def _metrics_of_gpu(document: BurnDocument, load: GpuLoad) -> Iterable[Metric]:
    path = load.path or document.path
    conditions = {"tool": "nodegate burn", "gpu": str(load.name), "path": path, "driver": str(document.driver)}
    conditions |= {"cublas": str(document.library_version)} if path == "cublas" else {}
    for phase in load.phases:
        if looks := phase.looks(LOOKS):
            with_type = conditions | {"dtype": phase.dtype, "matrix": str(phase.matrix)} | _of_kernel(phase)
            yield Metric(f"burn.{phase.dtype}_tflops", looks, "TFLOPS", load.device, conditions=with_type)
    for quantity, unit, better in _STATE:
        dtype, value = in_first(load, quantity)
        if not isinstance(value, Unknown):
            of_type = conditions | {"dtype": dtype or "+".join(document.dtypes)} | _of_kernel(*load.phases[:1])
            yield Metric(f"burn.{quantity}", (value,), unit, load.device, better=better, conditions=of_type)


def _of_kernel(phase: Phase | None = None) -> dict[str, str]:
    """A kernel of another release has a rate, clock and power of its own; ours is the same on every GPU of a model."""
    return {"kernel": phase.kernel} if phase and phase.by_another_kernel else {}


def _metrics_of_other(other: OtherRun) -> Iterable[Metric]:
    if isinstance(other.found, CannotMeasure):
        return
    name = "burn.gpu_burn_tensor_tflops" if other.found.tensor_cores else "burn.gpu_burn_fp32_tflops"
    length = {"seconds": other.seconds}
    for gpu in other.found.gpus:
        if not isinstance(rate := gpu.rate_gflops, Unknown):
            conditions = {"tool": OTHER, "gpu": str(gpu.name), "mode": other.mode}
            yield Metric(name, (rate / 1000.0,), "TFLOPS", f"GPU {gpu.index}", conditions=conditions, over_runs=length)


BURN = Measurement(
    name="burn",
    stage="gpu",
    applies=no_gpus,
    rests_on=("gpu.lost",),
    measure=on_each_node(burn_of),
    again=suspects_alone(on_each_node(burn_of)),
    alone=True,
    parse=parse,
    takes_s=takes_s,
)
