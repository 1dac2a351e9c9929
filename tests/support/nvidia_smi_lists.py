"""`nvidia-smi nvlink --status` in recordings: which links are up, at what speed."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from nodegate.errors import CannotMeasure
from nodegate.probe.gpu import NvLink
from nodegate.text import shown
from nodegate.unknown import Known, Unknown, Why

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_TEXT = 1 << 20
_GPU = re.compile(r"GPU ([0-9]{1,3}): \S.{0,100}? \(UUID: GPU-[0-9a-f-]{36}\)")
_LINK_UP = re.compile(r"\s+Link ([0-9]{1,2}): ([0-9]{1,4}(?:\.[0-9]{1,3})?) GB/s")
_LINK_DOWN = re.compile(r"\s+Link ([0-9]{1,2}): <?in[aA]ctive>?")
_ALL_DOWN = re.compile(r"NVML: Unable to retrieve NVLink information as all links are in[aA]ctive")
_NOT_SHOWN = Unknown(Why.MISSING, "nvidia-smi nvlink --status does not show it")


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
            raise _bad(line)
    if not found:
        raise _bad("")
    return found


def _link(line: str) -> NvLink:
    up, down = _LINK_UP.fullmatch(line), _LINK_DOWN.fullmatch(line)
    if up:
        return NvLink(int(up[1]), True, round(float(up[2]) * 1000), *[_NOT_SHOWN] * 4)
    if down:
        return NvLink(int(down[1]), False, _NOT_SHOWN, *[_NOT_SHOWN] * 4)
    raise _bad(line)


def _lines(written: str) -> list[str]:
    return [line.rstrip() for line in written[:MAX_TEXT].splitlines() if line.strip()]


def _bad(line: str) -> CannotMeasure:
    what = f"has a line that it does not write: {shown(line.strip(), 120)}" if line else "is empty"
    return CannotMeasure(f"the output of nvidia-smi nvlink --status {what}", next_step="run it by hand")
