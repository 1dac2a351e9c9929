"""nvbandwidth: copies between host and GPUs and between GPUs, as JSON (-j).

Traps: cells of a matrix are text, "N/A" or, in old versions, 0.00 if two GPUs cannot reach each other; a case that
fails is there twice, first left at "Running"; bidirectional cases put three matrices into one; the exit code is 0
although a case failed; wrong data is only reported by a line that the GPU prints, outside the JSON. Source:
NVIDIA/nvbandwidth v0.8, json_output.cpp, output.cpp, inline_common.h, kernels.cu.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass

from nodegate.errors import CannotMeasure
from nodegate.probe import readings as read
from nodegate.text import shown
from nodegate.unknown import Known, value_or

MAX_TEXT = 4 << 20
MAX_CASES = 256
MAX_DEVICES = 256
PASSED, WAIVED, FAILED = "Passed", "Waived", "Error"
WRONG_DATA = "Invalid value when checking the pattern"
_NEXT = "run nvbandwidth -j on the node by hand and check its output"

_JSON = re.compile(r'\{\s*"nvbandwidth"')
_ANSI = re.compile(r"\x1b\[[0-9;]{0,20}[A-Za-z]")
_DEVICE = re.compile(r"(\d{1,3}): .{1,200}? \(([0-9a-fA-F]{8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2})\)")
_UNIT = re.compile(r"\((GB/s|ns)\)\s*$")
_CELL = re.compile(r"\d{1,12}(?:\.\d{1,12})?(?:e[+-]?\d{1,2})?|N/A")

Matrix = tuple[tuple[float | None, ...], ...]


@dataclass(frozen=True)
class Device:
    """A GPU in CUDA's order, and its PCI address as sysfs writes it."""

    index: int
    address: Known[str]


@dataclass(frozen=True)
class Case:
    """One test case. `status` is Passed, Waived (it does not apply here), Running (it did not end) or Error.

    `matrix` is empty if nothing was measured; a cell is None if there is no such pair. `unit` is that of the
    cells: GB/s (1e9 bytes) or ns. `detail` is the text of an error.
    """

    name: str
    status: str
    unit: str = ""
    matrix: Matrix = ()
    detail: str = ""


@dataclass(frozen=True)
class NvBandwidth:
    """A whole run. `told` are errors that belong to no case, `wrong_data` counts the places with wrong data."""

    version: Known[str]
    driver: Known[str]
    devices: tuple[Device, ...]
    cases: tuple[Case, ...]
    told: tuple[str, ...]
    wrong_data: int


def parse(text: str, stderr: str = "") -> NvBandwidth:
    """What `nvbandwidth -j` printed. Raises CannotMeasure: there is no case in it, or it is truncated."""
    text = _ANSI.sub("", text[:MAX_TEXT]).replace("\r", "")
    data = _json_in(text)
    cases = read.listed(data, "testcases")
    error = data.get("error")
    lines = [error if isinstance(error, str) else "", *stderr[:MAX_TEXT].splitlines()]
    told = tuple(said for line in lines if (said := shown(line.strip(), 200)))[:8]
    if not cases:
        said = told[0] if told else shown(text.strip(), 100) or "nothing"
        raise CannotMeasure(f"nvbandwidth ran no case: {said}", next_step=_NEXT)
    listed = map(_DEVICE.match, map(str, value_or(read.items(data, "GPU Device list"), ())[:MAX_DEVICES]))
    return NvBandwidth(
        version=read.text(data, "version"),
        driver=read.text(data, "Driver Version"),
        devices=tuple(Device(int(match[1]), read.address_in(match[2] + ".0")) for match in filter(None, listed)),
        cases=tuple({case.name: case for case in map(_case, cases[:MAX_CASES])}.values()),  # the last of each applies
        told=told,
        wrong_data=text.count(WRONG_DATA),
    )


def _json_in(text: str) -> Mapping[str, object]:
    start = _JSON.search(text)
    if start is None:
        return {}
    try:
        whole, _ = json.JSONDecoder().raw_decode(text, start.start())
    except (ValueError, RecursionError):
        end = shown(text.rstrip()[-60:], 80)
        raise CannotMeasure(f"nvbandwidth's JSON is truncated at: {end}", next_step=_NEXT) from None
    return value_or(read.mapping(whole, "nvbandwidth"), {})


def _case(data: Mapping[str, object]) -> Case:
    description = value_or(read.text(data, "bandwidth_description"), "")
    rows = value_or(read.items(data, "bandwidth_matrix"), ())
    matrix = tuple(tuple(map(_cell, row[:MAX_DEVICES])) for row in rows[: 4 * MAX_DEVICES] if isinstance(row, list))
    status = value_or(read.text(data, "status"), "")
    unit = _UNIT.search(description)
    columns = max((len(row) for row in matrix), default=0)  # the last of three squares is the sum of both directions
    return Case(
        name=value_or(read.text(data, "name"), "?"),
        status=FAILED if status.lower() in {"error", "not found", ""} else status,
        unit=unit[1] if unit else "",
        matrix=matrix[-columns:] if columns > 1 and len(matrix) == 3 * columns else matrix,
        detail=value_or(read.text(data, "error"), ""),
    )


def _cell(value: object) -> float | None:
    """A number; None for "N/A", and for 0.00, which old versions print for pairs that do not exist.

    Raises:
        CannotMeasure: it is neither.
    """
    written = value if isinstance(value, str) else "?"
    stripped = written.strip()
    if not _CELL.fullmatch(stripped):
        raise CannotMeasure(f"nvbandwidth has a cell that is not a number: {shown(written, 60)}", next_step=_NEXT)
    return None if stripped == "N/A" else float(stripped) or None
