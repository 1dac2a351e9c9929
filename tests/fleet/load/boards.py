"""How boards do under load: the two of the demo, and those of other platforms by the name of the GPU."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


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

    `copies` are out of the GPU, into it, inside it (read and written), with the host when all do, and to another GPU
    that is less than `far_from` away (0: NVSwitches join all), else `far_peer`; `nccl` all_reduce, with rings,
    all_gather, reduce_scatter, alltoall and sendrecv; `groups` all_reduce, alltoall and sendrecv of two nodes, and of
    more.
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
    far_from: int = 0
    far_peer: float = 0.0
    gpu_burn: tuple[float, float] | None = None  # TFLOPS of that program with tensor cores, and in fp32
    cpus: tuple[str, str] = ("0-55,112-167", "56-111,168-223")  # of each socket


H100 = Figures(
    tflops=(742.0, 51.4, 60.8),
    copies=(55.1, 55.4, 2492.0, 27.4, 376.0),
    nccl=(484.0, 371.0, 366.0, 368.0, 346.0, 356.0),
    groups=((383.0, 371.0), (88.4, 55.2), (47.6, 47.1)),
    clock_mhz=1755.0,
    power_w=697.0,
    temperature_c=63.0,
    memory_temperature_c=74.0,
    nvls=True,
    triad=2990.0,
    gpu_burn=(404.0, 51.2),
)
L40S = Figures(
    tflops=(229.0, 58.5, 1.4),
    copies=(26.3, 26.1, 742.0, 24.9, 24.8),
    nccl=(19.4, 19.3, 19.1, 19.2, 13.8, 16.1),
    groups=((18.7, 18.2), (11.6, 9.3), (13.9, 13.6)),
    clock_mhz=2010.0,
    power_w=346.0,
    capability="8.9",
    multiprocessors=142,
    temperature_c=69.0,
    memory_temperature_c=None,
    gpudirect=False,
    triad=720.0,
    far_from=2,
    far_peer=21.3,
    gpu_burn=(118.0, 57.9),
    cpus=("0-31,64-95", "32-63,96-127"),
)
FIGURES: dict[str, Figures] = {}  # of other boards, by the name of the GPU


def of(gpus: Sequence[Mapping[str, Any]]) -> Figures:
    """The figures of a node's GPUs; boards that nobody named are told by their NVLinks."""
    answering = [gpu for gpu in gpus if "handle" not in gpu]
    named = (FIGURES[str(gpu["name"])] for gpu in answering if str(gpu["name"]) in FIGURES)
    return next(named, H100 if answering[0]["nvlinks"] else L40S)
