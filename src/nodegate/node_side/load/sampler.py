"""NVML's readings of one GPU under load, several times a second: kept as windows of minimum, median and maximum."""

import importlib
import time
from types import ModuleType
from typing import Callable, Dict, List, Tuple

from nodegate.node_side.load import turns as steps
from nodegate.node_side.probe import child, reading
from nodegate.node_side.probe.nvml_calls import Handle, ask, reading_of
from nodegate.node_side.probe.nvml_readings import LINK_GEN, READINGS

INTERVAL_S = 0.2
MOST_WINDOWS, MOST_IN_ALL = 300, 960
_CORRECTED, _UNCORRECTED, _VOLATILE = 0, 1, 0  # nvmlMemoryErrorType_t, nvmlEccCounterType_t

Window = Dict[str, object]


def _ecc(kind: int) -> Callable[[ModuleType, Handle], object]:
    return lambda nvml, handle: reading_of(nvml, "nvmlDeviceGetTotalEccErrors", handle, kind, _VOLATILE)


# Name in the document -> how it is read, and what its number is divided by.
QUANTITIES: Dict[str, Tuple[Callable[[ModuleType, Handle], object], float]] = {
    "sm_clock_mhz": (READINGS["sm_clock_mhz"], 1),
    "power_w": (READINGS["power_mw"], 1000),
    "temperature_c": (READINGS["temperature_c"], 1),
    "memory_temperature_c": (READINGS["memory_temperature_c"], 1),
    "utilization_percent": (READINGS["utilization_percent"], 1),
    "link_gen": (LINK_GEN, 1),
    "link_width": (READINGS["link_width"], 1),
    "ecc_corrected": (_ecc(_CORRECTED), 1),
    "ecc_uncorrected": (_ecc(_UNCORRECTED), 1),
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
        "violations_ns": _growth(before, _violations(nvml, handle)),
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
                self._cannot(name, value)
        self.count += 1
        return found

    def _cannot(self, name: str, why: Dict[str, object]) -> None:
        self.unread[name] = why
        if why.get("why") in _FOR_GOOD:
            self._left_out.append(name)
        if why.get("why") == "lost":
            self.lost = str(why.get("detail"))


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
        head.update({name: _spread(values) for name, values in self._values.items()})
        child.emit({"window": dict(head, event_reasons=self._reasons, reason_samples=self._bits)})


def _spread(values: "List[float]") -> "List[float]":
    ordered = sorted(values)
    return [round(ordered[at], 1) for at in (0, len(ordered) // 2, -1)]


def merged(windows: "List[Window]") -> "List[Window]":
    """Merge windows two by two, those under load never with those before it."""
    result: List[Window] = []
    for window in windows:
        last = result[-1] if result else None
        fits = (
            last and "merged" not in last and (float(str(last["start_s"])) < 0) == (float(str(window["start_s"])) < 0)
        )
        if last and fits:
            result[-1] = dict(_merge(last, window), merged=True)
        else:
            result.append(window)
    return [{name: value for name, value in window.items() if name != "merged"} for window in result]


def _merge(one: Window, other: Window) -> Window:
    weights = int(str(one["count"])), int(str(other["count"]))
    both: Window = dict(other, **one)
    for name in QUANTITIES:
        left, right = one.get(name), other.get(name)
        if isinstance(left, list) and isinstance(right, list):
            middle = (left[1] * weights[0] + right[1] * weights[1]) / sum(weights)
            both[name] = [min(left[0], right[0]), round(middle, 1), max(left[2], right[2])]
    for name in ("count", "load"):
        both[name] = int(str(one[name])) + int(str(other[name]))
    both["event_reasons"] = int(str(one["event_reasons"])) | int(str(other["event_reasons"]))
    bits = dict(_counts(one))
    for bit, count in _counts(other).items():
        bits[bit] = bits.get(bit, 0) + count
    both["reason_samples"] = bits
    return both


def _counts(window: Window) -> Dict[str, int]:
    counts = window["reason_samples"]
    return counts if isinstance(counts, dict) else {}


def _violations(nvml: ModuleType, handle: Handle) -> object:
    child.note("NVML violation_ns")
    return READINGS["violation_ns"](nvml, handle)


def _growth(first: object, last: object) -> object:
    if isinstance(first, dict) and isinstance(last, dict) and "why" not in last:
        return {name: _less(first.get(name), last[name]) for name in last}
    return last


def _less(before: object, after: object) -> object:
    """The growth of a counter, or why there is none."""
    if isinstance(before, (int, float)) and isinstance(after, (int, float)):
        return after - before
    return after if isinstance(after, dict) else before if isinstance(before, dict) else reading.unknown("missing", "")
