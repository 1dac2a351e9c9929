"""A number that was measured under load, with its unit and conditions."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property
from statistics import fmean, median
from typing import Literal

DIGITS = 6  # after the point, of a number in a finding
BOUNCE = "bounce buffers"  # the path of host copies where confidential computing is on


class Statistic(str, Enum):
    """Which of several attempts at one number on one part is held to its limit. Every part counts, always."""

    USUAL = "usual"  # the mean of the best two thirds: a disturbed look is in the worst third
    BEST = "best"  # where each look is with another partner, which may be the bad one
    MEDIAN = "median"
    WORST = "worst"

    def of(self, values: Collection[float], *, better: str) -> float | None:
        """The one of these values; None of none."""
        if not values:
            return None
        if self is Statistic.MEDIAN:
            return median(values)
        if self is Statistic.USUAL:
            return fmean(sorted(values, reverse=better == "higher")[: counted_looks(len(values))])
        highest = (self is Statistic.BEST) == (better == "higher")
        return max(values) if highest else min(values)


def counted_looks(looks: int) -> int:
    """How many of so many looks the usual value is the mean of."""
    return max(1, round(2 * looks / 3))


@dataclass(frozen=True)
class Metric:
    """One quantity of one device, once for each attempt.

    `name` is the key of its limit, such as "nccl.all_reduce_gb_per_s"; `unit` the one of that key: TFLOPS,
    GB/s (1e9 bytes: memory, NVLink, NCCL), Gb/s (1e9 bits: wires), µs, MHz, W, °C. `values` has one value per look,
    in their order; never empty. `statistic` says which of them is judged, where no policy says another.
    `conditions` are what must be equal for two values to be compared: tool, version, message size in bytes, algorithm,
    number of GPUs, NCCL, CUDA, driver. `device` is the part of the node, the same word on every node ("GPU 3",
    "mlx5_0"), so that slot is compared with slot; empty: the node as a whole. `launch` names what many nodes measured
    together: one value for all of them, which is never compared with itself. `over_runs` are more conditions that two
    runs must share: a burn of a minute is not compared with earlier ones of ten, and held to the same baseline.
    """

    name: str
    values: tuple[float, ...]
    unit: str
    device: str = ""
    better: Literal["higher", "lower"] = "higher"
    conditions: Mapping[str, str] = field(default_factory=dict)
    launch: str = ""
    over_runs: Mapping[str, str] = field(default_factory=dict)
    statistic: Statistic = Statistic.USUAL

    @property
    def best(self) -> float:
        """The best of all looks."""
        return max(self.values) if self.better == "higher" else min(self.values)

    @cached_property
    def judged(self) -> float:
        """What is held to limits: a slow device is slow in most looks, a disturbed one in few."""
        found = self.statistic.of(self.values, better=self.better)
        return self.values[0] if found is None else found

    @cached_property
    def key(self) -> tuple[str, tuple[tuple[str, str], ...]]:
        """What two metrics must share to be comparable at all: the name and every condition."""
        return self.name, tuple(sorted(self.conditions.items()))

    def to_json(self) -> dict[str, object]:
        """Its form in an evidence file."""
        return {
            "metric": self.name,
            "device": self.device,
            "values": [round(value, 6) for value in self.values],
            "unit": self.unit,
            "conditions": dict(self.conditions),
        }


def joined(singles: Iterable[Metric]) -> tuple[Metric, ...]:
    """One metric per quantity and device, with a value for each attempt that has one."""
    found: dict[tuple[object, ...], Metric] = {}
    for each in singles:
        key = (each.device, *each.key)
        earlier = found.get(key)
        found[key] = each if earlier is None else replace(earlier, values=earlier.values + each.values)
    return tuple(found.values())
