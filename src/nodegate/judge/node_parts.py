"""The parts of one node, listed once from its facts, so that every finding names a part in the same way."""

from collections.abc import Iterator
from dataclasses import replace

from nodegate.facts import NodeFacts, known_or_none
from nodegate.probe.gpu import Gpus
from nodegate.probe.pci import Pci
from nodegate.records import part
from nodegate.records.part import Part, Parts
from nodegate.subjects.gpu import address_of, off_bus
from nodegate.unknown import value_or


def node_parts(facts: NodeFacts) -> Parts:
    """GPUs, NICs, NVSwitches and bridges of a node by all names that its facts give them."""
    pci = known_or_none(lambda: facts.pci)
    return Parts((*_gpus(facts, pci), *_nics(facts, pci), *_rest(pci)))


def _gpus(facts: NodeFacts, pci: Pci | None) -> Iterator[Part]:
    """By NVML, and those that only PCIe still shows; the kernel log and the driver keep serials of lost ones."""
    gpus = known_or_none(lambda: facts.gpus)
    found = dict(_by_address(gpus, pci))
    for device in pci.gpus if pci is not None else ():
        found.setdefault(device.address, part.gpu(address=device.address))
    driver, log = known_or_none(lambda: facts.driver), known_or_none(lambda: facts.kernel_log)
    listed = () if driver is None else value_or(driver.gpus, ())
    uuids = {each.address: uuid for each in listed if (uuid := value_or(each.uuid, "")) and "?" not in uuid}
    serials = {each.pci: each.serial for each in off_bus(log) if each.serial} if log is not None else {}
    for gpu in found.values():
        whole = replace(gpu, uuid=gpu.uuid or uuids.get(gpu.pci, ""), above=_above(pci, gpu.pci))
        yield replace(whole, serial=whole.serial or serials.get(whole.pci, ""))


def _by_address(gpus: Gpus | None, pci: Pci | None) -> Iterator[tuple[str, Part]]:
    for gpu in gpus.devices if gpus is not None else ():
        address = address_of(gpu, pci, gpus) if pci is not None and gpus is not None else value_or(gpu.address, "")
        found = part.gpu(gpu.index, address=address, serial=value_or(gpu.serial, ""), uuid=value_or(gpu.uuid, ""))
        yield address or f"index {gpu.index}", found


def _nics(facts: NodeFacts, pci: Pci | None) -> Iterator[Part]:
    """RDMA adapters, then network cards without RDMA."""
    rdma, netdevs = known_or_none(lambda: facts.rdma), known_or_none(lambda: facts.netdevs)
    names = {each.address: each.name for each in (netdevs or {}).values() if each.address}
    seen: set[str] = set()
    for device in rdma.devices if rdma is not None else ():
        netdev = names.get(device.address, "") or next((port.netdev for port in device.ports if port.netdev), "")
        seen.add(device.address)
        found = part.nic(device.name, address=device.address, netdev=netdev)
        yield replace(found, above=_above(pci, device.address))
    for nic in pci.nics if pci is not None else ():
        if nic.address not in seen:
            netdev = names.get(nic.address, "")
            yield replace(part.nic(address=nic.address, netdev=netdev), above=_above(pci, nic.address))


def _rest(pci: Pci | None) -> Iterator[Part]:
    for device in pci.devices if pci is not None else ():
        if device.is_nvswitch:
            yield replace(part.nvswitch(address=device.address), above=_above(pci, device.address))
        elif device.is_bridge:
            yield part.bridge(device.address)


def _above(pci: Pci | None, address: str) -> tuple[str, ...]:
    device = next((each for each in pci.devices if each.address == address), None) if pci is not None else None
    return tuple(above.address for above in pci.path(device)) if pci is not None and device is not None else ()
