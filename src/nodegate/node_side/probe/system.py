"""Sections `system` and `cpus`: which machine this is, the state of its kernel, its CPUs; and what runs on it."""

import hashlib
import os
import re
import time
from typing import Dict, List, NamedTuple, Set, Sized, Tuple

from nodegate.node_side.probe import files, reading

_MODULES = re.compile(r"(nvidia.*|gdrdrv|ib_.*|mlx5_.*|rdma_.*|nv_peer_mem)\Z")
_DMI = ("sys_vendor", "product_name", "product_serial", "bios_version", "bios_date")
MOST_BLOCKED = 50
SECOND_LOOK_AFTER_S = 1.0
_CPUS = "/sys/devices/system/cpu"
# NVIDIA's own daemons, which hold GPUs all day without using them: one list for the node side and for judging. Exact
# names, as the kernel cuts them: a load such as dcgmproftester is not a daemon.
_OF_A_NAME = 15  # characters that the kernel keeps of a name
_MPS = ("nvidia-cuda-mps-control", "nvidia-cuda-mps-server")
NAMES = ("nvidia-persistenced", "nv-hostengine", "dcgm-exporter", "nv-fabricmanager", "nvidia-imex", *_MPS)
STOP_MPS = "stop MPS (echo quit | nvidia-cuda-mps-control)"


def read() -> object:
    """The data of the section."""
    machine_id = files.text("/etc/machine-id")
    if isinstance(machine_id, str):  # a hash: man machine-id asks to keep the id itself on the machine
        machine_id = hashlib.sha256(b"nodegate " + machine_id.encode()).hexdigest()[:32]
    modules = [name for name in files.entries("/sys/module") if _MODULES.match(name)]
    return {
        "hostname": files.text("/proc/sys/kernel/hostname"),
        "boot_id": files.text("/proc/sys/kernel/random/boot_id"),
        "machine_id": machine_id,
        "uptime_s": uptime_s(),
        "kernel_release": files.text("/proc/sys/kernel/osrelease"),
        "os_release": files.text("/etc/os-release"),
        "cmdline": files.text("/proc/cmdline"),
        "dmi": files.texts("/sys/class/dmi/id", _DMI),
        "cpu_model": _cpu_model(),
        # cpu0 has no `online` file
        "cpu_count": _number_of({cpu for cpu in _cpus() if files.plain(cpu + "/online", "1") == "1"}, "CPU listed"),
        "cpu_sockets": _number_of(set(_topology("physical_package_id")) - {"", "-1"}, "physical_package_id"),
        "meminfo": files.text("/proc/meminfo"),
        "modules": {name: files.plain(f"/sys/module/{name}/version") for name in modules},
        "dstate": _blocked(),
        "iommu_groups": len(files.entries("/sys/kernel/iommu_groups")),
        "pid_namespace": files.link_name("/proc/self/ns/pid"),
    }


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
    return [f"{_CPUS}/{name}" for name in files.entries(_CPUS) if re.match(r"cpu[0-9]+\Z", name)]


def _topology(name: str) -> List[str]:
    return [files.plain(f"{cpu}/topology/{name}") for cpu in _cpus()]


def _number_of(found: Sized, what: str) -> object:
    return len(found) or reading.unknown("missing", f"{_CPUS}: no {what}")


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
    asleep = [one for one in listed() if one.state == "D"]
    return [(one.pid, one.comm, files.plain(f"/proc/{one.pid}/wchan")) for one in asleep]


class Process(NamedTuple):
    """One process."""

    pid: int
    comm: str
    state: str
    parent: int


def listed() -> List[Process]:
    """All visible processes but the probe's own, in the order of their numbers."""
    every = visible()
    ours: Set[int] = set()
    new = set() if files.ROOT else {os.getppid()}  # the probe's first process is the parent of the child that runs this
    while new:
        ours |= new
        new = {one.pid for one in every if one.parent in new} - ours
    return [one for one in every if one.pid not in ours]


def above() -> Set[int]:
    """The processes that have started the probe, and those that have started them."""
    parents = {one.pid: one.parent for one in visible()}
    found: Set[int] = set()
    pid = os.getpid()
    while pid in parents and pid not in found:
        found.add(pid)
        pid = parents[pid]
    return found


def visible() -> List[Process]:
    """All visible processes, in the order of their numbers."""
    found = []
    for name in filter(str.isdigit, files.entries("/proc")):
        before, _, after = files.plain(f"/proc/{name}/stat").rpartition(")")
        fields = after.split()
        if len(fields) > 1 and fields[1].isdigit():
            found.append(Process(int(name), before.partition("(")[2], fields[0], int(fields[1])))
    return sorted(found)


def read_cpus() -> object:
    """The data of section `cpus`: the kernel's own lists ("0-111,224"), and the cores that are online.

    One core may be several CPUs.
    """
    core_ids = _topology("core_id")
    return {
        "present": files.text(_CPUS + "/present"),
        "online": files.text(_CPUS + "/online"),
        "smt": files.text(_CPUS + "/smt/control"),
        "cores": _number_of({each for each in zip(_topology("physical_package_id"), core_ids) if each[1]}, "core_id"),
        "numa_nodes": files.text("/sys/devices/system/node/online"),
    }


def is_resident(name: str) -> bool:
    """Whether a process of this name (a path and arguments may be around it) is one of the daemons."""
    return _named(name) in [each[:_OF_A_NAME] for each in NAMES]


def is_mps(name: str) -> bool:
    """Whether it belongs to MPS itself: its control daemon or a server, never one of its clients."""
    return _named(name) in [each[:_OF_A_NAME] for each in _MPS] and "mps" in name


def mps_daemons() -> "List[int]":
    """The processes of MPS on this node: with a control daemon, every CUDA program would start a server."""
    return [process.pid for process in visible() if is_mps(process.comm)]


def _named(name: str) -> str:
    return (name.split() or [""])[0].rpartition("/")[2][:_OF_A_NAME]
