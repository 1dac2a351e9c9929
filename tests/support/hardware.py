"""Small facts for tests of judgement: every reading that a test does not name is unknown."""

from dataclasses import fields

from nodegate.probe.gpu import Gpu, Gpus
from nodegate.probe.host import Host
from nodegate.probe.pci import AerCounters, Pci, PciDevice
from nodegate.unknown import Unknown, Why

UNREAD = Unknown(Why.MISSING, "not part of this test")
NVSWITCH = "10de:22a3"


def gpu_seen(index, **readings):
    return Gpu(**{**_unread(Gpu), "index": index, "lost": None, **readings})


def gpus_seen(*devices):
    return Gpus(UNREAD, UNREAD, len(devices), devices)


def host_seen(vendor, product):
    """A machine whose DMI says so; empty: it says nothing."""
    return Host(**{**_unread(Host), "vendor": vendor or UNREAD, "product": product or UNREAD})


def pci_seen(*pci_ids):
    return Pci(tuple(_device(index, pci_id) for index, pci_id in enumerate(pci_ids)))


def _device(index, pci_id):
    vendor, device = (int(part, 16) for part in pci_id.split(":"))
    seen = {"address": f"0000:{0x10 + index:02x}:00.0", "vendor": vendor, "device": device, "driver": "nvidia"}
    seen |= {"class_code": 0x068000 if pci_id == NVSWITCH else 0x030200, "parent": ""}
    return PciDevice(**{**_unread(PciDevice), "aer": AerCounters(UNREAD, UNREAD, UNREAD), **seen})


def _unread(facts):
    return {field.name: UNREAD for field in fields(facts)}
