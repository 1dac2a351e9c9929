"""NICs of the same model as the rails that carry no jobs: no GPU is behind their PCIe switch, as with storage NICs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nodegate.errors import CannotMeasure

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nodegate.facts import NodeFacts
    from nodegate.measure.rdma.rails import Rail
    from nodegate.node import Node

_STEP = "name the rails of this node in the inventory (nodegate_nics: a list) if it carries jobs"


def without_gpu(node: Node, facts: NodeFacts, rails: Sequence[Rail]) -> Mapping[str, CannotMeasure]:
    """The rails that are taken for storage NICs, with the reason.

    Only where the inventory names none, and as many others as there are GPUs share a PCIe switch with one.
    """
    try:
        pci = facts.pci
    except CannotMeasure:
        return {}
    above = {device.address: {bridge.address for bridge in pci.path(device)} for device in pci.devices}
    gpus = [above[gpu.address] for gpu in pci.gpus]
    beside = {rail.name: any(above.get(rail.address, set()) & gpu for gpu in gpus) for rail in rails}
    near = sum(beside.values())
    if node.settings.rail_devices is not None or not gpus or near < len(gpus) or near == len(rails):
        return {}
    reason = f"left out: no GPU is behind its PCIe switch, as one is with {near} others: a storage NIC"
    return {name: CannotMeasure(reason, next_step=_STEP) for name, has_gpu in beside.items() if not has_gpu}
