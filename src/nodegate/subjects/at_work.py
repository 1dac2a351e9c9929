"""GPUs at work under a job that runs now: one that is slow among the others, and all that only wait for each other."""

from collections.abc import Iterator
from dataclasses import dataclass
from statistics import median

from nodegate.probe.gpu import Gpu, Gpus
from nodegate.unknown import Unknown, value_or

BUSY_PERCENT = 90  # utilisation: the share of the last second in which a kernel ran
WAITING_PERCENT = 99
FEWEST = 3  # GPUs at work, before one of them is compared with the others


@dataclass(frozen=True)
class Hang:
    """GPUs that are busy and draw little, and those beside them that do nothing."""

    waiting: tuple[Gpu, ...]
    idle: tuple[Gpu, ...]

    @property
    def words(self) -> str:
        """Both in words."""
        power = median(value_or(gpu.power_w, 0.0) for gpu in self.waiting)
        said = f"{_named(self.waiting)} at utilisation 100 % with power near idle ({power:.0f} W)"
        return said + (f", {_named(self.idle)} at 0 %: begin with its rank" if self.idle else "")


def slow_among(gpus: Gpus, share_percent: float) -> Iterator[tuple[Gpu, int, float]]:
    """The GPUs at work whose SM clock is below a share of the median of the others: (GPU, its MHz, the limit)."""
    busy = [gpu for gpu in gpus.devices if value_or(gpu.utilization_percent, 0) >= BUSY_PERCENT]
    clocks = [(gpu, gpu.sm_clock_mhz) for gpu in busy if not isinstance(gpu.sm_clock_mhz, Unknown)]
    if len(clocks) < FEWEST:
        return
    for gpu, clock in clocks:
        limit = share_percent / 100 * median(each for other, each in clocks if other is not gpu)
        if clock < limit:
            yield gpu, clock, limit


def waiting(gpus: Gpus, power_percent: float) -> Hang | None:
    """The hang that the GPUs of a node show together; None if they do not.

    A kernel of NCCL that waits for another rank keeps its GPU busy and computes nothing.
    """
    found = tuple(gpu for gpu in gpus.devices if _waits(gpu, power_percent))
    others = [gpu for gpu in gpus.devices if gpu not in found]
    idle = tuple(gpu for gpu in others if value_or(gpu.utilization_percent, 1) == 0)
    return Hang(found, idle) if len(found) >= max(2, len(gpus.devices) / 2) and len(idle) == len(others) else None


def _waits(gpu: Gpu, power_percent: float) -> bool:
    power, limit = gpu.power_w, gpu.power_limit_w
    if isinstance(power, Unknown) or isinstance(limit, Unknown):
        return False
    return value_or(gpu.utilization_percent, 0) >= WAITING_PERCENT and power < power_percent / 100 * limit


def _named(gpus: tuple[Gpu, ...]) -> str:
    numbers = ", ".join(str(gpu.index) for gpu in gpus)
    return f"GPU {numbers}" if len(gpus) == 1 else f"GPUs {numbers}"
