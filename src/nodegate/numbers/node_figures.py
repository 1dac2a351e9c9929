"""The figure of a node: the median of its devices, for numbers that say little one by one and much together."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from statistics import median

from nodegate.metric import Metric

OF = "median of"  # the condition by which a figure of a node is known
_MIN_DEVICES = 4  # from which on the median holds off one bad device
_DEVICES = frozenset({"TFLOPS", "GB/s", "Gb/s"})  # units of what devices do; how warm they are is no fault of a node


def node_figures(metrics: Sequence[Metric]) -> list[Metric]:
    """The median over the devices of a node, of each quantity that enough of them have; one for each attempt.

    Eight GPUs that are 3 % slow together cannot be chance, where one can.
    """
    alike: defaultdict[object, list[Metric]] = defaultdict(list)
    for metric in metrics:
        if metric.device and metric.unit in _DEVICES:
            alike[metric.key].append(metric)
    return [_figure(group) for group in alike.values() if len(group) >= _MIN_DEVICES]


def key_of_devices(figure: Metric) -> object:
    """The key of the devices that a figure is the median of."""
    own = {name: value for name, value in figure.conditions.items() if name != OF}
    return replace(figure, conditions=own).key


def _figure(group: Sequence[Metric]) -> Metric:
    first = group[0]
    attempts = min(len(metric.values) for metric in group)
    values = tuple(median(metric.values[at] for metric in group) for at in range(attempts))
    conditions = {**first.conditions, OF: str(len(group))}
    return Metric(first.name, values, first.unit, better=first.better, conditions=conditions, statistic=first.statistic)
