"""Every measurement by its name: what a check may ask for in addition to the passive facts.

A measurement's module is imported on first use: a bootcheck needs none.
"""

from collections.abc import Iterable
from functools import cache
from importlib import import_module

from nodegate.measure.measurement import Measurement

COUNTERS = "counters"  # the facts once more, after the load: not a measurement itself
FACTS_AFTER = "facts_after"  # the name of their evidence

_WHERE = {
    "burn": "nodegate.measure.burn.run:BURN",
    "gpu_copies": "nodegate.measure.copies.run:COPIES",
    "nccl": "nodegate.measure.nccl.run:NCCL",
    "rdma_bandwidth": "nodegate.measure.rdma.run:RDMA_BANDWIDTH",
    "nccl_groups": "nodegate.measure.groups.run:NCCL_GROUPS",
}
MEASURED = frozenset((*_WHERE, COUNTERS))


@cache
def measurement(name: str) -> Measurement:
    """A measurement by its name; KeyError if there is none."""
    module, _, attribute = _WHERE[name].partition(":")
    found: Measurement = getattr(import_module(module), attribute)
    return found


def wanted(asked_for: Iterable[str]) -> tuple[Measurement, ...]:
    """The measurements among the names that checks ask for, in the order in which they run."""
    names = set(asked_for)
    return tuple(measurement(name) for name in _WHERE if name in names)


def is_active(asked_for: Iterable[str]) -> bool:
    """Whether a check with these arguments needs load on the node."""
    return not MEASURED.isdisjoint(asked_for)
