"""The faults of the demo fleet by platform, each to be planted in a healthy node of its kind."""

from __future__ import annotations

from fleet.faults import FAULTS
from fleet.machine import Machine

MAKES = {"hgx": (Machine.hgx_h100, 2048), "roce": (Machine.pcie_l40s, 1024)}  # with the memory that is right, GiB
PLANTS = {
    kind: [plant for node, plants in FAULTS.items() if node.startswith(kind) for plant in plants] for kind in MAKES
}


def names(value: object) -> object:
    """How a test's id calls a fault."""
    return getattr(value, "__name__", value)
