"""PCIe devices that do not work: a disk may be changed while the node runs, a GPU or NIC may not."""

from collections.abc import Callable

from nodegate.kernel_log.incidents import Incident
from nodegate.probe.pci import Pci

# Of knowledge/kernel_lines.csv: what is said of a disk's slot and of devices that nobody uses, too.
_OF_ANY_DEVICE = frozenset({"pcie_link_down", "pcie_link_dead", "pcie_no_address"})
_OTHER = "no GPU, NVSwitch or NIC is below this slot: a disk that was replaced, an empty slot, or another device"


def of_other_devices(pci: Pci) -> Callable[[Incident], str]:
    """Why a slot or device that does not work is no fault of a GPU or NIC; empty where it is, or for other lines.

    A GPU or NIC that is gone from its slot for good is missing from the node, which is found by its count.
    """
    needed = {
        above.address for device in (*pci.gpus, *pci.nvswitches, *pci.nics) for above in (device, *pci.path(device))
    }

    def harmless(incident: Incident) -> str:
        is_other = incident.rule.id in _OF_ANY_DEVICE and incident.part.pci not in ("", *needed)
        return _OTHER if is_other else ""

    return harmless
