"""What the burn checks share: whose results agree, what held a clock down, and which GPUs a GPU is compared with."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

from nodegate.numbers.peers import PeerGroup
from nodegate.unknown import Known, Unknown
from nodegate.verdict import Limit

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from nodegate.measure.burn.burn import Burn
    from nodegate.measure.burn.document import BurnDocument, GpuLoad, Phase
    from nodegate.metric import Metric
    from nodegate.numbers.margins import Margins
    from nodegate.numbers.peers import NodePeers
    from nodegate.probe.gpu import Gpu, Gpus

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


def part_of_median(metric: Metric, middle: tuple[float, int] | None, part: Limit) -> Limit | None:
    """So many percent of the median of the GPUs of this node; None where they are too few."""
    if middle is None or not isinstance(part.value, (int, float)):
        return None
    value, count = middle
    source = f"{part.value:g} % of {value:.4g}, the median of {count} GPUs of this node; {part.source}"
    return Limit(round(value * part.value / 100, 3), metric.unit, source)


def part_of_fleet(metric: Metric, peers: NodePeers, margins: Margins, part: Limit) -> Limit | None:
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
