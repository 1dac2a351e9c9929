"""In which types of numbers a GPU is burned: those that its board has units for, and for which there is a kernel."""

import re
from typing import Dict, List, NamedTuple, Sequence, Tuple

# Compute capabilities of the chips that do fp64 at half the rate of fp32; on the others it is 1/32 to 1/64: no load.
_FP64 = ((6, 0), (7, 0), (8, 0), (9, 0), (10, 0))
_FP64_CUT = re.compile(r"\bH(?:20|800)\b")  # boards of such a chip that are sold without it
_FROM = {"fp8": (8, 9), "fp4": (10, 0)}  # the first chips that have it


class Phase(NamedTuple):
    """A dtype, its seconds, and the size of its matrices."""

    dtype: str
    seconds: float
    matrix: int


def chosen(
    phases: "Sequence[Phase]", capability: "Tuple[int, ...]", name: str, own_kernels: bool
) -> "Tuple[List[Phase], Dict[str, str]]":
    """(what this GPU is burned in, {dtype that is left out: why}); the first phase stays, and gets their time."""
    why = {phase.dtype: _why_not(phase.dtype, capability, name, own_kernels) for phase in phases[1:]}
    return without(phases, {dtype: text for dtype, text in why.items() if text})


def without(phases: "Sequence[Phase]", left_out: "Dict[str, str]") -> "Tuple[List[Phase], Dict[str, str]]":
    """The phases without some, whose time the first one gets."""
    kept = [phase for phase in phases if phase is phases[0] or phase.dtype not in left_out]
    gained = sum(phase.seconds for phase in phases) - sum(phase.seconds for phase in kept)
    return [kept[0]._replace(seconds=kept[0].seconds + gained), *kept[1:]], left_out


def _why_not(dtype: str, capability: "Tuple[int, ...]", name: str, own_kernels: bool) -> str:
    if dtype == "fp64" and (capability not in _FP64 or _FP64_CUT.search(name)):
        return "this board has hardly any units for it"
    if dtype not in _FROM:
        return ""
    if capability < _FROM[dtype]:
        return "this GPU does not have it"
    return "nodegate has no kernel of its own for it" if own_kernels else ""
