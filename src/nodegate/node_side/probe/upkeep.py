"""Section `upkeep`: settings and parts of the host that are not GPUs, from /sys and /proc alone.

Nothing is changed, and no program is started.
"""

import os
import re
from typing import BinaryIO, Dict, List

from nodegate.node_side.probe import files

_CPU = "/sys/devices/system/cpu"
_BLOCK, _NVME, _NET, _RDMA = "/sys/block", "/sys/class/nvme", "/sys/class/net", "/sys/class/infiniband"
_POOLS = "/proc/spl/kstat/zfs"
_EDAC = "/sys/devices/system/edac/mc"
_TABLE = "/sys/firmware/dmi/tables/DMI"
_MEMORY_DEVICE = 17  # SMBIOS structure type
_MOST_OF_TABLE = 256 << 10
_IDLE, _STATE = _CPU + "/cpu0/cpuidle", ("name", "latency", "disable")
_ARRAY = ("level", "array_state", "degraded", "sync_action", "raid_disks")
_BOND = ("mode", "slaves", "ad_partner_mac")
_BUILT_IN = re.compile(r"^kernel/(?:drivers/(?:infiniband|gpu|nvme|net)|fs|net)/(?:.*/)?([\w-]+)\.ko", re.MULTILINE)
_EMPTY_KEY = re.compile(r"0x0+\Z")
_MOST = 256
_MOST_MODULES = 2000


def read() -> object:
    """The data of the section."""
    controllers = [name for name in files.entries(_EDAC) if re.match(r"mc[0-9]+\Z", name)][:_MOST]
    return {
        "governors": _folded("scaling_governor"),
        "preferences": _folded("energy_performance_preference"),
        "idle": [files.texts(f"{_IDLE}/{name}", _STATE) for name in files.entries(_IDLE) if name.startswith("state")],
        "numa_balancing": files.text("/proc/sys/kernel/numa_balancing"),
        "huge_pages": files.text("/sys/kernel/mm/transparent_hugepage/enabled"),
        "tuned": files.text("/etc/tuned/active_profile"),
        "modules": _modules(),
        "arrays": {name: files.texts(f"{_BLOCK}/{name}/md", _ARRAY) for name in _having(_BLOCK, "/md")},
        "pools": {name: files.text(f"{_POOLS}/{name}/state") for name in _having(_POOLS, "")},
        "nvme": {name: _controller(f"{_NVME}/{name}") for name in files.entries(_NVME)[:_MOST]},
        "bonds": {name: _bond(name) for name in _having(_NET, "/bonding")},
        "keys": _keys(),
        "dimms": files.opened(_TABLE, _dimms),
        "memory_errors": {name: files.texts(f"{_EDAC}/{name}", ("ue_count", "ce_count")) for name in controllers},
    }


def _having(folder: str, below: str) -> List[str]:
    return [name for name in files.entries(folder) if os.path.isdir(files.rooted(f"{folder}/{name}{below}"))][:_MOST]


def _folded(name: str) -> Dict[str, int]:
    """How many frequency policies have each value; none where the firmware or the host of a VM owns the clocks."""
    found: Dict[str, int] = {}
    for policy in files.entries(_CPU + "/cpufreq"):
        value = files.plain(f"{_CPU}/cpufreq/{policy}/{name}") if policy.startswith("policy") else ""
        if value:
            found[value] = found.get(value, 0) + 1
    return found


def _modules() -> List[str]:
    """The modules that are loaded, and those of file systems, GPUs and networks that are built in."""
    release = files.plain("/proc/sys/kernel/osrelease")
    built_in = _BUILT_IN.findall(files.plain(f"/lib/modules/{release}/modules.builtin")) if release else []
    loaded = {line.split(" ")[0] for line in files.plain("/proc/modules").splitlines()}
    return sorted(loaded | {name.replace("-", "_") for name in built_in})[:_MOST_MODULES]


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
    found = {}
    for device in files.entries(_RDMA)[:_MOST]:
        for port in files.entries(f"{_RDMA}/{device}/ports"):
            folder = f"{_RDMA}/{device}/ports/{port}/pkeys"
            keys = [files.plain(f"{folder}/{index}") for index in files.entries(folder)[:_MOST]]
            found[f"{device}/{port}"] = sorted({key for key in keys if key and not _EMPTY_KEY.match(key)})
    return found


def _dimms(firmware: BinaryIO) -> object:
    """The memory modules that are plugged in, from the firmware's table (SMBIOS 7.18); it needs root."""
    table, found = firmware.read(_MOST_OF_TABLE), []
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
