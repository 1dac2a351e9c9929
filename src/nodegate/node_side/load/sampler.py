"""NVML's readings of one GPU under load, several times a second: kept as windows of minimum, median and maximum."""

import importlib
import time
from types import ModuleType
from typing import Any, Dict, List, Sequence, Tuple

from nodegate.node_side.load import turns as steps
from nodegate.node_side.probe import child, reading
from nodegate.node_side.probe.nvml_calls import Handle, Reader, ask
from nodegate.node_side.probe.nvml_readings import ECC_CORRECTED, ECC_UNCORRECTED, LINK_GEN, READINGS

INTERVAL_S = 0.2
MOST_WINDOWS, MOST_IN_ALL = 300, 960

Window = Dict[str, Any]


# Name in the document -> how it is read, and what its number is divided by.
QUANTITIES: Dict[str, Tuple[Reader, float]] = {
    "sm_clock_mhz": (READINGS["sm_clock_mhz"], 1),
    "power_w": (READINGS["power_mw"], 1000),
    "temperature_c": (READINGS["temperature_c"], 1),
    "memory_temperature_c": (READINGS["memory_temperature_c"], 1),
    "utilization_percent": (READINGS["utilization_percent"], 1),
    "link_gen": (LINK_GEN, 1),
    "link_width": (READINGS["link_width"], 1),
    "ecc_corrected": (ECC_CORRECTED, 1),
    "ecc_uncorrected": (ECC_UNCORRECTED, 1),
    "event_reasons": (READINGS["event_reasons"], 1),
}
_FOR_GOOD = ("not supported", "missing", "denied")  # not asked again


def window_s(seconds: float, gpus: int) -> float:
    """How long a window is, so that a node stays within the limit of their number."""
    return max(1.0, seconds / min(MOST_WINDOWS - 1, MOST_IN_ALL // max(gpus, 1) - 1))


def run(index: int, slot: int, turns: steps.Turns, length_s: float) -> Dict[str, object]:
    """Sample until the load of this GPU has ended. Windows go out as parts ({"window": ...}) when they are full.

    Raises:
        reading.CannotRead: NVML does not start or does not know the GPU.
    """
    nvml = importlib.import_module("pynvml")
    ask(nvml, "nvmlInit")
    handle = ask(nvml, "nvmlDeviceGetHandleByIndex", index)
    sampler = _Sampler(nvml, handle)
    before, first = _violations(nvml, handle), time.monotonic()
    window, opened = _Window(first), first
    due = first
    while turns.step(slot) != steps.ENDED and not sampler.lost:
        now = time.monotonic()
        loading = turns.step(slot) == steps.LOADING
        start = turns.started
        # One window holds all that is before the load; those under load have their length.
        if start and (opened < start or now - opened >= length_s):
            window.send(start)
            window, opened = _Window(now), now
        window.add(sampler.sample(), loading=loading)
        due = max(due + INTERVAL_S, now)
        time.sleep(max(0.0, due - time.monotonic()))
    window.send(turns.started or first)
    return {
        "count": sampler.count,
        "unread": sampler.unread,
        "lost": sampler.lost,
        "violations_ns": {name: growth(before[name], after) for name, after in _violations(nvml, handle).items()},
    }


class _Sampler:
    """Reads every quantity that the GPU has."""

    def __init__(self, nvml: ModuleType, handle: Handle) -> None:
        self._nvml, self._handle = nvml, handle
        self._left_out: List[str] = []
        self.count = 0
        self.unread: Dict[str, object] = {}
        self.lost = ""

    def sample(self) -> Dict[str, float]:
        """{quantity: number} at this moment."""
        found: Dict[str, float] = {}
        for name, (read, divisor) in QUANTITIES.items():
            if name in self._left_out:
                continue
            child.note("NVML " + name)
            value = read(self._nvml, self._handle)
            if isinstance(value, (int, float)):
                found[name] = value if divisor == 1 else value / divisor
            elif isinstance(value, dict):
                self.unread[name] = value
                self._left_out += [name] if value.get("why") in _FOR_GOOD else []
                self.lost = str(value.get("detail")) if value.get("why") == "lost" else self.lost
        self.count += 1
        return found


class _Window:
    """The samples of a time interval, until they become one line."""

    def __init__(self, opened: float) -> None:
        self._opened = opened
        self._count = self._load = self._reasons = 0
        self._values: Dict[str, List[float]] = {}
        self._bits: Dict[str, int] = {}

    def add(self, sample: Dict[str, float], *, loading: bool) -> None:
        """Take one sample."""
        self._count += 1
        self._load += loading
        reasons = int(sample.pop("event_reasons", 0))
        self._reasons |= reasons
        for bit in range(reasons.bit_length()):
            if reasons >> bit & 1:
                self._bits[str(1 << bit)] = self._bits.get(str(1 << bit), 0) + 1
        for name, value in sample.items():
            self._values.setdefault(name, []).append(value)

    def send(self, start: float) -> None:
        """Send what there is, with times counted from the start of the load."""
        if not self._count:
            return
        head: Window = {"start_s": round(self._opened - start, 2), "count": self._count, "load": self._load}
        head.update({name: spread(values) for name, values in self._values.items()})
        child.emit({"window": dict(head, event_reasons=self._reasons, reason_samples=self._bits)})


def spread(values: "Sequence[float]") -> "List[float]":
    """Minimum, median and maximum."""
    ordered = sorted(values)
    return [round(ordered[at], 1) for at in (0, len(ordered) // 2, -1)]


def merged(windows: "List[Window]") -> "List[Window]":
    """Merge windows two by two, those under load never with those before it."""
    result: List[Window] = []
    for window in windows:
        last = result[-1] if result else None
        if last and "merged" not in last and (last["start_s"] < 0) == (window["start_s"] < 0):
            result[-1] = dict(_merge(last, window), merged=True)
        else:
            result.append(window)
    return [{name: value for name, value in window.items() if name != "merged"} for window in result]


def _merge(one: Window, other: Window) -> Window:
    weights = one["count"], other["count"]
    both: Window = dict(other, **one)
    for name in QUANTITIES:
        left, right = one.get(name), other.get(name)
        if left and right and name != "event_reasons":
            middle = (left[1] * weights[0] + right[1] * weights[1]) / sum(weights)
            both[name] = [min(left[0], right[0]), round(middle, 1), max(left[2], right[2])]
    for name in ("count", "load"):
        both[name] = one[name] + other[name]
    both["event_reasons"] = one["event_reasons"] | other["event_reasons"]
    bits = dict(one["reason_samples"])
    for bit, count in other["reason_samples"].items():
        bits[bit] = bits.get(bit, 0) + count
    both["reason_samples"] = bits
    return both


def _violations(nvml: ModuleType, handle: Handle) -> Dict[str, Any]:
    child.note("NVML violation_ns")
    found: Any = READINGS["violation_ns"](nvml, handle)
    return dict(found)


def growth(before: object, after: object) -> object:
    """By how much a counter grew, or why that is not known."""
    if isinstance(before, int) and isinstance(after, int):
        return after - before if after >= before else reading.unknown("failed", "the counter decreased")
    return after if isinstance(after, dict) else before
