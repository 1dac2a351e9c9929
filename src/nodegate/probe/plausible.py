"""What a GPU's readings can be at all: a number that no board has is unknown, neither a fault nor good."""

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import TypeVar

from nodegate.probe.gpu import EccCounters, Gpu, NvLink5
from nodegate.unknown import Known, Unknown, Why

T = TypeVar("T")
Span = tuple[float, float]

_ALL_ONES = frozenset({(1 << 32) - 1, (1 << 64) - 1})  # what a register that cannot be read gives
_COUNT: Span = (0, (1 << 32) - 2)
_COUNT_64: Span = (0, (1 << 63) - 1)
_ROWS: Span = (0, 1 << 20)
_MHZ: Span = (0, 20_000)  # GDDR7 is at 14,001
_WATT: Span = (0, 10_000)  # a GB300 has 1,400
_DEGREES: Span = (-39, 150)  # -40 and 255 are what sensors give that do not work
_SECONDS: Span = (0, 1 << 33)
_LANES: Span = (0, 32)
_GENERATION: Span = (0, 16)
_BYTES: Span = (0, (1 << 40) - 1)  # a GB300 has 288 GB
_PERCENT: Span = (0, 100)
_SMALL: Span = (0, 4096)
UPTIME_S: Span = (0, 3e9)  # 95 years
GROUPS: Span = (0, 1 << 20)  # of an IOMMU
_MOST_LINKS = 64
_FIRST_S = 1_262_304_000.0  # the beginning of 2010: older than any node that is judged
MASK: Span = (0, (1 << 32) - 2)  # bits; all of them are what an unreadable register gives

# Limits of the measuring, not of health: wide enough for boards to come, and far below what a broken reading gives.
_SPANS: Mapping[str, Span] = {
    "module_id": _SMALL,
    **dict.fromkeys(("link_width", "link_width_max"), _LANES),
    "link_gen_max": _GENERATION,
    "pcie_replays": _COUNT,
    **dict.fromkeys(("sm_clock_mhz", "sm_clock_max_mhz", "memory_clock_max_mhz"), _MHZ),
    **dict.fromkeys(("sm_clock_app_mhz", "memory_clock_app_mhz"), _MHZ),
    **dict.fromkeys(("sm_clock_app_default_mhz", "memory_clock_app_default_mhz"), _MHZ),
    **dict.fromkeys(("thermal_violation_s", "reliability_violation_s", "board_limit_violation_s"), _SECONDS),
    **dict.fromkeys(("power_w", "power_limit_w", "power_limit_default_w", "power_limit_enforced_w"), _WATT),
    "power_limit_max_w": _WATT,
    **dict.fromkeys(("temperature_c", "temperature_margin_c", "temperature_slowdown_c"), _DEGREES),
    "memory_temperature_c": _DEGREES,
    "memory_temperature_limit_c": (20, 150),
    **dict.fromkeys(("retired_single_bit", "retired_double_bit"), _ROWS),
    "recovery_action": _SMALL,
    "compute_mode": _SMALL,
    "spent_banks": _ROWS,
    "utilization_percent": _PERCENT,
    **dict.fromkeys(("memory_total_bytes", "memory_used_bytes"), _BYTES),
}
_LINK_SPANS: Mapping[str, Span] = {
    "speed_mbps": (0, 1_000_000),  # NVLink 5 has 53,125
    "remote_type": (0, 255),
    **dict.fromkeys(("replay_errors", "recovery_errors", "crc_errors"), (0, 1 << 64)),  # all ones: at its end
}


def within(reading: Known[T], span: Span) -> Known[T]:
    """The reading, if it is a number that can be true; `implausible` else."""
    if isinstance(reading, Unknown) or not isinstance(reading, (int, float)):
        return reading
    low, high = span
    if low <= reading <= high:
        return reading
    if reading in _ALL_ONES:
        return Unknown(Why.IMPLAUSIBLE, f"{reading}: all bits are set")
    bound = f"at least {low:.10g}" if reading < low else f"at most {high:.10g}"
    return Unknown(Why.IMPLAUSIBLE, f"{reading:.10g}, where it can be {bound}")


def counter(reading: Known[int]) -> Known[int]:
    """A counter of the kernel, which may be at its full scale but not below zero."""
    return within(reading, (0, 1 << 64))


def at_least(total: int, part: int, of: str) -> Known[int]:
    """A total, if it is not below one of its parts."""
    return Unknown(Why.IMPLAUSIBLE, f"a total of {total} with {part} {of}") if total < part else total


def dated(epoch_s: Known[float]) -> Known[float]:
    """The time of a line, if a clock that was set may have given it: one that was not begins in 1970 or 2000."""
    early = not isinstance(epoch_s, Unknown) and epoch_s < _FIRST_S
    return Unknown(Why.IMPLAUSIBLE, "a time before 2010: the clock was not set") if early else epoch_s


def gpu(found: Gpu) -> Gpu:
    """The GPU, with every reading that no board can have as `Unknown`."""
    if found.lost is not None:
        return found
    links = found.nvlinks
    changed = _impossible(found, _SPANS)
    changed["ecc"] = _each_by_itself(found.ecc, _COUNT)
    if not isinstance(found.remap, Unknown):  # known only if each of its numbers can be true
        judged = (within(getattr(found.remap, field.name), _ROWS) for field in fields(found.remap))
        changed["remap"] = next((each for each in judged if isinstance(each, Unknown)), found.remap)
    changed["nvlink5"] = _each_by_itself(found.nvlink5, _COUNT_64)  # a counter with all bits set is none
    if not isinstance(links, Unknown):  # known if each is listed once by a number that a GPU has
        numbers = {link.link for link in links}
        if len(numbers) < len(links) or not all(0 <= number < _MOST_LINKS for number in numbers):
            changed["nvlinks"] = Unknown(Why.IMPLAUSIBLE, "NVLinks are listed twice, or by numbers that no GPU has")
        else:
            changed["nvlinks"] = tuple(
                replace(link, **wrong) if (wrong := _impossible(link, _LINK_SPANS)) else link  # type: ignore[arg-type]
                for link in links
            )
    return replace(found, **changed)  # type: ignore[arg-type]


def _each_by_itself(whole: EccCounters | Known[NvLink5], span: Span) -> object:
    """Several numbers, each of them if it can be true."""
    if isinstance(whole, Unknown):
        return whole
    return replace(whole, **_impossible(whole, {each.name: span for each in fields(whole)}))  # type: ignore[arg-type]


def _impossible(whole: object, spans: Mapping[str, Span]) -> dict[str, object]:
    found: dict[str, object] = {}
    for name, span in spans.items():
        reading = getattr(whole, name)
        if (judged := within(reading, span)) is not reading:
            found[name] = judged
    return found
