"""dcgmi nvlink: -s, the state of each link, and -e -j, the errors of one GPU's links."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from nodegate.errors import CannotMeasure
from nodegate.probe import readings as read
from nodegate.probe.readings import shown

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nodegate.unknown import Known

MAX_TEXT = 1 << 20
_OWNER = re.compile(r"(gpuId|physicalId|nvSwitchId) ([0-9]{1,6}):")
_LETTERS = re.compile(r"[UDX_](?: [UDX_]){0,255}")
_LINK = re.compile(r"Link ([0-9]{1,3})")
_GPU = re.compile(r"GPU ([0-9]{1,5})")
_PLAIN = re.compile(r"\+-+\+|\|.{0,80}\||(?:GPUs|NvSwitches):|Key: .{0,200}|")


class LinkState(str, Enum):
    """What a letter of `dcgmi nvlink -s` says."""

    UP = "U"
    DOWN = "D"
    DISABLED = "X"
    NOT_SUPPORTED = "_"


@dataclass(frozen=True)
class LinkErrors:
    """`counts` of one GPU: by link number, then by DCGM's name ("CRC Data Error")."""

    gpu: int
    counts: Mapping[int, Mapping[str, Known[int]]]


def parse_status(written: str) -> Mapping[str, tuple[LinkState, ...]]:
    """`dcgmi nvlink -s`: the states of "GPU 0" or "NvSwitch 11", in the order of the links.

    Raises:
        CannotMeasure: it names nobody, a line is none of its own, or it is cut off behind a name.
    """
    found: dict[str, tuple[LinkState, ...]] = {}
    waiting = ""
    for line in (line.strip()[:600] for line in written[:MAX_TEXT].splitlines()):
        owner = _OWNER.fullmatch(line)
        if waiting and _LETTERS.fullmatch(line):
            found[waiting] = tuple(LinkState(letter) for letter in line.split())
            waiting = ""
        elif waiting or (owner is None and not _PLAIN.fullmatch(line)):
            raise _bad("-s", f"cannot be read at: {shown(line or waiting, 120)}")
        elif owner:
            waiting = f"{'GPU' if owner[1] == 'gpuId' else 'NvSwitch'} {int(owner[2])}"
            if waiting in found:
                raise _bad("-s", f"names {waiting} twice")
    if waiting or not found:
        raise _bad("-s", f"is cut off behind {waiting}" if waiting else "names no GPU")
    return found


def parse_errors(written: str) -> LinkErrors:
    """`dcgmi nvlink -e -g GPU -j`.

    Raises:
        CannotMeasure: it is no such JSON, cut off, or names no link.
    """
    try:
        whole = json.loads(written[:MAX_TEXT])
    except (ValueError, RecursionError):
        raise _bad("-e -j", f"is no whole JSON: {shown(written.strip()[-120:], 120) or 'it is empty'}") from None
    whole = whole if isinstance(whole, dict) else {}
    header, body = whole.get("header"), whole.get("body")
    named = [_GPU.fullmatch(each) for each in header if isinstance(each, str)] if isinstance(header, list) else []
    gpu = next((match for match in named if match), None)
    if gpu is None or not isinstance(body, dict) or not body:
        raise _bad("-e -j", "names no GPU" if gpu is None else "names no link")
    return LinkErrors(int(gpu[1]), {_number(name): _counts(name, link) for name, link in body.items()})


def _number(name: str) -> int:
    match = _LINK.fullmatch(name)
    if match is None:
        raise _bad("-e -j", f"has a link that is none: {shown(name)}")
    return int(match[1])


def _counts(name: str, link: object) -> Mapping[str, Known[int]]:
    counts = link.get("children") if isinstance(link, dict) else None
    if not isinstance(counts, dict) or not counts:
        raise _bad("-e -j", f"has no count for {shown(name)}")
    return {shown(error): _count(value) for error, value in counts.items()}


def _count(value: object) -> Known[int]:
    """A count is text, in an object of its own."""
    text = value.get("value") if isinstance(value, dict) else value
    if isinstance(text, str) and re.fullmatch(r"[0-9]{1,20}", text):
        return int(text)
    return read.wrong("a count", text)


def _bad(option: str, what: str) -> CannotMeasure:
    return CannotMeasure(
        f"the output of dcgmi nvlink {option} {what}", next_step="run dcgmi nvlink on the node by hand"
    )
