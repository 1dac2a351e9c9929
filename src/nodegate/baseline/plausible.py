"""Slips of the pen that would switch a limit off: sign, unit, order of magnitude, direction, tolerance."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from nodegate.baseline.entry import Entry

Ranges = Mapping[str, tuple[float, float]]  # the lowest and the highest value of each key
MOST_TOLERANCE = 0.5
_MORE_IS_BETTER = ("_tflops", "_gb_per_s", "_gbps", "_mbps", "_mhz")
_LESS_IS_BETTER = ("_us",)
_NEVER_ZERO = (*_MORE_IS_BETTER, *_LESS_IS_BETTER, "_w")  # a quantity that every device has
_NETWORK = "rdma."  # the site's own: ports of any rate, fabrics of any latency
_APART = 10.0  # no good device of any platform is so far from all the others
_OTHER_UNITS = (1000.0, 0.001, 8.0, 0.125)  # kW for W, GB for Gb


@dataclass(frozen=True)
class Slip:
    """What is wrong with a limit, and the nearest right form."""

    message: str
    advice: str


def slip_of_value(key: str, value: object, unit: str, known: Ranges) -> Slip | None:
    """The slip in a value; None where there is none.

    Args:
        key: the limit key.
        value: what is written.
        unit: its unit.
        known: the lowest and the highest value of each key over all platforms.
    """
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    if value < 0:
        return Slip(f"{key}: {value:g} {unit} is below zero".rstrip(), f"write {-value:g}")
    if value == 0 and key.endswith(_NEVER_ZERO):
        advice = "leave the key out where nothing is to be judged"
        return Slip(f"{key}: 0 {unit} holds for every device", advice)
    return _magnitude(key, value, unit, *known[key]) if key.endswith(_NEVER_ZERO) and key in known else None


def _magnitude(key: str, value: float, unit: str, low: float, high: float) -> Slip | None:
    """A value that no known platform comes near; of the site's own network only one that is right in another unit."""
    right = _in_the_other_unit(value, low, high, unit)
    if low / _APART < value < high * _APART or (key.startswith(_NETWORK) and not right):
        return None
    between = f"{low:g} {unit}" if low == high else f"{low:g} to {high:g} {unit}"
    said = f"{key}: {value:g} {unit}, where the known platforms have {between}"
    return Slip(said, right or f"is it in another unit than {unit}?")


def slip_of_direction(key: str, direction: str) -> Slip | None:
    """A direction in which slow devices pass and good ones fail; None where it is right."""
    for endings, right, what in ((_MORE_IS_BETTER, "at least", "more"), (_LESS_IS_BETTER, "at most", "less")):
        if direction and key.endswith(endings) and direction != right:
            return Slip(f"{key}: {what} of it is better, and the direction is {direction!r}", f"write {right}")
    return None


def ranges(entries: Iterable[Entry]) -> Ranges:
    """The lowest and the highest value of each key."""
    found: dict[str, tuple[float, float]] = {}
    for entry in entries:
        for each in entry.variants or (entry,):
            if isinstance(each.value, (int, float)) and not isinstance(each.value, bool) and each.value > 0:
                low, high = found.get(each.key, (each.value, each.value))
                found[each.key] = (min(low, each.value), max(high, each.value))
    return found


def _in_the_other_unit(value: float, low: float, high: float, unit: str) -> str:
    """What to write where the value is right in another unit; empty where it is not."""
    right = (value * times for times in _OTHER_UNITS if low / 2 <= value * times <= high * 2)
    return next((f"write {each:g}, in {unit}" for each in right), "")
