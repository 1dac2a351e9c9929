"""nvbandwidth: copies between host and GPUs and between GPUs, as text or as JSON (-j).

Traps: cells of a matrix are text, "N/A" or, in old versions, 0.00 if two GPUs cannot reach each other; a case that
fails is there twice, first left at "Running"; bidirectional cases put three matrices into one; the exit code is 0
although a case failed; wrong data is only reported by a line that the GPU prints, outside the JSON. Source:
NVIDIA/nvbandwidth v0.8, json_output.cpp, output.cpp, inline_common.h, kernels.cu.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from nodegate.errors import CannotMeasure
from nodegate.probe import readings as read
from nodegate.text import shown
from nodegate.unknown import Known, value_or

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

MAX_TEXT = 4 << 20
MAX_CASES = 256
MAX_DEVICES = 256
PASSED, RUNNING, WAIVED, FAILED = "Passed", "Running", "Waived", "Error"
WRONG_DATA = "Invalid value when checking the pattern"
_NEXT = "run nvbandwidth -j on the node by hand and check its output"

_JSON = re.compile(r'\{\s*"nvbandwidth"')
_ANSI = re.compile(r"\x1b\[[0-9;]{0,20}[A-Za-z]")
_DEVICE = re.compile(r"(?:Device )?(\d{1,3}): .{1,200}? \(([0-9a-fA-F]{8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2})\)")
_UNIT = re.compile(r"\((GB/s|ns)\)\s*$")
_CELL = re.compile(r"\d{1,12}(?:\.\d{1,12})?(?:e[+-]?\d{1,2})?|N/A")
_STATUS = re.compile(r"(Waived|Error|ERROR|Not Found):\s*(.{0,300})")
_NAMED = re.compile(r"(nvbandwidth Version|Driver Version): (\S{1,60})")

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

    def case(self, name: str) -> Case | None:
        """The case of this name; None if it did not run."""
        return next((each for each in self.cases if each.name == name), None)


def parse(text: str, stderr: str = "") -> NvBandwidth:
    """What nvbandwidth printed, with or without -j.

    Raises:
        CannotMeasure: there is no case and no error in it.
    """
    text = _ANSI.sub("", text[:MAX_TEXT]).replace("\r", "")
    start = _JSON.search(text)
    found = _of_json(text[start.start() :]) if start else _of_text(text)
    found = replace(found, wrong_data=text.count(WRONG_DATA), told=(*found.told, *_errors_in(stderr)))
    if not found.cases:
        said = found.told[0] if found.told else shown(text.strip(), 100) or "nothing"
        raise CannotMeasure(f"nvbandwidth ran no case: {said}", next_step=_NEXT)
    return found


def _errors_in(stderr: str) -> tuple[str, ...]:
    lines = [shown(line.strip(), 200) for line in stderr[:MAX_TEXT].splitlines()]
    return tuple(line for line in lines if line)[:8]


# -j


def _of_json(text: str) -> NvBandwidth:
    try:
        whole, _ = json.JSONDecoder().raw_decode(text)
    except (ValueError, RecursionError):
        end = shown(text.rstrip()[-60:], 80)
        raise CannotMeasure(f"nvbandwidth's JSON is truncated at: {end}", next_step=_NEXT) from None
    data = value_or(read.mapping(whole, "nvbandwidth"), {})
    listed = value_or(read.items(data, "GPU Device list"), ())
    cases = value_or(read.records(data, "testcases"), ())
    error = data.get("error")
    told = shown(error.strip(), 200) if isinstance(error, str) else ""
    return NvBandwidth(
        version=read.text(data, "version"),
        driver=read.text(data, "Driver Version"),
        devices=tuple(_devices(str(each) for each in listed[:MAX_DEVICES] if isinstance(each, str))),
        cases=_last_of_each([_case(each) for each in cases[:MAX_CASES]]),
        told=(told,) if told else (),
        wrong_data=0,
    )


def _case(data: Mapping[str, object]) -> Case:
    description = value_or(read.text(data, "bandwidth_description"), "")
    rows = value_or(read.items(data, "bandwidth_matrix"), ())
    matrix = tuple(_row(row) for row in rows[: 4 * MAX_DEVICES] if isinstance(row, list))
    status = value_or(read.text(data, "status"), "")
    unit = _UNIT.search(description)
    return Case(
        name=value_or(read.text(data, "name"), "?"),
        status=FAILED if status.lower() in {"error", "not found", ""} else status,
        unit=unit[1] if unit else "",
        matrix=_last_square(matrix),
        detail=value_or(read.text(data, "error"), ""),
    )


def _row(row: Sequence[object]) -> tuple[float | None, ...]:
    return tuple(_cell(each if isinstance(each, str) else "?") for each in row[:MAX_DEVICES])


def _cell(written: str) -> float | None:
    """A number; None for "N/A", and for 0.00, which old versions print for pairs that do not exist.

    Raises:
        CannotMeasure: it is neither.
    """
    stripped = written.strip()
    if not _CELL.fullmatch(stripped):
        raise CannotMeasure(f"nvbandwidth has a cell that is not a number: {shown(written, 60)}", next_step=_NEXT)
    return None if stripped == "N/A" else float(stripped) or None


def _last_square(matrix: Matrix) -> Matrix:
    """The last of the three matrices of a bidirectional case, which is the sum of both directions."""
    columns = max((len(row) for row in matrix), default=0)
    several = columns > 1 and len(matrix) == 3 * columns
    return matrix[-columns:] if several else matrix


def _last_of_each(cases: Sequence[Case]) -> tuple[Case, ...]:
    """A case that fails is there twice: the last entry applies."""
    return tuple({each.name: each for each in cases}.values())


# Text


def _of_text(text: str) -> NvBandwidth:
    lines = text.splitlines()
    named = {match[1]: match[2] for line in lines if (match := _NAMED.fullmatch(line.strip()))}
    cases, told = _cases_of(lines)
    return NvBandwidth(
        version=read.text(named, "nvbandwidth Version"),
        driver=read.text(named, "Driver Version"),
        devices=tuple(_devices(line for line in lines if line.startswith("Device "))),
        cases=cases,
        told=told,
        wrong_data=0,
    )


def _cases_of(lines: Sequence[str]) -> tuple[tuple[Case, ...], tuple[str, ...]]:
    """v0.2 names a waived case ("Waiving NAME."); later versions give it no name in text, and it is left out."""
    cases: list[Case] = []
    told: list[str] = []
    at = 0
    while at < len(lines) and len(cases) < MAX_CASES:
        line = lines[at].strip()
        at += 1
        if line.startswith("Running ") and line.endswith("."):
            cases.append(Case(line.removeprefix("Running ")[:-1][:100], RUNNING))
        elif line.startswith("Waiving ") and line.endswith("."):
            cases.append(Case(line.removeprefix("Waiving ")[:-1][:100], WAIVED))
        elif cases and cases[-1].status == RUNNING and (unit := _UNIT.search(line)):
            matrix, at = _matrix(lines, at)
            square = cases[-1].name.startswith("device_to_device")
            whole = matrix and not (square and len(matrix) != len(matrix[0]))
            status = PASSED if whole else RUNNING
            cases[-1] = replace(cases[-1], status=status, unit=unit[1], matrix=matrix)
        elif (said := _STATUS.match(line)) and said[1] != WAIVED:
            if cases and cases[-1].status == RUNNING:
                cases[-1] = replace(cases[-1], status=FAILED, detail=shown(said[2], 200))
            else:
                told.append(shown(line, 200))
        elif line.startswith(("[CUDA_ERROR", "[cudaError", "NVML_ERROR", "ASSERT in")):
            told.append(shown(line, 200))
    return tuple(cases), tuple(told[:8])


def _matrix(lines: Sequence[str], at: int) -> tuple[Matrix, int]:
    """The rows below a description and the numbers of the columns, and the place after them."""
    columns = lines[at].split() if at < len(lines) else []
    rows: list[tuple[float | None, ...]] = []
    at += 1
    while at < len(lines) and len(rows) < MAX_DEVICES and (words := lines[at].split()) and words[0].isdigit():
        if len(words) != 1 + len(columns):
            # Truncated, or three dots in place of the rest.
            break
        rows.append(tuple(_cell(word) for word in words[1:]))
        at += 1
    return tuple(rows), at


def _devices(lines: Iterable[str]) -> list[Device]:
    found = (_DEVICE.match(line) for line in lines)
    return [Device(int(each[1]), read.address_in(each[2] + ".0")) for each in found if each][:MAX_DEVICES]
