"""Section `pci`: GPUs, NVSwitches, network controllers and the bridges above them, from sysfs.

No root, no driver and no lspci is needed, and it works even if the NVIDIA driver hangs.
"""

import os
import re
from typing import Dict, List, Set

from nodegate.node_side.probe import child, files, reading

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


def read() -> object:
    """The data of the section."""
    files.required_entries(FOLDER)
    return [_device(address) for address in listed()]


def listed() -> List[str]:
    """The addresses of the devices that matter and of the bridges above them."""
    names = files.entries(FOLDER)
    chosen = [address for address in names if ADDRESS.match(address) and _matters(address)]
    wanted = {each for address in chosen for each in (address, *above(address))}
    return sorted(wanted)[:MOST_DEVICES]


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
        "config": _config(folder),
        "acs": _acs(folder),
    }


def _config(folder: str) -> object:
    """The first 64 bytes, which need no root; all ff if the device does not respond."""
    path = folder + "/config"
    child.note(path)
    try:
        with open(files.rooted(path), "rb", buffering=0) as file:
            return (file.read(64) or b"").hex()
    except OSError as error:
        return files.os_failure(error, path)


def _acs(folder: str) -> object:
    """The ACS control word, found through the chain of extended capabilities, without reading anything else."""
    path = folder + "/config"
    child.note(path)
    try:
        with open(files.rooted(path), "rb", buffering=0) as file:
            return _acs_control(file.fileno())
    except OSError as error:
        return files.os_failure(error, path)


def _acs_control(fd: int) -> object:
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
            control = os.pread(fd, 2, offset + _ACS_CONTROL_OFFSET)
            return "{:04x}".format(int.from_bytes(control, "little"))
        offset = number >> 20
    return reading.unknown("not supported", "no ACS capability")
