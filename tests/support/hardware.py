"""Small facts for tests of judgement: every reading that a test does not name is unknown."""

from __future__ import annotations

from dataclasses import fields

from nodegate.probe.gpu import Gpu, Gpus
from nodegate.probe.host import Host
from nodegate.probe.pci import AerCounters, Pci, PciDevice
from nodegate.unknown import Unknown, Why

UNREAD = Unknown(Why.MISSING, "not part of this test")
NVSWITCH = "10de:22a3"


def gpu_seen(index: int, **readings: object) -> Gpu:
    every = {field.name: UNREAD for field in fields(Gpu)}
    return Gpu(**{**every, "index": index, "lost": None, **readings})


def gpus_seen(*devices: Gpu) -> Gpus:
    return Gpus(UNREAD, UNREAD, len(devices), devices)


def host_seen(vendor: str, product: str) -> Host:
    """A machine whose DMI says so; empty: it says nothing."""
    every = {field.name: UNREAD for field in fields(Host)}
    said = {"vendor": vendor or UNREAD, "product": product or UNREAD}
    return Host(**{**every, **said})


def pci_seen(*pci_ids: str) -> Pci:
    return Pci(tuple(_device(index, pci_id) for index, pci_id in enumerate(pci_ids)))


def _device(index: int, pci_id: str) -> PciDevice:
    vendor, device = (int(part, 16) for part in pci_id.split(":"))
    return PciDevice(
        address=f"0000:{0x10 + index:02x}:00.0",
        class_code=0x068000 if pci_id == NVSWITCH else 0x030200,
        vendor=vendor,
        device=device,
        revision=UNREAD,
        width=UNREAD,
        width_max=UNREAD,
        speed_gts=UNREAD,
        speed_max_gts=UNREAD,
        numa_node=UNREAD,
        driver="nvidia",
        parent="",
        answers=UNREAD,
        acs=UNREAD,
        aer=AerCounters(UNREAD, UNREAD, UNREAD),
    )
