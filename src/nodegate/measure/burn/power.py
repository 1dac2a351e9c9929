"""What a GPU drew in each type of numbers, and whether a burn was one: the power in its heaviest part, of the limit."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING

from nodegate.measure.burn.document import GpuLoad, Window, median_of
from nodegate.measure.burn.findings import AGAIN, not_measured, stopped
from nodegate.measure.own_program import facts_by_index
from nodegate.probe.gpu import Gpus
from nodegate.records.finding import Limit, LimitKind
from nodegate.records.verdict import Verdict
from nodegate.subjects.reported import absence
from nodegate.unknown import Known, Unknown, Why, known

if TYPE_CHECKING:  # bare Python imports this room: no PyYAML there
    from nodegate.baseline.baseline import Baseline
    from nodegate.measure.burn.run import Burn
    from nodegate.verdicts import Verdicts

_SHOWN = (("power_w", "W"), ("sm_clock_mhz", "MHz"), ("temperature_c", "°C"))
_QUANTITY = "power under load"
UNIT = "% of the limit"
_OWN_KERNELS = "ptx"  # the path of a burn without cuBLAS
_NOT_BELIEVED = 125.0  # percent: no board exceeds its limit by this much for half of the time
_COLD = "cooling and power supply were not stressed"
_HEAT_IT = {
    True: "give the burn a cuBLAS (nodegate_cublas or --tools) and burn again: nodegate's own kernels do not heat this "
    "GPU",
    False: "find what limits it (burn.clock_reasons, burn.throughput), then burn again",
}


def by_phase(load: GpuLoad) -> Iterator[tuple[str, list[Window]]]:
    """The settled windows that lie within each type of numbers."""
    starts = [each.start_s for each in load.windows if each.start_s >= 0]
    length_s = max((later - earlier for earlier, later in itertools.pairwise(starts)), default=0.0)
    begin_s = 0.0
    for phase in load.phases:
        if isinstance(phase.seconds, Unknown):
            return
        end_s = begin_s + phase.seconds
        yield phase.dtype, [each for each in load.settled if begin_s <= each.start_s <= end_s - length_s]
        begin_s = end_s


def in_first(load: GpuLoad, quantity: str) -> tuple[str, Known[float]]:
    """The first type of numbers, which has most of the time, and the median of a quantity in it.

    Where no sample lies within it the median is that of the whole burn, and the type is "".
    """
    dtype, windows = next(by_phase(load), ("", []))
    found = median_of(windows, quantity)
    return ("", load.middle(quantity)) if found is None else (dtype, found)


def described(load: GpuLoad) -> str:
    """Power, clock and heat in each: "bf16 698 W, 1755 MHz, 62 °C; fp32 ..."."""
    found = []
    for dtype, windows in by_phase(load):
        medians = [(median_of(windows, quantity), unit) for quantity, unit in _SHOWN]
        known = [f"{value:.0f} {unit}" for value, unit in medians if value is not None]
        found += [f"{dtype} {', '.join(known)}"] if known else []
    return "; ".join(found)


def _drawn(load: GpuLoad) -> Known[tuple[float, str]]:
    """What a GPU drew in its heaviest type of numbers, in W, and which one it was."""
    medians = ((median_of(windows, "power_w"), dtype) for dtype, windows in by_phase(load))
    found = [(watts, dtype) for watts, dtype in medians if watts is not None]
    if found:
        return max(found, key=itemgetter(0))
    overall = load.middle("power_w")
    return overall if isinstance(overall, Unknown) else Unknown(Why.FAILED, "no sample lies within a phase of the burn")


def judged(loads: Sequence[GpuLoad], burn: Burn, gpus: Gpus, baseline: Baseline, verdicts: Verdicts) -> None:
    """Whether a GPU was heated, in any of its burns (`loads`).

    Where no GPU of the node reports its power, nothing is wrong with one, and nothing is proven of it.
    """
    part, gpu = loads[0].part, facts_by_index(gpus, burn.loads).get(loads[0].index)
    found = [_drawn(load) for load in loads]
    watts = known(found)
    allowed = Unknown(Why.FAILED, "the probe did not see it") if gpu is None else gpu.power_limit_enforced_w
    if gpu and isinstance(allowed, Unknown) and allowed.is_absent:  # the driver does not tell which one is in force
        allowed = gpu.power_limit_w
    if not watts and stopped(loads):
        not_measured(loads, _QUANTITY, verdicts)
    elif not watts:
        on_none = all("power_w" in load.unread for each in burn.loads.values() for load in each)
        absent = Verdict.NOT_JUDGED if on_none else Verdict.ERROR
        why = next(each for each in found if isinstance(each, Unknown))
        verdicts.unknown(part=part, quantity=_QUANTITY, reason=why, action=AGAIN, absent=absent)
    elif isinstance(allowed, Unknown):
        on_none = gpu is not None and absence("power_limit_enforced", gpu, gpus, baseline) is not Verdict.ERROR
        absent = Verdict.NOT_JUDGED if on_none else Verdict.ERROR
        verdicts.unknown(part=part, quantity="power limit in force", reason=allowed, action=AGAIN, absent=absent)
    else:
        _held_to(loads[0], *max(watts, key=itemgetter(0)), allowed, baseline, verdicts)


def _held_to(  # noqa: PLR0917 - one caller
    load: GpuLoad, most_w: float, dtype: str, allowed_w: float, baseline: Baseline, verdicts: Verdicts
) -> None:
    """Own kernels do not reach all of a GPU's circuits: they have to draw less."""
    own = load.path == _OWN_KERNELS
    kept = baseline.number("burn.power_own_kernels_percent" if own else "burn.power_percent")
    share = round(100 * most_w / allowed_w, 1) if allowed_w > 0 else 0.0
    watts = f"{most_w:.0f} of {allowed_w:.0f} W"
    if not 0 < share <= _NOT_BELIEVED:
        reason = f"{watts} cannot be: the sensor or the limit is wrong"
        verdicts.unknown(part=load.part, quantity=_QUANTITY, reason=reason, action=AGAIN)
        return
    verdicts.at_least(
        part=load.part,
        quantity=f"power in {dtype}",
        observed=share,
        limit=Limit(kept.value, UNIT, kept.source, kind=LimitKind.BASELINE),
        action=_HEAT_IT[own],
        otherwise=Verdict.WARN,
        note=f"{watts}: {_COLD}; {described(load)}",
    )
