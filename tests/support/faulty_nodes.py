"""The faults of the demo fleet by platform, each to be planted in a healthy node of its kind."""

from functools import cache

from fleet.faults import FAULTS
from fleet.machine import Machine
from support.judged_fleet import judged

MAKES = {"hgx": (Machine.hgx_h100, 2048), "roce": (Machine.pcie_l40s, 1024)}  # with the memory that is right, GiB
PLANTS = {
    kind: [plant for node, plants in FAULTS.items() if node.startswith(kind) for plant in plants] for kind in MAKES
}


def names(value):
    """How a test's id calls a fault."""
    return getattr(value, "__name__", value)


@cache
def records_of(kind, *nodes):
    """What is said of nodes `faulty1`, `faulty2`, ... with these faults, which measure together; judged once."""
    make, memory_gib = MAKES[kind]
    return judged(make, nodes, memory_gib)
