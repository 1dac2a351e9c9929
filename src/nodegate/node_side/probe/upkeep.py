"""Section `upkeep`: settings and parts of the host that are not GPUs, from /sys and /proc alone.

Nothing is changed, and no program is started.
"""

import os
import re
from typing import Dict, List

from nodegate.node_side.probe import child, files, pci, reading

_CPU = "/sys/devices/system/cpu"
_BLOCK, _NVME, _NET, _RDMA = "/sys/block", "/sys/class/nvme", "/sys/class/net", "/sys/class/infiniband"
_POOLS = "/proc/spl/kstat/zfs"
_EDAC = "/sys/devices/system/edac/mc"
_MEMORY_DEVICE = 17  # SMBIOS structure type
_MOST_OF_TABLE = 256 << 10
_ARRAY = ("level", "array_state", "degraded", "sync_action", "raid_disks")
_BOND = ("mode", "slaves", "ad_partner_mac")
_BUILT_IN = re.compile(r"^kernel/(?:drivers/(?:infiniband|gpu|nvme|net)|fs|net)/(?:.*/)?([\w-]+)\.ko", re.MULTILINE)
_EMPTY_KEY = re.compile(r"0x0+\Z")
_MOST = 256
_MOST_MODULES = 2000
# PCI Express Base Specification, 7.5.3: capability 0x10 in the list from 0x34, its Device Control word eight bytes in.
_CAPABILITIES, _PCI_EXPRESS, _CONTROL = 0x34, 0x10, 8


def read() -> object:
    """The data of the section."""
    return {
        "governors": _folded("scaling_governor"),
        "preferences": _folded("energy_performance_preference"),
        "idle": [_idle(name) for name in files.entries(_CPU + "/cpu0/cpuidle") if name.startswith("state")],
        "numa_balancing": files.text("/proc/sys/kernel/numa_balancing"),
        "huge_pages": files.text("/sys/kernel/mm/transparent_hugepage/enabled"),
        "tuned": files.text("/etc/tuned/active_profile"),
        "modules": _modules(),
        "arrays": {name: files.texts(f"{_BLOCK}/{name}/md", _ARRAY) for name in _arrays()[:_MOST]},
        "pools": {name: files.text(f"{_POOLS}/{name}/state") for name in _pools()[:_MOST]},
        "nvme": {name: _controller(f"{_NVME}/{name}") for name in files.entries(_NVME)[:_MOST]},
        "bonds": {name: _bond(name) for name in files.entries(_NET)[:_MOST] if _has(f"{_NET}/{name}/bonding")},
        "keys": _keys(),
        "pcie": {address: _control(address) for address in pci.listed()},
        "dimms": _dimms(),
        "memory_errors": _errors(),
    }


def _has(path: str) -> bool:
    return os.path.isdir(files.rooted(path))


def _folded(name: str) -> Dict[str, int]:
    """How many frequency policies have each value; none where the firmware or the host of a VM owns the clocks."""
    found: Dict[str, int] = {}
    for policy in files.entries(_CPU + "/cpufreq"):
        value = files.plain(f"{_CPU}/cpufreq/{policy}/{name}") if policy.startswith("policy") else ""
        if value:
            found[value] = found.get(value, 0) + 1
    return found


def _idle(name: str) -> Dict[str, object]:
    return files.texts(f"{_CPU}/cpu0/cpuidle/{name}", ("name", "latency", "disable"))


def _modules() -> List[str]:
    """The modules that are loaded, and those of file systems, GPUs and networks that are built in."""
    release = files.plain("/proc/sys/kernel/osrelease")
    built_in = _BUILT_IN.findall(files.plain(f"/lib/modules/{release}/modules.builtin")) if release else []
    loaded = {line.split(" ")[0] for line in files.plain("/proc/modules").splitlines()}
    return sorted(loaded | {name.replace("-", "_") for name in built_in})[:_MOST_MODULES]


def _arrays() -> List[str]:
    return [name for name in files.entries(_BLOCK) if _has(f"{_BLOCK}/{name}/md")]


def _pools() -> List[str]:
    return [name for name in files.entries(_POOLS) if _has(f"{_POOLS}/{name}")]


def _controller(folder: str) -> Dict[str, object]:
    """One NVMe controller: its state, and the sensor's own alarm; SMART pages need root and are not read."""
    found: Dict[str, object] = files.texts(folder, ("state", "model"))
    sensors = [name for name in files.entries(folder) if name.startswith("hwmon")]
    nested = [f"hwmon/{name}" for name in files.entries(folder + "/hwmon")]
    for name in [*nested, *sensors]:
        alarm = files.text(f"{folder}/{name}/temp1_alarm")
        if isinstance(alarm, str):
            found["alarm"] = alarm
    return found


def _bond(name: str) -> Dict[str, object]:
    folder = f"{_NET}/{name}"
    bond = files.texts(folder + "/bonding", _BOND)
    members = files.plain(folder + "/bonding/slaves").split()[:_MOST]
    bond["members"] = {one: files.texts(f"{_NET}/{one}/bonding_slave", ("mii_status",)) for one in members}
    return bond


def _keys() -> Dict[str, List[str]]:
    """The partition keys of each port, without the empty ones."""
    found = {}
    for device in files.entries(_RDMA)[:_MOST]:
        for port in files.entries(f"{_RDMA}/{device}/ports"):
            folder = f"{_RDMA}/{device}/ports/{port}/pkeys"
            keys = [files.plain(f"{folder}/{index}") for index in files.entries(folder)[:_MOST]]
            found[f"{device}/{port}"] = sorted({key for key in keys if key and not _EMPTY_KEY.match(key)})
    return found


def _control(address: str) -> object:
    """The Device Control word in hexadecimal; beyond the first 64 bytes configuration space needs root."""
    path = f"{pci.FOLDER}/{address}/config"
    child.note(path)
    try:
        with open(files.rooted(path), "rb", buffering=0) as file:
            return _control_of(file.fileno())
    except OSError as error:
        return files.os_failure(error, path)


def _control_of(fd: int) -> object:
    place = os.pread(fd, 1, _CAPABILITIES)
    for _ in range(48):  # the most that 192 bytes hold
        offset = place[0] & 0xFC if place else 0
        if offset < 0x40:
            break
        head = os.pread(fd, 2, offset)
        word = os.pread(fd, 2, offset + _CONTROL) if head[:1] == bytes([_PCI_EXPRESS]) else b""
        if len(word) == 2:
            return "{:04x}".format(int.from_bytes(word, "little"))
        if len(head) < 2:
            return reading.unknown("denied", "configuration space beyond 64 bytes needs root")
        place = head[1:]
    return reading.unknown("not supported", "no PCI Express capability")


def _dimms() -> object:
    """The memory modules that are plugged in, from the firmware's table (SMBIOS 7.18); it needs root."""
    path = "/sys/firmware/dmi/tables/DMI"
    child.note(path)
    try:
        with open(files.rooted(path), "rb") as file:
            table = file.read(_MOST_OF_TABLE)
    except OSError as error:
        return files.os_failure(error, path)
    found = []
    place = 0
    while place + 4 <= len(table):
        kind, length = table[place], table[place + 1]
        if length < 4:
            break
        if kind == _MEMORY_DEVICE and length >= 0x15:
            found.append(_dimm(table[place : place + length]))
        place = table.find(b"\0\0", place + length) + 2
        if place < 2:
            break
    return [one for one in found if one["mib"]][:_MOST]


def _dimm(entry: bytes) -> Dict[str, int]:
    """Size in MiB, and the transfers per second (in millions) that it is set to; 0 where it does not say."""

    def word(offset: int, size: int = 2) -> int:
        return int.from_bytes(entry[offset : offset + size], "little") if len(entry) >= offset + size else 0

    size = word(0x0C)
    if size == 0x7FFF:
        size = word(0x1C, 4)
    elif size == 0xFFFF:  # not known
        size = 0
    elif size & 0x8000:  # in KiB
        size = (size & 0x7FFF) >> 10
    return {"mib": size, "mts": word(0x20)}


def _errors() -> Dict[str, object]:
    """The error counts of each memory controller since its driver was loaded."""
    names = [name for name in files.entries(_EDAC) if re.match(r"mc[0-9]+\Z", name)]
    return {name: files.texts(f"{_EDAC}/{name}", ("ue_count", "ce_count")) for name in names[:_MOST]}
