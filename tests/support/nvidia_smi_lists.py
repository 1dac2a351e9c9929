"""Two short lists of nvidia-smi: `-L` (which GPUs) and `nvlink --status` (which links are up, at what speed)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nodegate.errors import CannotMeasure
from nodegate.probe.gpu import NvLink
from nodegate.text import shown
from nodegate.unknown import Known, Unknown, Why

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_TEXT = 1 << 20
_UUID = r"GPU-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_GPU = re.compile(rf"GPU ([0-9]{{1,3}}): (\S.{{0,100}}?) \(UUID: ({_UUID})\)")
_MIG = re.compile(r"\s+MIG .{1,100}")
_LINK_UP = re.compile(r"\s+Link ([0-9]{1,2}): ([0-9]{1,4}(?:\.[0-9]{1,3})?) GB/s")
_LINK_DOWN = re.compile(r"\s+Link ([0-9]{1,2}): <?in[aA]ctive>?")
_ALL_DOWN = re.compile(r"NVML: Unable to retrieve NVLink information as all links are in[aA]ctive")
_NOT_SHOWN = Unknown(Why.MISSING, "nvidia-smi nvlink --status does not show it")


@dataclass(frozen=True)
class ListedGpu:
    """One line of nvidia-smi -L."""

    index: int
    name: str
    uuid: str


def parse_list(written: str) -> tuple[ListedGpu, ...]:
    """`nvidia-smi -L`; lines of MIG devices are skipped.

    Raises:
        CannotMeasure: it is empty, a line is not what nvidia-smi -L writes, or an index is missing.
    """
    found: list[ListedGpu] = []
    for line in _lines(written):
        if _MIG.fullmatch(line):
            continue
        match = _GPU.fullmatch(line.strip())
        if match is None or int(match[1]) != len(found):
            raise _bad("nvidia-smi -L", line)
        found.append(ListedGpu(int(match[1]), shown(match[2]), match[3]))
    if not found:
        raise _bad("nvidia-smi -L", "")
    return tuple(found)


def parse_nvlink_status(written: str) -> Mapping[int, Known[tuple[NvLink, ...]]]:
    """`nvidia-smi nvlink --status`: the links of each GPU, by its index; none for a GPU without NVLink.

    When nvidia-smi says that all links are inactive it does not name them: those of that GPU are unknown (failed).

    Raises:
        CannotMeasure: it is empty, or a line is not what nvidia-smi writes (for example because it is truncated).
    """
    found: dict[int, Known[tuple[NvLink, ...]]] = {}
    index: int | None = None
    for line in _lines(written):
        links = found.get(index, ()) if index is not None else ()
        if match := _GPU.fullmatch(line.strip()):
            index = int(match[1])
            found[index] = ()
        elif index is not None and _ALL_DOWN.fullmatch(line.strip()):
            found[index] = Unknown(Why.FAILED, "all NVLinks are inactive")
        elif index is not None and not isinstance(links, Unknown):
            found[index] = (*links, _link(line))
        else:
            raise _bad("nvidia-smi nvlink --status", line)
    if not found:
        raise _bad("nvidia-smi nvlink --status", "")
    return found


def _link(line: str) -> NvLink:
    up, down = _LINK_UP.fullmatch(line), _LINK_DOWN.fullmatch(line)
    if up:
        return NvLink(int(up[1]), True, round(float(up[2]) * 1000), *[_NOT_SHOWN] * 4)
    if down:
        return NvLink(int(down[1]), False, _NOT_SHOWN, *[_NOT_SHOWN] * 4)
    raise _bad("nvidia-smi nvlink --status", line)


def _lines(written: str) -> list[str]:
    return [line.rstrip() for line in written[:MAX_TEXT].splitlines() if line.strip()]


def _bad(tool: str, line: str) -> CannotMeasure:
    what = f"has a line that it does not write: {shown(line.strip(), 120)}" if line else "is empty"
    return CannotMeasure(f"the output of {tool} {what}", next_step=f"run {tool} on the node by hand")
