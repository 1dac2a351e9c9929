"""Findings of the burn: which GPUs took part, whose results are wrong, what another program says."""

import itertools
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from statistics import median

from nodegate.measure.burn.document import BurnDocument, GpuLoad, Phase
from nodegate.records.part import Part
from nodegate.records.verdict import Verdict
from nodegate.text import counted
from nodegate.tools.gpu_burn import BurntGpu, GpuBurnRun
from nodegate.unknown import Unknown, known, unread, value_or
from nodegate.verdicts import Verdicts

FEWEST_ALIKE = 3  # of two GPUs that differ, either may be the odd one
AGAIN = "burn this node again; see the evidence file for what the GPU reported"
WRONG = "drain the node; run field diagnostics and replace the board (RMA)"
_OTHER_ALGORITHM = (
    "set nodegate_cublas: none for this node and burn it again; if that is clean, the GPU is good: compare its VBIOS "
    "and settings with those of the others"
)
COMPLETE = "burn.complete"
# A product that has begun is not broken off, and the first ones are the warm-up: what may be missing of the time.
LEAST_SHARE, SLACK_S = 0.9, 2.0
MOST_STILL_S = 10.0  # work comes in pieces of half a second
FEWEST_WINDOWS = 8  # fewer do not show how long one takes
LEAST_BUSY = 0.5  # between two batches results are compared: no sample falls on work there
_TENSOR = "bf16"  # own kernels have no fp8 and no fp4
_CORRUPT = "silent data corruption"
OTHERS_GAVE_UP = "nodegate_wgmma"  # begins the error of a former kernel that waited in vain
REPLACE = "drain the node and reset the GPU; if it comes back, run field diagnostics and replace the board"


def judge_results(document: BurnDocument, verdicts: Verdicts) -> None:
    """The results of all GPUs: each beside those of the GPUs like it, then each by itself.

    GPUs are alike with the same name, number of multiprocessors, library, kernel and size of the matrices: they were
    given the same operands, so every bit of their first results must be the same. Where no result is held by most of
    them, all of them are odd.
    """
    alike: defaultdict[object, list[tuple[GpuLoad, Phase]]] = defaultdict(list)
    for load in document.gpus:
        for phase in load.phases:
            if phase.checksum:
                alike[load.model, load.path, phase.kernel, phase.dtype, phase.matrix].append((load, phase))
    odd: set[int] = set()
    for members in alike.values():
        counts = Counter(phase.checksum for _, phase in members)
        common, count = counts.most_common(1)[0]
        majority = common if 2 * count > len(members) and len(members) >= FEWEST_ALIKE else ""
        for load, phase in members if len(counts) > 1 else ():
            if phase.checksum != majority:
                others = [each.device for each, other in members if other.checksum != phase.checksum]
                _odd_result(load, phase, document, others, verdicts, outvoted=bool(majority))
                odd.add(load.index)
    for load in document.gpus:
        _results(load, document, verdicts, differ=load.index in odd)


def _odd_result(
    load: GpuLoad, phase: Phase, document: BurnDocument, others: Sequence[str], verdicts: Verdicts, *, outvoted: bool
) -> None:
    """A first result that differs: a fault, unless all else is right and nodegate's own kernels give equal bits."""
    differs = f"differs from that of {', '.join(others)}"
    if phase.mismatches == 0 and phase.reference_errors == 0 and _equal_with_own_kernels(load, phase.dtype, document):
        reason = (
            f"cuBLAS's {phase.dtype} result {phase.checksum} {differs}, while nodegate's own kernels give equal bits: "
            "another algorithm, or a fault that they did not hit"
        )
        quantity = f"{phase.dtype} result comparison"
        verdicts.unknown(part=load.part, quantity=quantity, reason=reason, action=_OTHER_ALGORITHM)
        return
    doubt = "" if outvoted else ", with no majority to say which is right"
    message = f"{phase.dtype} result {phase.checksum} {differs}{doubt}"
    _wrong(load, phase, message, "results that differ between GPUs", 1, verdicts)


def _equal_with_own_kernels(odd: GpuLoad, dtype: str, document: BurnDocument) -> bool:
    """Whether own kernels gave every GPU of the model the same clean result, in this type of numbers or in bf16."""
    own = {load.index: {phase.dtype: phase for phase in load.phases} for load in document.again if not load.error}
    alike = [own.get(load.index, {}) for load in document.gpus if load.model == odd.model and load.phases]
    dtype = dtype if any(dtype in phases for phases in alike) else _TENSOR
    found = [phases.get(dtype) for phases in alike]
    return len({each.checksum for each in found if each}) == 1 and all(
        each and each.checksum and each.mismatches == 0 and each.reference_errors == 0 for each in found
    )


def took_part(load: GpuLoad, document: BurnDocument, verdicts: Verdicts) -> None:
    """Whether a GPU worked from start to end, in every type of numbers, and was watched meanwhile."""
    asked_for = [dtype for dtype in document.dtypes if dtype not in load.left_out]
    missing = [dtype for dtype in asked_for if not has_rate(load, dtype)]
    if stopped((load,)):
        message = f"stopped working under load: {load.error}"
        verdicts.found(Verdict.FAIL, part=load.part, text=message, action=REPLACE, quantity="burn", observed=False)
    elif load.error or missing:
        reason = load.error or f"{', '.join(missing)} was not measured"
        verdicts.unknown(part=load.part, quantity="burn result", reason=reason, action=AGAIN)
    elif load.sampling_error or not load.settled:
        reason = load.sampling_error or "no sample under load"
        verdicts.unknown(part=load.part, quantity="state under load", reason=reason, action=AGAIN)
    elif short := _too_short(load, document):
        verdicts.unknown(part=load.part, quantity="burn", reason=short, action=AGAIN)
    else:
        asked = "" if isinstance(document.asked_s, Unknown) else f" of {document.asked_s:.0f} s"
        text = f"worked to the end{asked} in {', '.join(asked_for)}"
        worked = None if isinstance(load.worked_s, Unknown) else round(load.worked_s)
        verdicts.passed(part=load.part, text=text, quantity="time at work", observed=worked, unit="s")


def _too_short(load: GpuLoad, document: BurnDocument) -> str:
    """How a GPU worked less than was asked for; empty where it did not."""
    if isinstance(document.asked_s, Unknown) or isinstance(load.worked_s, Unknown):
        return ""
    if load.worked_s < LEAST_SHARE * document.asked_s - SLACK_S:
        return f"worked {load.worked_s:.0f} s of the requested {document.asked_s:.0f} s"
    if load.busy_share < LEAST_BUSY:
        return f"computed in only {100 * load.busy_share:.0f} % of the samples under load"
    gap_s, at_s = max((_longest_gap(phase) for phase in load.phases), default=(0.0, 0.0))
    return f"stalled for {gap_s:.0f} s, {at_s:.0f} s after the start" if gap_s > MOST_STILL_S else ""


def _longest_gap(phase: Phase) -> tuple[float, float]:
    """How much longer than the others the longest window of a type of numbers was, and when it began, in seconds."""
    lengths = [(later - earlier, earlier) for earlier, later in itertools.pairwise(phase.ends_s)]
    if len(lengths) < FEWEST_WINDOWS:
        return 0.0, 0.0
    longest_s, at_s = max(lengths)
    return longest_s - median(length for length, _ in lengths), at_s


def stopped(loads: Iterable[GpuLoad]) -> bool:
    """Whether a GPU stopped working while it was under load: a fault of its own, which burn.complete reports."""
    failed = (load for load in loads if load.error and not load.error.startswith(OTHERS_GAVE_UP))
    return any(load.started_s is not None for load in failed)


def not_measured(loads: Sequence[GpuLoad], quantity: str, verdicts: Verdicts) -> None:
    """What a burn did not give of a GPU."""
    blocked_by = COMPLETE if stopped(loads) else ""
    verdicts.unknown(part=loads[0].part, quantity=quantity, reason=why(loads), action=AGAIN, blocked_by=blocked_by)


def _results(load: GpuLoad, document: BurnDocument, verdicts: Verdicts, *, differ: bool) -> None:
    """Whether any result of a GPU was wrong; `differ`: it is told already that its first result is odd."""
    bad = differ
    for phase in load.phases:
        count, elements = value_or(phase.mismatches, 0), value_or(phase.reference_errors, 0)
        if (unknown := unread(phase.mismatches, phase.reference_errors)) is not None:
            quantity = f"{phase.dtype} result comparison"
            verdicts.unknown(part=load.part, quantity=quantity, reason=str(unknown), action=AGAIN)
            bad = True
            continue
        bad = bad or count > 0 or elements > 0
        if count > 0:
            place = f" ({phase.first_mismatch})" if phase.first_mismatch else ""
            message = f"{counted(count, 'wrong result')} in {phase.dtype}{place}"
            _wrong(load, phase, message, "wrong results", count, verdicts)
        if elements > 0:
            message = f"{elements} of 32 elements wrong in the first {phase.dtype} result"
            _wrong(load, phase, message, "wrong elements", elements, verdicts)
    products = sum(known(phase.iterations for phase in load.phases if phase.checksum))
    if not products:
        not_measured((load,), "result comparison", verdicts)
    elif not bad:
        own = {(phase.dtype, phase.kernel) for phase in load.phases}
        others = sum(
            each.model == load.model
            and each.index != load.index
            and any(phase.checksum and (phase.dtype, phase.kernel) in own for phase in each.phases)
            for each in document.gpus
        )
        alike = f"the first equal on {others} GPUs of its model" if others else "no GPU of its model to compare with"
        verdicts.passed(part=load.part, text=f"{products} products without a wrong result, {alike}")


def _wrong(  # noqa: PLR0917 - callers above
    load: GpuLoad, phase: Phase, message: str, quantity: str, count: int, verdicts: Verdicts
) -> None:
    """What a GPU computed wrong. A kernel of another release may be at fault."""
    if phase.by_another_kernel:
        reason = f"{message}, by the kernel {phase.kernel} of another release: its fault or the GPU's"
        verdicts.unknown(part=load.part, quantity=f"{phase.dtype} result comparison", reason=reason, action=AGAIN)
        return
    verdicts.found(
        Verdict.FAIL, part=load.part, text=f"{message}: {_CORRUPT}", action=WRONG, quantity=quantity, observed=count
    )


def has_rate(load: GpuLoad, dtype: str) -> bool:
    """Whether a GPU has a rate in a type of numbers."""
    return any(phase.dtype == dtype and not isinstance(phase.tflops, Unknown) for phase in load.phases)


def why(loads: Sequence[GpuLoad]) -> str:
    """Why a GPU lacks something, as far as it said."""
    said = [load.error or load.sampling_error for load in loads]
    return next((each for each in said if each), "it did not come so far")


def second_opinion(whose: Part, mode: str, gpu: BurntGpu, run: GpuBurnRun, verdicts: Verdicts) -> None:
    """What gpu_burn shows of one GPU, whatever it says at its end."""
    told, count = next(iter(run.told), ""), gpu.errors
    if count > 0 or (gpu.verdict == "FAULTY" and not gpu.died):
        some = counted(count, "wrong result") if count else "some wrong results"
        text = f"{some} in gpu_burn ({mode}): {_CORRUPT}"
        verdicts.found(Verdict.FAIL, part=whose, text=text, action=WRONG, quantity="wrong results", observed=count)
    elif gpu.died and gpu.processed > 0:
        text = f"its process died in gpu_burn ({mode}){f': {told}' if told else ''}"
        verdicts.found(Verdict.FAIL, part=whose, text=text, action=REPLACE, code="died")
    elif gpu.processed == 0 or gpu.verdict != "OK":
        idle = told or "no report shows any work, whatever the final list claims"
        reason = str(gpu.verdict) if gpu.processed else idle
        verdicts.unknown(part=whose, quantity=f"gpu_burn result ({mode})", reason=reason, action=AGAIN)
    else:
        verdicts.passed(part=whose, text=f"{gpu.processed} products without an error in gpu_burn ({mode})")
