"""The serial numbers of a node's parts, for the manifest of an acceptance."""

from nodegate.errors import CannotMeasure
from nodegate.facts import NodeFacts
from nodegate.unknown import Unknown


def serials(facts: NodeFacts) -> dict[str, str]:
    """Part -> serial number: the chassis, each GPU and each disk, as far as the node knows them."""
    found: dict[str, str] = {}
    try:
        chassis = facts.host.serial
        if not isinstance(chassis, Unknown) and chassis:
            found["chassis"] = chassis
    except CannotMeasure:
        pass
    for gpu in facts.known_gpus:
        if not isinstance(gpu.serial, Unknown) and gpu.serial:
            found[f"GPU {gpu.index}"] = gpu.serial
    try:
        disks = facts.disks.devices
    except CannotMeasure:
        disks = ()
    for disk in disks:
        if not isinstance(disk.serial, Unknown) and disk.serial.strip():
            found[f"disk {disk.name}"] = disk.serial.strip()
    return found
