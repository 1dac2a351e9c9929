"""How far a GPU is from the temperature at which it slows down."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nodegate.rules.gpus import NORMAL_ABSENCE
from nodegate.unknown import Known, Unknown

if TYPE_CHECKING:
    from nodegate.probe.gpu import Gpu


def margin_c(gpu: Gpu) -> Known[int]:
    """Degrees left: T.Limit where the device has it, else its slowdown temperature less the present one."""
    own = gpu.temperature_margin_c
    if not isinstance(own, Unknown) or own.why not in NORMAL_ABSENCE:
        return own
    if isinstance(gpu.temperature_slowdown_c, Unknown):
        return gpu.temperature_slowdown_c
    if isinstance(gpu.temperature_c, Unknown):
        return gpu.temperature_c
    return gpu.temperature_slowdown_c - gpu.temperature_c
