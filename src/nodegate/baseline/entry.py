"""One limit of a baseline file: value, unit, source, and how far below a good value it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeGuard

from nodegate.baseline.parameters import difference
from nodegate.errors import UsageError
from nodegate.records.finding import AnyLimit, Limit, LimitKind, LimitValue, limit_value

# "on" or "off": YAML reads the unquoted words as true and false.
SWITCHES = frozenset({"gpu.ecc", "gpu.gsp", "gpu.mig"})
MOST_TOLERANCE = 0.5  # more lets everything pass
DIRECTIONS = ("at least", "at most", "equal")
UNITS_BY_SUFFIX = {  # the first match: _gb_per_s comes before _per_s and _s
    "_gb_per_s": ("GB/s",),
    "_per_s": ("per second",),
    "_per_min": ("per minute",),
    "_per_h": ("per hour",),
    "_tflops": ("TFLOPS",),
    "_us": ("µs",),
    "_mhz": ("MHz",),
    "_w": ("W",),
    "_c": ("°C",),
    "_gbps": ("Gb/s",),
    "_mbps": ("MB/s", "Mb/s"),
    "_bytes": ("bytes",),
    "_mib": ("MiB",),
    "_gib": ("GiB",),
    "_s": ("s",),
    "_h": ("h",),
    "_percent": ("%",),
}


@dataclass(frozen=True)
class Entry:
    """One limit of a baseline file, or of a policy, whose `clause` it is. `file` and `line` say where.

    `tolerance` is relative to the value (0.05 = 5 %) and needs a `direction`; `floor` is the value that an "at least"
    limit never goes below, whatever the tolerance. `peak` is what physics allows: more than that is not believed.
    An entry without a value says only that.
    `best_value` is the best that was ever learned for it: by that one sees how far limits that are learned again and
    again have followed an ageing fleet. `spread` is how far the learned values lay apart (a standard deviation, as a
    part of the value), by so many `looks` at each.
    `deliberate` is the reason why a value far from that of the platform's shipped file is meant.
    `parameters` are the conditions of a measured value. A key may have several values, each with its own
    parameters (`variants`): then the entry itself shows the first, and `for_conditions` says which one counts.
    """

    key: str
    value: object  # bool, int, float, text or a tuple of those; None where only the peak is known
    unit: str
    source: str
    direction: str = ""
    tolerance: float = 0.0
    floor: float | None = None
    peak: float | None = None
    peak_source: str = ""
    best_value: float | None = None
    spread: float | None = None
    looks: float | None = None
    parameters: Mapping[str, object] = field(default_factory=dict)
    note: str = ""
    file: str = ""
    line: int = 0
    clause: str = ""
    deliberate: str = ""
    variants: tuple[Entry, ...] = ()

    @property
    def most(self) -> float | None:
        """The peak of all its variants; None where one has none."""
        peaks = [each.peak for each in self.variants or (self,)]
        return None if None in peaks else max((each for each in peaks if each is not None), default=None)

    @property
    def origin_of_peak(self) -> str:
        """Where the peak comes from: "h100.yaml burn.bf16_tflops: NVIDIA H100 data sheet"."""
        return f"{self.file.rpartition('/')[2]} {self.key}: {self.peak_source or self.source}"

    def for_conditions(self, conditions: Mapping[str, str]) -> Entry | str:
        """The entry for a value measured under these conditions: the first variant whose parameters agree.

        Returns:
            The entry, or in words how the stored values differ from the measurement: then it is not judged by them.
        """
        differences = []
        for each in self.variants or (self,):
            if not (found := difference(each.parameters, conditions)):
                return each
            differences.append(found)
        return "; ".join(dict.fromkeys(differences))

    @cached_property
    def limit(self) -> AnyLimit:
        """What a check judges by: the value less (or plus) its tolerance, with file, key and source."""
        side = "above" if self.direction == "at most" else "below"
        part = f"{100 * self.tolerance:g} % {side} {self.value} {self.unit}, " if self.tolerance else ""
        return Limit(self._judged(), self.unit, f"{part}{self.origin}", kind=LimitKind.BASELINE)

    @property
    def origin(self) -> str:
        """Its place and source: "h100.yaml burn.bf16_tflops: learned"."""
        meant = f"; deliberate: {self.deliberate}" if self.deliberate else ""
        return f"{self.clause or self.file.rpartition('/')[2]} {self.key}: {self.source}{meant}"

    def wrong(self, message: str, hint: str = "", line: int = 0) -> UsageError:
        """A complaint about it, with file and line; of a variant without a line, that of the whole."""
        return UsageError(message, file=self.file, line=self.line or line, hint=hint)

    def _judged(self) -> LimitValue:
        if not isinstance(self.value, (int, float)) or not self.tolerance:
            return limit_value(self.value)
        if self.direction == "at most":
            return self.value * (1 + self.tolerance)
        lowest = self.value * (1 - self.tolerance)
        return lowest if self.floor is None else max(lowest, self.floor)


def is_plain_number(value: object) -> TypeGuard[int | float]:
    """Whether a value is a number: switches are none."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def switch_words(key: str) -> tuple[str, ...]:
    """What a switch may be; MIG may also be on for some GPUs and off for others."""
    return ("on", "off", "mixed") if key == "gpu.mig" else ("on", "off")


def unit_for(key: str) -> tuple[str, ...]:
    """The units that the ending of a key allows; empty if the ending says nothing."""
    return next((units for suffix, units in UNITS_BY_SUFFIX.items() if key.endswith(suffix)), ())


def kind(value: object) -> str:
    """The type of the value, in words. "unlimited" is a number here."""
    if isinstance(value, bool):
        return "true or false"
    if value is None or isinstance(value, (int, float)) or value == "unlimited":
        return "a number"
    return "text" if isinstance(value, str) else "a list"
