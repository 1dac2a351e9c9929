"""Slots that lost their device: a disk may be changed while the node runs, a GPU or NIC may not."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from nodegate.kernel_log.incidents import Incident
    from nodegate.probe.pci import Pci

_LOST_DEVICE = "pcie_link_down"  # knowledge/kernel_lines.csv
_OTHER = "no GPU, NVSwitch or NIC is below this slot: a disk that was replaced, or an empty slot"


def of_other_devices(pci: Pci) -> Callable[[Incident], str]:
    """Why a slot that lost its device is no fault of a GPU or NIC; empty where one is below it, or for other lines.

    A GPU or NIC that is gone from its slot for good is missing from the node, which is found by its count.
    """
    needed = {
        above.address for device in (*pci.gpus, *pci.nvswitches, *pci.nics) for above in (device, *pci.path(device))
    }

    def harmless(incident: Incident) -> str:
        is_other = incident.rule.name == _LOST_DEVICE and incident.part.pci not in ("", *needed)
        return _OTHER if is_other else ""

    return harmless
