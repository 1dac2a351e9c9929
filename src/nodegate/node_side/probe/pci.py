"""Sections `pci`, `infiniband` and `netdev`: PCI devices, RDMA adapters and network devices, from sysfs.

No root, no driver and no lspci is needed, and it works even if the NVIDIA driver hangs.
"""

import os
import re
from typing import BinaryIO, Callable, Dict, List, Set

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
# The same, 7.5.3: capability 0x10 in the list from 0x34, its Device Control word eight bytes in.
_CAPABILITIES, _PCI_EXPRESS, _CONTROL_OFFSET = 0x34, 0x10, 8
RDMA = "/sys/class/infiniband"
NET = "/sys/class/net"
_DEVICE = ("fw_ver", "hca_type", "node_guid")
_PORT = ("state", "phys_state", "rate", "link_layer", "sm_lid")
_NETDEV = ("carrier", "mtu", "carrier_changes")
_NO_GID = re.compile(r"[0:]*\Z")
MOST_GIDS = 32
_MOST_ADAPTERS = 128


def read() -> object:
    """The data of section `pci`: GPUs, NVSwitches, network controllers, and the bridges above them.

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


def read_infiniband() -> object:
    """The data of section `infiniband`."""
    return {name: _adapter(f"{RDMA}/{name}") for name in files.required_entries(RDMA)[:_MOST_ADAPTERS]}


def read_netdev() -> object:
    """The data of section `netdev`: devices with hardware, without virtual functions."""
    devices = {name: files.rooted(f"{NET}/{name}/device") for name in files.required_entries(NET)}
    exists = os.path.lexists
    names = [name for name, device in devices.items() if exists(device) and not exists(device + "/physfn")]
    folders = {name: f"{NET}/{name}" for name in names[:_MOST_ADAPTERS]}
    return {name: dict(files.texts(each, _NETDEV), pci=_pci_address(each)) for name, each in folders.items()}


def _adapter(folder: str) -> Dict[str, object]:
    adapter = files.texts(folder, _DEVICE)
    ports = [port for port in files.entries(folder + "/ports") if port.isdigit()]
    return dict(adapter, pci=_pci_address(folder), ports={port: _port(folder, port) for port in ports})


def _port(adapter: str, number: str) -> Dict[str, object]:
    folder = f"{adapter}/ports/{number}"
    port = files.texts(folder, _PORT)
    for kind in ("counters", "hw_counters"):
        port[kind] = files.texts(f"{folder}/{kind}", files.entries(f"{folder}/{kind}"))
    rows = sorted((name for name in files.entries(folder + "/gids") if name.isdigit()), key=int)
    found = {index: files.text(f"{folder}/gids/{index}") for index in rows}
    # Those that are in use; a table has hundreds of empty rows.
    used = [index for index, gid in found.items() if not (isinstance(gid, str) and _NO_GID.match(gid))]
    gids = {index: found[index] for index in used[:MOST_GIDS] if isinstance(found[index], str)}
    types = {index: files.text(f"{folder}/gid_attrs/types/{index}") for index in gids}
    return dict(port, gids=gids, gid_types=types, netdev=_netdev_name(adapter, number, list(gids)))


def _netdev_name(adapter: str, port: str, gids: List[str]) -> str:
    """The network device of a port: RoCE names it with each GID, InfiniBand by dev_port, which counts from 0."""
    for index in gids:
        name = files.plain(f"{adapter}/ports/{port}/gid_attrs/ndevs/{index}")
        if name:
            return name
    names = files.entries(adapter + "/device/net")
    for name in names:
        if files.plain(f"{adapter}/device/net/{name}/dev_port") == str(int(port) - 1):
            return name
    return names[0] if len(names) == 1 else ""


def _pci_address(folder: str) -> str:
    """The PCI function under a class device, below layers such as virtio or the auxiliary bus; or empty."""
    child.note(folder + "/device")
    parts = os.path.realpath(files.rooted(folder + "/device")).split("/")
    found = [part for part in parts if ADDRESS.match(part)]
    return found[-1] if found else ""
