"""Findings on the state of a GPU under load: what limits its clock, how hot it is, its PCIe link."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from statistics import median

from nodegate.measure.burn.document import GpuLoad
from nodegate.measure.burn.findings import AGAIN, FEWEST_ALIKE, not_measured, stopped, why
from nodegate.metric import DIGITS, Metric
from nodegate.metric_names import words
from nodegate.numbers.comparison import Margins, PeerGroup
from nodegate.numbers.peers import NodePeers
from nodegate.probe.gpu import Gpu
from nodegate.probe.readings import mapped
from nodegate.records.finding import AT_MOST, Limit, LimitKind, NumberLimit
from nodegate.records.part import Part
from nodegate.records.verdict import Verdict
from nodegate.subjects.counters import whole
from nodegate.text import with_unit
from nodegate.unknown import Known, Unknown, Why, both, known
from nodegate.verdicts import Verdicts

# NVML's names for what limits a clock, in a technician's words.
FAULTS = {
    "hw_slowdown": "hardware slowdown",
    "hw_thermal_slowdown": "hardware thermal slowdown",
    "hw_power_brake_slowdown": "power brake (power supply)",
}
HEAT = {"sw_thermal_slowdown": "thermal slowdown by the driver"}
BOARD = {"board_limit": "the board's own limit"}
_THERMAL = "thermal"
_CODES = {"hw_slowdown": "hardware slowdown", "hw_power_brake_slowdown": "power brake", "board_limit": "board limit"}
_CODES |= {"hw_thermal_slowdown": _THERMAL, "sw_thermal_slowdown": _THERMAL}
_OF_ANOTHER = "hw_slowdown"  # NVML sets it together with the actual reason, if it knows one
NORMAL = {
    "gpu_idle": "idle",
    "sw_power_cap": "software power cap",
    "applications_clocks_setting": "application clock setting",
    "sync_boost": "sync boost",
    "display_clock_setting": "display clock setting",
    "reliability": "the voltage limit for reliability",
}
FEWEST_SAMPLES = 3  # at five a second; eight GPUs in ten minutes have 24,000
MOST_IDLE = 0.5
WORDS = {**FAULTS, **HEAT, **BOARD, **NORMAL}
COOLING = "check fans, air flow, heat sink and inlet temperature"
POWER = "check power supplies, power cables and cooling of this GPU; then power-cycle the node"
RESEAT = "power-cycle the node; if it stays, reseat the board or riser"
_AGREE = "the GPU is fine: raise the limit that holds it back, or agree on it (contract.event_reasons_allowed)"


def shares(reasons: Mapping[str, float], names: Iterable[str]) -> str:
    """Reasons with their share of the time: "power brake (power supply) 35 % of the time"."""
    found = sorted(((reasons[name], name) for name in names if name in reasons), reverse=True)
    return ", ".join(f"{WORDS.get(name, name)} {_percent(share)} of the time" for share, name in found)


def reasons_of(loads: Iterable[GpuLoad]) -> dict[str, float]:
    """What limited the clock in any of the burns, with its largest share of the time in one."""
    found: dict[str, float] = {}
    for load in loads:
        for name, share in load.reasons.items():
            found[name] = max(found.get(name, 0.0), share)
    return found


def brief(loads: Iterable[GpuLoad], most: NumberLimit) -> list[str]:
    """What slowed a clock in so few samples that a disturbance explains it; a power brake never is one.

    Few are fewer than three, or no larger share of the samples than `most`, in each of the burns.
    """
    long: set[str] = set()
    for load in loads:
        samples = sum(window.count for window in load.under_load)
        least = max(FEWEST_SAMPLES - 0.5, samples * most.value / 100)
        long |= {name for name, share in load.reasons.items() if share * samples > least}
    return sorted({*FAULTS, *HEAT}.intersection(reasons_of(loads)) - long - {"hw_power_brake_slowdown"})


def idled(whose: Part, reasons: Mapping[str, float], verdicts: Verdicts) -> bool:
    """Whether NVML calls a GPU idle under its own load: then nothing is known of how it is under load."""
    share = reasons.get("gpu_idle", 0.0)
    if share >= MOST_IDLE:
        reason = f"NVML calls it idle for {_percent(share)} of its own burn: it did not burn, or another GPU is read"
        verdicts.unknown(part=whose, quantity="clock event reasons", reason=reason, action=AGAIN)
    return share >= MOST_IDLE


def node_medians(metrics: Iterable[Metric]) -> Mapping[object, tuple[float, int]]:
    """The median of each quantity over the GPUs of the node that can be compared, and how many they are."""
    groups: defaultdict[object, list[float]] = defaultdict(list)
    for metric in metrics:
        groups[metric.key].append(metric.judged)
    return {key: (median(values), len(values)) for key, values in groups.items() if len(values) >= FEWEST_ALIKE}


def part_of_median(metric: Metric, middle: tuple[float, int] | None, percent: NumberLimit) -> NumberLimit | None:
    """So many percent of the median of the GPUs of this node; None if there are too few."""
    if middle is None:
        return None
    value, count = middle
    return _share_of(metric, value, f"the median of {count} GPUs of this node", percent, LimitKind.NODE)


def part_of_fleet(metric: Metric, peers: NodePeers, margins: Margins, percent: NumberLimit) -> NumberLimit | None:
    """So many percent of the median of the same GPU on the other nodes; None if there is nothing to compare with."""
    group = peers.group(metric, margins)
    if not isinstance(group, PeerGroup):
        return None
    return _share_of(metric, group.median, f"the median of {group.nodes} other nodes", percent, LimitKind.FLEET)


def _share_of(metric: Metric, value: float, whose: str, percent: NumberLimit, kind: LimitKind) -> NumberLimit:
    source = f"{percent.value:g} % of {with_unit(value, metric.unit)}, {whose}; {percent.source}"
    return Limit(round(value * percent.value / 100, 3), metric.unit, source, kind=kind)


def slowdown_c(gpu: Gpu) -> Known[float]:
    """The temperature at which this GPU slows down, as it reports it: absolute, or from its margin."""
    own = gpu.temperature_slowdown_c
    by_margin = both(gpu.temperature_margin_c, gpu.temperature_c, lambda margin, now: margin + now)
    return mapped(by_margin if isinstance(own, Unknown) else own, float)


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %" if share >= 0.01 else "less than 1 %"


def held_down(
    whose: Part, reasons: Mapping[str, float], names: Iterable[str], verdict: Verdict, verdicts: Verdicts
) -> None:
    """What limited a clock, of the reasons `names`, with its share of the time: one finding per code."""
    held = [name for name in names if name in reasons]
    known = [name for name in held if name != _OF_ANOTHER] or held
    by_code: defaultdict[str, list[str]] = defaultdict(list)
    for name in known:
        by_code[_CODES.get(name, "another reason")].append(name)
    for code, same in by_code.items():
        share = max(reasons[name] for name in same)
        verdicts.found(
            verdict,
            part=whose,
            text=f"clock limited under load by {shares(reasons, same)}",
            action=COOLING if code == _THERMAL else POWER,
            quantity="time with the clock limited",
            observed=round(100 * share, 2),
            unit="%",
            code=code,
        )


def heat(
    load: GpuLoad, hottest: float, threshold: float, *, margin: NumberLimit, otherwise: Verdict, verdicts: Verdicts
) -> None:
    """Whether a GPU under load stays below the temperature at which it slows down, with a margin, all in °C."""
    left = round(threshold - hottest, 1)
    where = f"{abs(left):g} °C {'above' if left < 0 else 'below'}" if left else "at"
    source = f"{margin.value:g} °C below the slowdown; {margin.source}"
    verdicts.found(
        Verdict.PASS if left >= margin.value else otherwise,
        part=load.part,
        text=f"{hottest:.0f} °C under load: {where} its slowdown limit",
        action=COOLING,
        quantity="temperature under load",
        observed=hottest,
        unit="°C",
        limit=Limit(round(threshold - margin.value, 1), "°C", source, AT_MOST, LimitKind.DEVICE),
    )


def no_clock(loads: Sequence[GpuLoad], verdicts: Verdicts) -> None:
    """A GPU whose clock under load is not known."""
    middle = loads[0].middle("sm_clock_mhz")
    reading = middle if isinstance(middle, Unknown) else Unknown(Why.FAILED, why(loads))
    not_read(loads, words("burn.sm_clock_mhz"), reading, verdicts)


def clock(loads: Sequence[GpuLoad], metric: Metric, limits: Sequence[NumberLimit], verdicts: Verdicts) -> None:
    """The clock of a GPU under load, against each of its limits, with what held it down."""
    held = shares(found := reasons_of(loads), found)
    for limit in limits or (None,):
        verdicts.at_least(
            part=loads[0].part,
            quantity=words(metric.name),
            observed=round(metric.judged, DIGITS),
            limit=limit,
            action=POWER,
            note=f"held down by {held}" if held else "the GPU gives no reason",
        )


def not_read(loads: Sequence[GpuLoad], quantity: str, reading: Unknown, verdicts: Verdicts) -> None:
    """A quantity without a value: a device that does not have it by design is skipped, anything else is `error`."""
    if stopped(loads):
        not_measured(loads, quantity, verdicts)
    else:
        verdicts.unknown(part=loads[0].part, quantity=quantity, reason=reading, action=AGAIN, absent=Verdict.SKIP)


def most(loads: Sequence[GpuLoad], quantity: str) -> Known[float]:
    """The highest sample of a quantity in any of the burns."""
    found = [load.highest(quantity) for load in loads]
    return max(known(found), default=found[-1])


def link(load: GpuLoad, quantity: str, what: str, own: Known[int], verdicts: Verdicts) -> None:
    """Whether a PCIe link under load has at least its `own` generation or lanes."""
    lanes = quantity == "link_width"
    unit, source = ("lanes", "before the burn") if lanes else ("", "what the GPU and slot support")
    verdicts.at_least(
        part=load.part,
        quantity=what,
        observed=whole(load.middle(quantity)),
        limit=own if isinstance(own, Unknown) else Limit(own, unit, source, kind=LimitKind.DEVICE),
        action=RESEAT,
        absent=Verdict.SKIP,
        code="lanes" if lanes else "generation",
    )


def slowed(  # noqa: PLR0917 - one caller
    whose: Part, loads: Sequence[GpuLoad], least: NumberLimit, most: NumberLimit, heat: Verdict, verdicts: Verdicts
) -> None:
    """NVML's own time counters, which miss nothing between two samples.

    Time up to `least` seconds says nothing. Heat for more of the time than `most` (percent) is as bad as `heat` says.
    """
    for name, reason, action in (("thermal", "heat", COOLING), ("board_limit", "the board limit", POWER)):
        slowed_s = [(each, load) for load in loads for each in known([load.violations_s.get(name, 0.0)])]
        longest, load = max(slowed_s, key=lambda each: each[0], default=(0.0, loads[0]))
        if longest <= least.value:
            continue
        much = name == "thermal" and longest > load.watched_s * most.value / 100
        verdicts.found(
            heat if much else Verdict.WARN,
            part=whose,
            text=f"slowed down by {reason} for {longest:.1f} s of the burn",
            action=action,
            quantity=f"time slowed down by {reason}",
            observed=longest,
            unit="s",
            limit=Limit(least.value, "s", least.source, AT_MOST, least.kind),
            code=name.replace("_", " "),
        )


def limited(loads: Sequence[GpuLoad], allowed: Collection[str], most: NumberLimit, verdicts: Verdicts) -> None:
    """The longest time that one reason without permission limited the clock of a GPU."""
    reasons = {name: share for name, share in reasons_of(loads).items() if name not in allowed}
    longest = max(reasons, key=lambda name: reasons[name], default="")
    verdicts.at_most(
        part=loads[0].part,
        quantity="time with the clock limited",
        observed=round(100 * reasons.get(longest, 0.0), 2),
        limit=most,
        action=COOLING if longest in HEAT else _AGREE if longest in NORMAL else POWER,
        note=f"by {shares(reasons, reasons)}",
        code=longest.replace("_", " "),
    )


def middle_of(loads: Sequence[GpuLoad], quantity: str) -> Known[float]:
    """The median of a quantity under settled load, over the burns in which it is known."""
    found = [load.middle(quantity) for load in loads]
    return median(known(found)) if known(found) else found[0]
