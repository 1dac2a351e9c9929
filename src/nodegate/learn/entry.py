"""One learned limit: the median of the good nodes, and a tolerance from their spread."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from statistics import median

from nodegate.baseline.entry import Entry
from nodegate.learn.doubts import best_of, doubts, figures, finds, noise_of_nodes
from nodegate.metric import Metric
from nodegate.numbers.comparison import Margins, believable, number, shown
from nodegate.numbers.parts import find_split
from nodegate.numbers.spread import mad, robust
from nodegate.text import some

_DIGITS = 5
_WIDEST, _WIDEST_TIME = 0.2, 0.5  # with a wider limit a fifth less, or half as much time again, would be good
_NAMED = 5


@dataclass(frozen=True)
class Held:
    """All values of one quantity under the same conditions, each with its node."""

    name: str
    conditions: Mapping[str, str]
    values: tuple[tuple[str, Metric], ...]

    @property
    def metric(self) -> Metric:
        """One of them, for its unit and direction."""
        return self.values[0][1]


@dataclass(frozen=True)
class Found:
    """The limit, or None with the reason in the remarks. `finds`: how much slower a device has to be to be found."""

    entry: Entry | None
    remarks: tuple[str, ...] = ()
    finds: float = 0.0


def entry_of(held: Held, margins: Margins, *, source: str, note: str, known: Entry | None) -> Found:
    """The limit from these values.

    Outliers (both `fleet_z` robust deviations and the floor away from the median) are left out and reported. The
    tolerance is `fleet_z` robust deviations of the rest, and never less than the floor: half of the effect to be found.
    Values that fall into two parts give no limit: their median would call the slow part healthy. Nor do those that
    differ so much that the limit would find nothing.
    """
    unit, higher = held.metric.unit, held.metric.better == "higher"
    values = [(metric.judged, node) for node, metric in held.values if believable(metric.judged) and metric.judged > 0]
    if not values:
        return Found(None, (f"{held.name} left out: no value above 0",))
    floor = margins.latency_floor if unit == "µs" else margins.fleet_floor
    part = partial(find_split, slow_part_min=margins.slow_part_min, fast_part_min=margins.fast_part_min)
    noise = noise_of_nodes(held.values) * median(value for value, _ in values)
    split = part(values, higher_is_better=higher)
    split = split or part(figures(held.values), known=noise, higher_is_better=higher)
    if split and abs(split.fast - split.slow) > floor * split.fast:
        slow, fast = f"{split.slow_nodes} nodes about {shown(split.slow, unit)}", shown(split.fast, unit)
        why = "find out first which are right"
        return Found(None, (f"{held.name} left out: {slow}, {split.fast_nodes} about {fast}: {why}",))
    kept, remark = _without_outliers(held, floor, margins)
    middle = median(kept)
    spread = mad(kept, middle)
    tolerance = math.ceil(1000 * max(floor, margins.fleet_z * robust(spread) / middle)) / 1000
    peak = _peak(known)
    if tolerance > (_WIDEST_TIME if unit == "µs" else _WIDEST):
        return Found(None, (f"{held.name} left out: its values spread by {100 * tolerance:.0f} %", *remark))
    if peak is not None and middle > peak:
        said = f"{held.name} left out: {shown(middle, unit)} is more than physics allows ({shown(peak, unit)})"
        return Found(None, (said, *remark))
    wanted = frozenset(kept)
    those = [(node, metric) for node, metric in held.values if metric.judged in wanted]
    nodes = len({node for node, _ in those})
    entry = Entry(
        key=held.name,
        value=_rounded(middle),
        unit=unit,
        source=f"{source}: median of {len(kept)} values of {nodes} nodes, MAD {number(spread)} {unit}",
        direction="at least" if higher else "at most",
        tolerance=tolerance,
        peak=peak,
        parameters=dict(held.conditions),
        note=note,
    )
    apart, looks = robust(spread) / middle, min(len(metric.values) for _, metric in held.values)
    entry = replace(entry, best_value=best_of(entry, known), spread=round(apart, 5), looks=looks)
    doubtful = doubts(entry, known, those, floor=floor, spread=apart)
    return Found(entry, (*remark, *doubtful), finds(tolerance, apart))


def _without_outliers(held: Held, floor: float, margins: Margins) -> tuple[list[float], tuple[str, ...]]:
    values = [metric.judged for _, metric in held.values if believable(metric.judged) and metric.judged > 0]
    middle = median(values)
    reach = max(floor * middle, margins.fleet_z * robust(mad(values, middle)))
    kept = [value for value in values if abs(value - middle) <= reach]
    wanted = frozenset(kept)
    left = [(node, metric) for node, metric in held.values if metric.judged not in wanted]
    out = [f"{node} {metric.device}".rstrip() + f" ({number(metric.judged)})" for node, metric in left]
    said = f"{held.name}: outliers left out of the median {shown(middle, held.metric.unit)}: {some(out, _NAMED)}"
    return kept, (said,) if out else ()


def _peak(known: Entry | None) -> float | None:
    """What physics allows, if the baselines have it for all conditions."""
    if known is None:
        return None
    peaks = {each.peak for each in (known.variants or (known,))}
    return peaks.pop() if len(peaks) == 1 else None


def _rounded(value: float) -> float:
    """To five digits, whole where it is."""
    digits = _DIGITS - 1 - math.floor(math.log10(value))
    rounded = round(value, digits)
    return int(rounded) if rounded == int(rounded) else rounded
