"""A GPU's state in each type of numbers: they follow one another, and each has its own clock, power and heat."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from nodegate.measure.burn.document import median_of
from nodegate.unknown import Known, Unknown

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nodegate.measure.burn.document import GpuLoad, Window

_SHOWN = (("power_w", "W"), ("sm_clock_mhz", "MHz"), ("temperature_c", "°C"))


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
