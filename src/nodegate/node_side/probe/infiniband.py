"""Sections `infiniband` and `netdev`: RDMA adapters and network devices, from sysfs."""

import os
import re
from typing import Dict, List

from nodegate.node_side.probe import child, files, pci

RDMA = "/sys/class/infiniband"
NET = "/sys/class/net"
_DEVICE = ("fw_ver", "hca_type", "node_guid")
_PORT = ("state", "phys_state", "rate", "link_layer", "sm_lid")
_NETDEV = ("carrier", "mtu", "carrier_changes")
_NO_GID = re.compile(r"[0:]*\Z")
MOST_GIDS = 32
MOST_DEVICES = 128


def read_infiniband() -> object:
    """The data of section `infiniband`."""
    return {name: _adapter(f"{RDMA}/{name}") for name in files.required_entries(RDMA)[:MOST_DEVICES]}


def read_netdev() -> object:
    """The data of section `netdev`: devices with hardware, without virtual functions."""
    devices = {name: files.rooted(f"{NET}/{name}/device") for name in files.required_entries(NET)}
    exists = os.path.lexists
    names = [name for name, device in devices.items() if exists(device) and not exists(device + "/physfn")]
    folders = {name: f"{NET}/{name}" for name in names[:MOST_DEVICES]}
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
    found = [part for part in parts if pci.ADDRESS.match(part)]
    return found[-1] if found else ""
