"""What the kernel for Hopper (wgmma) computes is held against a GPU only where other GPUs compute right with it.

It was written without a Hopper at hand. It proves itself on every board before a burn, but a fault that comes once in a
million products would pass that proof; then the kernel may be wrong and not the board. GPUs of the same node that
computed as long with it without an error tell the two apart.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nodegate.unknown import Unknown

if TYPE_CHECKING:
    from nodegate.measure.burn.document import BurnDocument, GpuLoad, Phase
    from nodegate.verdicts import Verdicts

WGMMA = "wgmma"
GAVE_UP = "nodegate_wgmma"  # begins the error of a GPU on which the kernel waited for nothing
FEWEST_RIGHT = 2  # other GPUs that computed right with it
_OTHERWISE = (
    "give the burn a cuBLAS (nodegate_cublas or --tools) and burn this node again: what is wrong with it too is the GPU"
)


def is_doubted(load: GpuLoad, document: BurnDocument) -> bool:
    """Whether a wrong result of this GPU by the kernel may be the kernel's: too few GPUs beside it show it right."""
    right = [each for each in document.gpus if each.index != load.index and _is_right(each)]
    return len(right) < FEWEST_RIGHT


def _is_right(load: GpuLoad) -> bool:
    by_it = [phase for phase in load.phases if phase.kernel == WGMMA]
    return bool(by_it) and not load.error and all(_is_clean(phase) for phase in by_it)


def _is_clean(phase: Phase) -> bool:
    return phase.mismatches == 0 and phase.reference_errors == 0 and not isinstance(phase.tflops, Unknown)


def doubt(load: GpuLoad, quantity: str, said: str, verdicts: Verdicts) -> None:
    """What is wrong, and that it is not known yet whose fault it is."""
    reason = (
        f"{said}, by the kernel for Hopper, which too few GPUs of this node show to be right: its fault or the GPU's"
    )
    verdicts.unknown(part=load.part, quantity=quantity, reason=reason, action=_OTHERWISE)


def described(load: GpuLoad) -> str:
    """Which kernel multiplied on a Hopper board without cuBLAS, and why not the other; "" where there is no choice."""
    if not load.wgmma:
        return ""
    by = next((phase.kernel for phase in load.phases), "")
    return f"; bf16 by {by} ({load.wgmma if by == WGMMA else f'not {WGMMA}: {load.wgmma}'})"
