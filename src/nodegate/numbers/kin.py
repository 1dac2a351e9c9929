"""Numbers of a node that are slow for one reason are judged together too: by the mean of what each has left.

Six collectives that each lose 4 % in the noise are beyond chance together, where none of them is alone.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from statistics import fmean, median
from typing import NamedTuple

from nodegate.metric import Metric

TOGETHER = "together"  # the condition that names the members of such a number
_FAMILIES = {
    "collectives": (
        "nccl.all_reduce_gb_per_s",
        "nccl.all_reduce_ring_gb_per_s",
        "nccl.all_gather_gb_per_s",
        "nccl.reduce_scatter_gb_per_s",
        "nccl.alltoall_gb_per_s",
        "nccl.sendrecv_gb_per_s",
    ),
    "copies to the GPUs": ("memory.host_to_device_gb_per_s", "memory.host_to_device_at_once_gb_per_s"),
    "copies to the host": ("memory.device_to_host_gb_per_s", "memory.device_to_host_at_once_gb_per_s"),
    "memory bandwidths": (
        "memory.device_gb_per_s",
        "memory.read_gb_per_s",
        "memory.copy_gb_per_s",
        "memory.triad_gb_per_s",
    ),
    "low-precision rates": ("burn.bf16_tflops", "burn.fp8_tflops"),  # fp32 does not use the tensor cores
}
_FAMILY = {name: family for family, names in _FAMILIES.items() for name in names}
_Member = tuple[int, Metric]  # the number of its quantity, and what the node measured of it


class Joined(NamedTuple):
    """The numbers of a family as one, and the name of the one that has lost most."""

    metric: Metric
    worst: str


class Together:
    """Takes the numbers of the nodes as a whole as they come, and joins those of one family."""

    def __init__(self) -> None:
        self._nodes: defaultdict[str, defaultdict[str, list[_Member]]] = defaultdict(lambda: defaultdict(list))
        self._values: defaultdict[int, list[float]] = defaultdict(list)

    def add(self, node: str, metric: Metric, number: int) -> None:
        """A number of a node as a whole, of the quantity with this number."""
        family = _FAMILY.get(metric.name)
        if family and not metric.device and not metric.launch:
            self._nodes[node][family].append((number, metric))
            self._values[number].append(metric.judged)

    def joined(self) -> Iterator[tuple[str, Joined]]:
        """Each node with its families: a value a look, in per cent of what the nodes have in the middle."""
        middles = {number: median(values) for number, values in self._values.items() if len(values) > 1}
        for node, families in self._nodes.items():
            for family, members in families.items():
                known = [each for each in members if middles.get(each[0])]
                if len(known) > 1:
                    yield node, _joined(family, known, [middles[number] for number, _ in known])


def _joined(family: str, members: Sequence[_Member], middles: Sequence[float]) -> Joined:
    metrics = [metric for _, metric in members]
    looks = min(len(metric.values) for metric in metrics)
    values = tuple(
        100 * fmean(metric.values[look] / middle for metric, middle in zip(metrics, middles, strict=True))
        for look in range(looks)
    )
    numbers = " ".join(str(number) for number, _ in members)  # quantities of other software are others
    worst = min(zip(metrics, middles, strict=True), key=lambda each: each[0].judged / each[1])[0].name
    return Joined(Metric(f"together.{family}", values, "%", conditions={TOGETHER: numbers}), worst)
