"""Section `system`: which machine this is and the state of its kernel."""

import hashlib
import re
import time
from typing import Dict, List, Tuple

from nodegate.node_side.probe import files, processes, reading

_MODULES = re.compile(r"(nvidia.*|gdrdrv|ib_.*|mlx5_.*|rdma_.*|nv_peer_mem)\Z")
_DMI = ("sys_vendor", "product_name", "product_serial", "bios_version", "bios_date")
MOST_BLOCKED = 50
SECOND_LOOK_AFTER_S = 1.0


def read() -> object:
    """The data of the section."""
    return {
        "hostname": files.text("/proc/sys/kernel/hostname"),
        "boot_id": files.text("/proc/sys/kernel/random/boot_id"),
        "machine_id": _machine_id(),
        "uptime_s": uptime_s(),
        "kernel_release": files.text("/proc/sys/kernel/osrelease"),
        "os_release": files.text("/etc/os-release"),
        "cmdline": files.text("/proc/cmdline"),
        "dmi": files.texts("/sys/class/dmi/id", _DMI),
        "cpu_model": _cpu_model(),
        "cpu_count": _cpu_count(),
        "cpu_sockets": _cpu_sockets(),
        "meminfo": files.text("/proc/meminfo"),
        "modules": _modules(),
        "dstate": _blocked(),
        "iommu_groups": len(files.entries("/sys/kernel/iommu_groups")),
        "pid_namespace": files.link_name("/proc/self/ns/pid"),
    }


def _machine_id() -> object:
    """A hash of the machine id: man machine-id asks to keep the id itself on the machine."""
    found = files.text("/etc/machine-id")
    return hashlib.sha256(b"nodegate " + found.encode()).hexdigest()[:32] if isinstance(found, str) else found


def uptime_s() -> object:
    """Seconds since boot, as a reading."""
    found = files.text("/proc/uptime")
    return float(found.split()[0]) if isinstance(found, str) else found


def _cpu_model() -> object:
    cpuinfo = files.text("/proc/cpuinfo")
    if not isinstance(cpuinfo, str):
        return cpuinfo
    match = re.search(r"^(?:model name|Model|cpu model)\s*:\s*(.*)$", cpuinfo, re.MULTILINE)
    return match.group(1) if match else reading.unknown("missing", "/proc/cpuinfo: no model name")


def _cpus() -> List[str]:
    return [name for name in files.entries("/sys/devices/system/cpu") if re.match(r"cpu[0-9]+\Z", name)]


def _cpu_count() -> object:
    """CPUs that are online (cpu0 has no `online` file)."""
    cpus = [name for name in _cpus() if files.plain(f"/sys/devices/system/cpu/{name}/online", "1") == "1"]
    return len(cpus) or reading.unknown("missing", "/sys/devices/system/cpu: no CPU listed")


def _cpu_sockets() -> object:
    packages = {files.plain(f"/sys/devices/system/cpu/{name}/topology/physical_package_id") for name in _cpus()}
    packages -= {"", "-1"}
    return len(packages) or reading.unknown("missing", "/sys/devices/system/cpu: no physical_package_id")


def _modules() -> Dict[str, str]:
    """GPU and RDMA modules and their versions; "" if a module has none."""
    names = [name for name in files.entries("/sys/module") if _MODULES.match(name)]
    return {name: files.plain(f"/sys/module/{name}/version") for name in names}


def _blocked() -> List[Dict[str, object]]:
    """Processes that stay in uninterruptible sleep, without the probe's own.

    A healthy process enters that state all the time (a page fault, a fork): only one that is still in it, at the same
    place, a second later counts.
    """
    first = _sleeping()
    if not first:
        return []
    time.sleep(SECOND_LOOK_AFTER_S)
    still = sorted(set(_sleeping()) & set(first))
    return [{"pid": pid, "comm": comm, "wchan": place} for pid, comm, place in still[:MOST_BLOCKED]]


def _sleeping() -> List[Tuple[int, str, str]]:
    """Process number, name and the kernel function in which it waits."""
    asleep = [one for one in processes.listed() if one.state == "D" and not one.is_ours]
    return [(one.pid, one.comm, files.plain(f"/proc/{one.pid}/wchan")) for one in asleep]
