"""How the boards of other platforms do under load, by the name of the GPU; see tests/support/healthy_fleets.py."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


@dataclass(frozen=True)
class Noise:
    """How far a good value is from the usual one at most, in percent, either way; 2.45 times the deviation."""

    burn: float = 0.5
    copies: float = 0.3
    nccl: float = 0.4
    groups: float = 0.5


@dataclass(frozen=True)
class Figures:
    """One platform: TFLOPS by type, GB/s of copies and collectives, and what its GPUs are like under full load.

    `copies` are out of the GPU, into it, inside it (read and written), with the host when all do, and to another GPU;
    `nccl` all_reduce, with rings, all_gather, reduce_scatter, alltoall and sendrecv; `groups` all_reduce, alltoall and
    sendrecv of two nodes, and of more.
    """

    tflops: tuple[float, float, float]
    copies: tuple[float, float, float, float, float]
    nccl: tuple[float, float, float, float, float, float]
    groups: tuple[tuple[float, float], tuple[float, float], tuple[float, float]]
    clock_mhz: float
    power_w: float
    capability: str = "9.0"
    multiprocessors: int = 132
    temperature_c: float = 62.0
    memory_temperature_c: float | None = 72.0
    nvls: bool = False
    gpudirect: bool = True
    triad: float = 0.0  # GB/s of memory by kernels; 0: a fifth more than the copy engine
    noise: Noise = field(default_factory=Noise)


FIGURES: dict[str, Figures] = {}  # none of the demo's
_USUAL = Noise()


def of(gpus: Sequence[Mapping[str, Any]]) -> Figures | None:
    """The figures of a node's GPUs, where they are of such a platform."""
    return next((FIGURES[str(gpu["name"])] for gpu in gpus if str(gpu.get("name")) in FIGURES), None)


def noise(gpus: Sequence[Mapping[str, Any]]) -> Noise:
    """How unsteady the node's numbers are."""
    found = of(gpus)
    return found.noise if found else _USUAL
