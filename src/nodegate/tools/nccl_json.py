"""nccl-tests -J: the JSON report (since 2.17.5), with the times of every process if -I was given (since 2.19.4).

Traps: it contains the whole environment of the job, which is dropped here; "okay" and the booleans are
text; infinity is written as a bare `inf`; before 2.18.4 an early error leaves the file truncated; a file that exists is
not overwritten, the report goes to `<name>.0` then. Source: NVIDIA/nccl-tests v2.19.6, src/util.cu.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

from nodegate.errors import CannotMeasure
from nodegate.probe import readings as read
from nodegate.text import shown
from nodegate.unknown import Known, Unknown, Why

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

MAX_TEXT = 64 << 20
MAX_ROWS = 4096
_MOST = 1 << 63  # of a size in bytes, and of a count
MAX_TIMES = 1 << 20  # of one row, over all processes
_BARE_INFINITY = re.compile(r"(?<=[:\[,])(-?)(?:inf|nan)(?=[,}\]])")
_NEXT = "look at what nccl-tests printed; run it again with another file name for -J"


@dataclass(frozen=True)
class Half:
    """Out of place or in place: µs, GB/s, and the wrong elements."""

    time_us: Known[float]
    algbw_gb_per_s: Known[float]
    busbw_gb_per_s: Known[float]
    wrong: Known[int]


@dataclass(frozen=True)
class Row:
    """One size. `process_times_us` has, for each process in rank order, its slowest GPU's time of each iteration."""

    size_bytes: int
    dtype: str
    redop: str
    out_of_place: Known[Half]
    in_place: Known[Half]
    process_times_us: tuple[tuple[float, ...], ...]

    @property
    def process_medians_us(self) -> tuple[float, ...]:
        """The median time of each process: the one that waits least is the one for which the others wait."""
        return tuple(median(times) for times in self.process_times_us if times)


@dataclass(frozen=True)
class Device:
    """The first GPU of each process, which is all that the report lists."""

    rank: int
    group: int
    host: str
    device: int
    bus: str


@dataclass(frozen=True)
class NcclReport:
    """A whole report. `ended` is false if the file stops before `end_time`."""

    nccl: Known[str]
    arguments: tuple[str, ...]
    devices: tuple[Device, ...]
    rows: tuple[Row, ...]
    out_of_bounds: Known[int]
    out_of_bounds_ok: Known[bool]
    average_gb_per_s: Known[float]
    errors: tuple[str, ...]
    ended: bool


def parse(written: str) -> NcclReport:
    """The content of a file that -J wrote.

    Raises:
        CannotMeasure: it is empty, cut off or something else.
    """
    if not written.strip():
        raise CannotMeasure("the JSON report of nccl-tests is empty", next_step=_NEXT)
    try:
        whole = json.loads(_BARE_INFINITY.sub("null", written[:MAX_TEXT]))
    except (ValueError, RecursionError) as error:
        place = (
            f"line {error.lineno} column {error.colno}"
            if isinstance(error, json.JSONDecodeError)
            else "its nesting depth"
        )
        # The text at that place is not quoted: it may be a secret from the environment.
        raise CannotMeasure(
            f"the JSON report of nccl-tests is truncated or corrupt at {place}", next_step=_NEXT
        ) from None
    if not isinstance(whole, dict) or not isinstance(whole.get("results"), list):
        raise CannotMeasure("the JSON report of nccl-tests has no results", next_step=_NEXT)
    whole.pop("env", None)
    return _report(whole)


def _report(whole: Mapping[str, object]) -> NcclReport:
    bounds, average = _object(whole.get("out_of_bounds")), _object(whole.get("average_bus_bandwidth"))
    config = _object(whole.get("config"))
    errors = whole.get("errors")
    return NcclReport(
        nccl=_version(whole.get("nccl_version")),
        arguments=tuple(shown(each, 200) for each in _list(whole.get("args"))[:64]),
        devices=tuple(_device(_object(each)) for each in _list(config.get("devices") or whole.get("devices"))),
        rows=tuple(_row(_object(each)) for each in _list(whole.get("results"))[:MAX_ROWS]),
        out_of_bounds=read.integer(bounds, "count"),
        out_of_bounds_ok=_switch(bounds.get("okay")),
        average_gb_per_s=_float(average, "bandwidth"),
        errors=tuple(shown(each, 300) for each in _list(errors)[:16] if isinstance(each, str) and each.strip()),
        ended=isinstance(whole.get("end_time"), str),
    )


def _row(data: Mapping[str, object]) -> Row:
    size = data.get("size")
    if not isinstance(size, int) or isinstance(size, bool) or not 0 <= size < _MOST:
        raise CannotMeasure(f"a result of nccl-tests has the size {shown(size)}", next_step=_NEXT)
    per_iteration = _object(data.get("out_of_place_per_iter"))
    return Row(
        size_bytes=size,
        dtype=shown(data.get("type", "")),
        redop=shown(data.get("redop", "")),
        out_of_place=_half(data.get("out_of_place")),
        in_place=_half(data.get("in_place")),
        process_times_us=_times(_list(per_iteration.get("per_process_max_times_us"))),
    )


def _half(value: object) -> Known[Half]:
    if not isinstance(value, dict):
        return Unknown(Why.MISSING, "not run")
    wrong = value.get("nwrong")
    time_us = _float(value, "time" if "time" in value else "cpu_time")
    return Half(
        time_us=time_us,
        algbw_gb_per_s=_float(value, "alg_bw"),
        busbw_gb_per_s=_float(value, "bus_bw"),
        wrong=int(wrong)
        if isinstance(wrong, (int, float)) and abs(wrong) < _MOST  # not for nan
        else Unknown(Why.NOT_SUPPORTED, "not checked in this run"),
    )


def _times(processes: Sequence[object]) -> tuple[tuple[float, ...], ...]:
    """The times of every process; none at all if one of them is not a list of numbers."""
    found = []
    count = 0
    for process in processes:
        times = [read.real(each) for each in _list(process)[:MAX_TIMES]]
        known = tuple(time for time in times if not isinstance(time, Unknown))
        count += len(times)
        if not known or len(known) < len(times) or count > MAX_TIMES:
            return ()
        found.append(known)
    return tuple(found)


def _device(data: Mapping[str, object]) -> Device:
    def number(name: str) -> int:
        value = data.get(name)
        return value if isinstance(value, int) else -1

    return Device(
        number("rank"),
        number("group"),
        shown(data.get("hostname", "")),
        number("device"),
        shown(data.get("device_hex", "")),
    )


def _version(code: object) -> Known[str]:
    """23007 is 2.30.7."""
    if not isinstance(code, int) or not 1000 <= code < 1_000_000:
        return read.wrong("NCCL's version code", code)
    thousand = 10000 if code >= 10000 else 1000
    return f"{code // thousand}.{code % thousand // 100}.{code % 100}"


def _switch(value: object) -> Known[bool]:
    """Here true and false are text; "unchecked" is neither."""
    if value in ("true", "false"):
        return value == "true"
    return Unknown(Why.MISSING, "not checked") if value == "unchecked" else read.wrong('"true" or "false"', value)


def _float(data: Mapping[str, object], name: str) -> Known[float]:
    value = data.get(name)
    return Unknown(Why.MISSING, f"no {name}") if value is None else read.real(value)


def _object(value: object) -> Mapping[str, object]:
    return value if isinstance(value, dict) else {}


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else []
