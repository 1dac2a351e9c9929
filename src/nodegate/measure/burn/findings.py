"""Findings of the burn checks: whose results agree, who took part, what held a clock down."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

from nodegate.finding import Limit, NumberLimit
from nodegate.numbers.peers import PeerGroup
from nodegate.subjects.gpu import NORMAL_ABSENCE
from nodegate.unknown import Known, Unknown
from nodegate.verdict import Verdict

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from nodegate.measure.burn.document import BurnDocument, GpuLoad, Phase
    from nodegate.measure.burn.run import Burn
    from nodegate.metric import Metric
    from nodegate.numbers.margins import Margins
    from nodegate.numbers.peers import NodePeers
    from nodegate.part import Part
    from nodegate.probe.gpu import Gpu, Gpus
    from nodegate.tools.gpu_burn import BurntGpu, GpuBurnRun
    from nodegate.verdicts import Verdicts

# NVML's words for a clock that is held down, in the words of a technician.
FAULTS = {
    "hw_slowdown": "hardware slowdown",
    "hw_thermal_slowdown": "hardware thermal slowdown",
    "hw_power_brake_slowdown": "power brake (power supply)",
}
HEAT = {"sw_thermal_slowdown": "thermal slowdown by the driver"}
NORMAL = {
    "gpu_idle": "idle",
    "sw_power_cap": "software power cap",
    "applications_clocks_setting": "application clock setting",
    "sync_boost": "sync boost",
    "display_clock_setting": "display clock setting",
}
WORDS = {**FAULTS, **HEAT, **NORMAL}
_FEWEST_ALIKE = 3  # of two GPUs that differ, nobody can say which one is odd


@dataclass(frozen=True)
class Odd:
    """A first result that is not the one of the GPUs like it; `others` names those with the other result."""

    load: GpuLoad
    phase: Phase
    others: tuple[str, ...]
    outvoted: bool


def odd_results(document: BurnDocument) -> tuple[Odd, ...]:
    """The GPUs whose first result is not that of most GPUs like them; all of them where no result is held by most.

    GPUs are alike with the same name, number of multiprocessors, library and size of the matrices: they were given the
    same operands, so every bit must be the same.
    """
    alike: defaultdict[object, list[tuple[GpuLoad, Phase]]] = defaultdict(list)
    for load in document.gpus:
        for phase in load.phases:
            if phase.checksum:
                alike[load.model, load.path, phase.dtype, phase.matrix].append((load, phase))
    found: list[Odd] = []
    for members in alike.values():
        counts = Counter(phase.checksum for _, phase in members)
        common, count = counts.most_common(1)[0]
        majority = common if 2 * count > len(members) and len(members) >= _FEWEST_ALIKE else ""
        if len(counts) == 1:
            continue
        for load, phase in members:
            if phase.checksum != majority:
                others = tuple(each.device for each, other in members if other.checksum != phase.checksum)
                found.append(Odd(load, phase, others, outvoted=bool(majority)))
    return tuple(found)


def compared_with(document: BurnDocument, load: GpuLoad) -> int:
    """How many other GPUs this GPU's results could be compared with."""
    return sum(
        each.model == load.model and each.index != load.index and any(phase.checksum for phase in each.phases)
        for each in document.gpus
    )


def shares(reasons: Mapping[str, float], names: Iterable[str]) -> str:
    """Reasons with their share of the time: "power brake (power supply) 35 % of the time"."""
    found = sorted(((reasons[name], name) for name in names if name in reasons), reverse=True)
    return ", ".join(f"{WORDS.get(name, name)} {_percent(share)} of the time" for share, name in found)


def reasons_of(loads: Iterable[GpuLoad]) -> dict[str, float]:
    """What held the clock down in any of the burns, with the largest share of the time that it had in one."""
    found: dict[str, float] = {}
    for load in loads:
        for name, share in load.reasons.items():
            found[name] = max(found.get(name, 0.0), share)
    return found


def node_medians(metrics: Iterable[Metric]) -> Mapping[object, tuple[float, int]]:
    """The median of each quantity over the GPUs of the node that can be compared, and how many they are."""
    groups: defaultdict[object, list[float]] = defaultdict(list)
    for metric in metrics:
        groups[metric.key].append(metric.best)
    return {key: (median(values), len(values)) for key, values in groups.items() if len(values) >= _FEWEST_ALIKE}


def part_of_median(metric: Metric, middle: tuple[float, int] | None, part: NumberLimit) -> NumberLimit | None:
    """So many percent of the median of the GPUs of this node; None where they are too few."""
    if middle is None or not isinstance(part.value, (int, float)):
        return None
    value, count = middle
    source = f"{part.value:g} % of {value:.4g}, the median of {count} GPUs of this node; {part.source}"
    return Limit(round(value * part.value / 100, 3), metric.unit, source)


def part_of_fleet(metric: Metric, peers: NodePeers, margins: Margins, part: NumberLimit) -> NumberLimit | None:
    """So many percent of the median of the same GPU on the other nodes; None where nobody is there to compare with."""
    group = peers.group(metric, margins)
    if not isinstance(group, PeerGroup) or not isinstance(part.value, (int, float)):
        return None
    source = f"{part.value:g} % of {group.median:.4g}, the median of {group.nodes} other nodes; {part.source}"
    return Limit(round(group.median * part.value / 100, 3), metric.unit, source)


def facts_by_index(gpus: Gpus, burn: Burn) -> Mapping[int, Gpu]:
    """What the probe saw of each GPU that was burnt, by address where both know it, else by NVML index."""
    by_address = {gpu.address: gpu for gpu in gpus.devices if not isinstance(gpu.address, Unknown)}
    by_index = {gpu.index: gpu for gpu in gpus.devices}
    found = {}
    for index, loads in burn.loads.items():
        gpu = by_address.get(loads[0].address) if isinstance(loads[0].address, str) else by_index.get(index)
        if gpu is not None:
            found[index] = gpu
    return found


def slowdown_c(gpu: Gpu) -> Known[float]:
    """The temperature at which this GPU slows down, by its own word: absolute, or from the margin that it states."""
    if not isinstance(gpu.temperature_slowdown_c, Unknown):
        return float(gpu.temperature_slowdown_c)
    if isinstance(gpu.temperature_margin_c, Unknown):
        return gpu.temperature_margin_c
    if isinstance(gpu.temperature_c, Unknown):
        return gpu.temperature_c
    return float(gpu.temperature_c + gpu.temperature_margin_c)


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %" if share >= 0.01 else "less than 1 %"


AGAIN = "burn this node again; see the evidence file for what the GPU said"
WRONG = "take the node out: this GPU computes wrong; run field diagnostics and replace the board (RMA)"
POWER = "check power supplies, power cables and cooling of this GPU; then power-cycle the node"
REPLACE = "drain the node and reset the GPU; if it comes back, run field diagnostics and replace the board"
RESEAT = "power-cycle the node; if it stays, reseat the board or riser"


def took_part(load: GpuLoad, document: BurnDocument, verdicts: Verdicts) -> None:
    """Whether a GPU worked from start to end, in every type of numbers, and was watched meanwhile."""
    done = {phase.dtype: phase for phase in load.phases}
    missing = [dtype for dtype in document.dtypes if dtype not in done or isinstance(done[dtype].tflops, Unknown)]
    if load.error and load.started_s is not None:
        message = f"stopped working under load: {load.error}"
        verdicts.found(Verdict.FAIL, part=load.part, text=message, action=REPLACE, quantity="burn", observed=False)
    elif load.error or missing:
        reason = load.error or f"{', '.join(missing)} was not measured"
        verdicts.unknown(part=load.part, quantity="its part in the burn", reason=reason, action=AGAIN)
    elif load.sampling_error or not load.settled:
        reason = load.sampling_error or "no sample under load"
        verdicts.unknown(part=load.part, quantity="its state under load", reason=reason, action=AGAIN)
    else:
        verdicts.passed(part=load.part, text=f"worked to the end in {', '.join(document.dtypes)}")


def results(load: GpuLoad, document: BurnDocument, verdicts: Verdicts, *, differ: bool) -> None:
    """Whether any result of a GPU was wrong; `differ`: it is told already that its first result is odd."""
    bad = differ
    for phase in load.phases:
        if isinstance(phase.mismatches, Unknown) or isinstance(phase.reference_errors, Unknown):
            reason = phase.mismatches if isinstance(phase.mismatches, Unknown) else phase.reference_errors
            verdicts.unknown(
                part=load.part,
                quantity=f"whether its {phase.dtype} results are right",
                reason=str(reason),
                action=AGAIN,
            )
            bad = True
            continue
        if phase.mismatches > 0:
            message = f"wrong words in its {phase.dtype} results: {phase.mismatches}, {phase.first_mismatch}"
            wrong(load, message.rstrip(", "), "wrong words", phase.mismatches, verdicts)
            bad = True
        if phase.reference_errors > 0:
            message = f"{phase.reference_errors} of 32 elements of its first {phase.dtype} result are wrong"
            wrong(load, message, "wrong elements", phase.reference_errors, verdicts)
            bad = True
    compared = [phase for phase in load.phases if phase.checksum]
    if not _products(compared):
        verdicts.unknown(part=load.part, quantity="whether its results are right", reason=why((load,)), action=AGAIN)
    elif not bad:
        others = compared_with(document, load)
        alike = f", the first equal on {others} GPUs like it" if others else ", no GPU like it to compare with"
        verdicts.passed(part=load.part, text=f"{_products(compared)} products without a wrong word{alike}")


def wrong(load: GpuLoad, message: str, metric: str, count: int, verdicts: Verdicts) -> None:
    """A GPU that computed something wrong."""
    verdicts.found(Verdict.FAIL, part=load.part, text=message, action=WRONG, quantity=metric, observed=count)


def has_rate(load: GpuLoad, dtype: str) -> bool:
    """Whether a GPU has a rate in a type of numbers."""
    return any(phase.dtype == dtype and not isinstance(phase.tflops, Unknown) for phase in load.phases)


def why(loads: Sequence[GpuLoad]) -> str:
    """Why a GPU lacks something, as far as it said."""
    said = [load.error or load.sampling_error for load in loads]
    return next((each for each in said if each), "it did not come so far")


def held_down(
    whose: Part, reasons: Mapping[str, float], names: Mapping[str, str], verdict: Verdict, verdicts: Verdicts
) -> None:
    """What held a clock down, if anything among `names` did, with its share of the time."""
    held = shares(reasons, names)
    if held:
        share = max(reasons[name] for name in names if name in reasons)
        verdicts.found(
            verdict,
            part=whose,
            text=f"clock held down under load by {held}",
            action=POWER,
            quantity="event reasons under load",
            observed=round(100 * share, 2),
            unit="%",
        )


def lacks(whose: Part, what: str, reading: object, verdicts: Verdicts) -> None:
    """A quantity without a value: a device that does not have it by design is skipped, anything else is `error`."""
    if isinstance(reading, Unknown) and reading.why in NORMAL_ABSENCE:
        verdicts.found(Verdict.SKIP, part=whose, text=f"{what} is not told here ({reading})")
    else:
        verdicts.unknown(part=whose, quantity=what, reason=str(reading), action=AGAIN)


def most(loads: Sequence[GpuLoad], quantity: str) -> Known[float]:
    """The highest sample of a quantity in any of the burns."""
    found = [load.highest(quantity) for load in loads]
    known = [each for each in found if not isinstance(each, Unknown)]
    return max(known) if known else found[-1]


def link(load: GpuLoad, quantity: str, what: str, own: Known[int], verdicts: Verdicts) -> None:
    """Whether a PCIe link under load has at least its `own` generation or lanes."""
    seen = load.middle(quantity)
    if isinstance(seen, Unknown) or isinstance(own, Unknown):
        lacks(load.part, what, seen if isinstance(seen, Unknown) else own, verdicts)
        return
    of = "what the GPU and its slot have" if quantity == "link_gen" else "before the burn"
    verdicts.at_least(part=load.part, quantity=what, observed=int(seen), limit=Limit(own, "", of), action=RESEAT)


def second_opinion(whose: Part, mode: str, gpu: BurntGpu, run: GpuBurnRun, verdicts: Verdicts) -> None:
    """What gpu_burn shows of one GPU, whatever it says at its end."""
    wrong = gpu.errors > 0 or (gpu.verdict == "FAULTY" and not gpu.died)
    if wrong:
        message = f"{gpu.errors or 'some'} wrong results in gpu_burn, {mode}"
        verdicts.found(
            Verdict.FAIL, part=whose, text=message, action=WRONG, quantity="wrong results", observed=gpu.errors
        )
    elif gpu.died and gpu.processed > 0:
        said = f": {run.told[0]}" if run.told else ""
        message = f"its process died in gpu_burn, {mode}{said}"
        verdicts.found(Verdict.FAIL, part=whose, text=message, action=REPLACE, code="died")
    elif gpu.processed == 0:
        reason = run.told[0] if run.told else "no report shows work, whatever the list at the end says"
        verdicts.unknown(part=whose, quantity=f"its work in gpu_burn, {mode}", reason=reason, action=AGAIN)
    elif gpu.verdict != "OK":
        verdicts.unknown(part=whose, quantity=f"the end of gpu_burn, {mode}", reason=str(gpu.verdict), action=AGAIN)
    else:
        verdicts.passed(part=whose, text=f"{gpu.processed} products without an error")


def slowed(whose: Part, loads: Sequence[GpuLoad], verdicts: Verdicts) -> None:
    """What NVML's own clocks say, which miss nothing between two samples."""
    for name, words in (("thermal", "heat"), ("board_limit", "its board's limit")):
        known = [each for load in loads if not isinstance(each := load.violations_s.get(name, 0.0), Unknown)]
        longest = max(known, default=0.0)
        if longest > 0:
            message = f"slowed for {words} for {longest:.1f} s of the burn"
            verdicts.found(
                Verdict.WARN,
                part=whose,
                text=message,
                action=POWER,
                quantity=f"time slowed for {words}",
                observed=longest,
                unit="s",
            )


def _products(phases: Sequence[Phase]) -> int:
    return sum(phase.iterations for phase in phases if not isinstance(phase.iterations, Unknown))
