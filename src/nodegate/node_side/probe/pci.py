"""Section `pci`: GPUs, NVSwitches, network controllers and the bridges above them, from sysfs.

No root, no driver and no lspci is needed, and it works even if the NVIDIA driver hangs.
"""

import os
import re
from typing import BinaryIO, Callable, Dict, List, Set

from nodegate.node_side.probe import files, reading

FOLDER = "/sys/bus/pci/devices"
NVIDIA = "0x10de"
MOST_DEVICES = 512
ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]\Z")
_TEXTS = (
    *("class", "vendor", "device", "revision", "numa_node"),
    *("current_link_speed", "current_link_width", "max_link_speed", "max_link_width"),
    *("aer_dev_correctable", "aer_dev_nonfatal", "aer_dev_fatal"),
)
# PCI Express Base Specification, 7.7.8: extended capability 0x000d, its control word six bytes in.
_ACS_CAPABILITY = 0x000D
_ACS_CONTROL_OFFSET = 6
_EXTENDED_START = 0x100
# The same, 7.5.3: capability 0x10 in the list from 0x34, its Device Control word eight bytes in.
_CAPABILITIES, _PCI_EXPRESS, _CONTROL_OFFSET = 0x34, 0x10, 8


def read() -> object:
    """The data of the section: the devices that matter and the bridges above them.

    The `control` of each is for section `upkeep`.
    """
    chosen = [address for address in files.required_entries(FOLDER) if ADDRESS.match(address) and _matters(address)]
    wanted = {each for address in chosen for each in (address, *above(address))}
    return [_device(address) for address in sorted(wanted)[:MOST_DEVICES]]


def above(address: str) -> List[str]:
    """The bridges above a device, root port first: the folders above its sysfs folder."""
    real = os.path.realpath(files.rooted(f"{FOLDER}/{address}"))
    return [part for part in real.split("/") if ADDRESS.match(part)][:-1]


def _matters(address: str) -> bool:
    folder = f"{FOLDER}/{address}"
    kind, vendor = files.plain(folder + "/class"), files.plain(folder + "/vendor")
    if kind.startswith("0x02"):
        return not os.path.lexists(files.rooted(folder + "/physfn"))  # a virtual function has no link of its own
    return vendor == NVIDIA and (kind.startswith(("0x03", "0x0680")))


def _device(address: str) -> Dict[str, object]:
    folder = f"{FOLDER}/{address}"
    bridges = above(address)
    return {
        "address": address,
        **files.texts(folder, _TEXTS),
        "driver": files.link_name(folder + "/driver"),
        "parent": bridges[-1] if bridges else "",
        **{name: files.opened(folder + "/config", look) for name, look in _CONFIG.items()},
    }


def _head(config: BinaryIO) -> object:
    """The first 64 bytes, which need no root; all ff if the device does not respond."""
    return os.pread(config.fileno(), 64, 0).hex()


def _acs(config: BinaryIO) -> object:
    """The ACS control word, found through the chain of extended capabilities, without reading anything else."""
    fd = config.fileno()
    offset = _EXTENDED_START
    seen: Set[int] = set()
    while offset >= _EXTENDED_START and offset not in seen:
        seen.add(offset)
        header = os.pread(fd, 4, offset)
        if len(header) < 4:
            why = "not supported" if os.geteuid() == 0 else "denied"
            return reading.unknown(why, "extended configuration space cannot be read")
        number = int.from_bytes(header, "little")
        if number in (0, 0xFFFFFFFF):
            break
        if number & 0xFFFF == _ACS_CAPABILITY:
            return "{:04x}".format(int.from_bytes(os.pread(fd, 2, offset + _ACS_CONTROL_OFFSET), "little"))
        offset = number >> 20
    return reading.unknown("not supported", "no ACS capability")


def _control(config: BinaryIO) -> object:
    """The Device Control word in hexadecimal; beyond the first 64 bytes configuration space needs root."""
    fd = config.fileno()
    place = os.pread(fd, 1, _CAPABILITIES)
    for _ in range(48):  # the most that 192 bytes hold
        offset = place[0] & 0xFC if place else 0
        if offset < 0x40:
            break
        head = os.pread(fd, 2, offset)
        word = os.pread(fd, 2, offset + _CONTROL_OFFSET) if head[:1] == bytes([_PCI_EXPRESS]) else b""
        if len(word) == 2:
            return "{:04x}".format(int.from_bytes(word, "little"))
        if len(head) < 2:
            return reading.unknown("denied", "configuration space beyond 64 bytes needs root")
        place = head[1:]
    return reading.unknown("not supported", "no PCI Express capability")


_CONFIG: Dict[str, Callable[[BinaryIO], object]] = {"config": _head, "acs": _acs, "control": _control}
