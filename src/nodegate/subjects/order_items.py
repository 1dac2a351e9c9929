"""What a site can demand of a node (`nodegate_expect`): each item with where its readings come from."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum

from nodegate.facts import NodeFacts
from nodegate.probe.gpu import Gpu
from nodegate.probe.host import Host
from nodegate.probe.mounts import Disk
from nodegate.probe.readings import mapped
from nodegate.records import part
from nodegate.records.part import Part
from nodegate.subjects import upkeep
from nodegate.subjects.gpu import on_off
from nodegate.subjects.host import installed_gib
from nodegate.subjects.pcie import rdma_nics
from nodegate.unknown import Known, Unknown

Readings = list[tuple[Part, Known[int | float | str]]]
FIRMWARE = "nic_firmware"
_MODULE = re.compile(r"[A-Za-z0-9_-]{1,64}")
OF_MODEL = "."  # nic_firmware.MT4129: the firmware of adapters of this model alone


class Sort(str, Enum):
    """How values of an item are compared; a text has no order, so no range."""

    TEXT = "text"
    VERSION = "version"  # decimal numbers between dots
    HEX = "hexadecimal version"  # a VBIOS: 96.00.9F.00.01
    NUMBER = "number"
    SWITCH = "on or off"


class About(str, Enum):
    """Which check judges an item."""

    VERSIONS = "versions"
    PARTS = "parts"
    SETTINGS = "settings"
    SERIALS = "serials"


@dataclass(frozen=True)
class Item:
    """One item: its key in `nodegate_expect`, its name in words, and how it is read from the facts."""

    key: str
    quantity: str
    about: About
    sort: Sort
    read: Callable[[NodeFacts], Readings]
    unit: str = ""


def items() -> Mapping[str, Item]:
    """Every item by its key."""
    return _ITEMS


def of_key(key: str) -> Item | None:
    """The item of a key, `nic_firmware.MODEL` and `module.NAME` too; None where there is none."""
    name, dot, model = key.partition(OF_MODEL)
    if name == FIRMWARE and dot and model:
        return Item(key, f"firmware ({model})", About.VERSIONS, Sort.VERSION, lambda facts: _nic_firmware(facts, model))
    if key.startswith(upkeep.MODULE) and _MODULE.fullmatch(key, len(upkeep.MODULE)):
        return Item(key, "loaded", About.SETTINGS, Sort.SWITCH, upkeep.module(key[len(upkeep.MODULE) :]))
    return _ITEMS.get(key)


def _gpus(read: Callable[[Gpu], Known[int] | Known[float] | Known[str]]) -> Callable[[NodeFacts], Readings]:
    return lambda facts: [(gpu.part, read(gpu)) for gpu in facts.gpus.devices]


def _host(whose: Part, read: Callable[[Host], Known[int] | Known[str]]) -> Callable[[NodeFacts], Readings]:
    return lambda facts: [(whose, read(facts.host))]


def _disks(read: Callable[[Disk], Known[int] | Known[str]]) -> Callable[[NodeFacts], Readings]:
    return lambda facts: [(part.Part(part.Kind.DISK, f"disk {disk.name}"), read(disk)) for disk in facts.disks.devices]


def _gigabytes(disk: Disk) -> Known[int]:
    return mapped(disk.size_bytes, lambda size: round(size / 1e9))


def _memory_mib(gpu: Gpu) -> Known[int]:
    return mapped(gpu.memory_total_bytes, lambda size: size >> 20)


def _installed(host: Host) -> Known[int]:
    return installed_gib(host.memory_total_bytes)


def _of(
    whose: Part, read: Callable[[NodeFacts], Known[int] | Known[float] | Known[str]]
) -> Callable[[NodeFacts], Readings]:
    return lambda facts: [(whose, read(facts))]


def _kernel_module(facts: NodeFacts) -> Known[str]:
    return mapped(facts.driver.open_kernel_module, lambda is_open: "open" if is_open else "proprietary")


def _nic_firmware(facts: NodeFacts, model: str = "") -> Readings:
    chosen = [device for device in facts.rdma.devices if not model or device.hca_type == model]
    return [(part.nic(device.name, address=device.address), device.firmware) for device in chosen]


def _nic_models(facts: NodeFacts) -> Readings:
    return [(part.nic(device.name, address=device.address), device.hca_type) for device in facts.rdma.devices]


def _nccl(facts: NodeFacts) -> Readings:
    found = facts.software.nccl
    if isinstance(found, Unknown):
        return [(part.software("NCCL"), found)]
    return [(part.software(f"NCCL {library.path}"), library.version) for library in found]


def _cuda(facts: NodeFacts) -> Readings:
    found = facts.software.cuda
    if isinstance(found, Unknown):
        return [(part.software("CUDA toolkit"), found)]
    return [(part.software(f"CUDA toolkit {folder}"), version) for folder, version in sorted(found.items())]


_DRIVER, _KERNEL, _BIOS = part.software("driver"), part.software("kernel"), part.setting("BIOS")
_IDLE = upkeep.setting("CPU idle states", lambda of: of.idle_latency_us)
_BALANCING = upkeep.setting("NUMA balancing", lambda of: on_off(of.numa_balancing))
_CPU, _MANAGER = part.Part(part.Kind.CPU, "CPU"), part.service("nvidia-fabricmanager")
_V, _P, _S = About.VERSIONS, About.PARTS, About.SETTINGS
_TEXT, _VERSION, _NUMBER, _SWITCH = Sort.TEXT, Sort.VERSION, Sort.NUMBER, Sort.SWITCH
_ITEMS: Mapping[str, Item] = {
    item.key: item
    for item in (
        Item("driver", "version", _V, _VERSION, _of(_DRIVER, lambda of: of.gpus.driver_version)),
        Item("cuda_driver", "CUDA", _V, _VERSION, _of(_DRIVER, lambda of: of.gpus.cuda_driver_version)),
        Item("kernel_module", "kernel module", _V, _TEXT, _of(_DRIVER, _kernel_module)),
        Item("vbios", "VBIOS", _V, Sort.HEX, _gpus(lambda gpu: gpu.vbios)),
        Item("inforom", "InfoROM", _V, _TEXT, _gpus(lambda gpu: gpu.inforom_image)),
        Item("gsp_firmware", "GSP firmware", _V, _VERSION, _gpus(lambda gpu: gpu.gsp_firmware)),
        Item("fabric_manager", "version", _V, _VERSION, _of(_MANAGER, lambda of: of.services.fabric_manager_version)),
        Item(FIRMWARE, "firmware", _V, _VERSION, _nic_firmware),
        Item("bios", "version", _V, _VERSION, _host(_BIOS, lambda host: host.bios_version)),
        Item("bios_date", "date", _V, _TEXT, _host(_BIOS, lambda host: host.bios_date)),
        Item("kernel", "version", _V, _VERSION, _host(_KERNEL, lambda host: host.kernel_release)),
        Item("os", "operating system", _V, _TEXT, _host(part.NODE, lambda host: host.os_name)),
        Item("nccl", "version", _V, _VERSION, _nccl),
        Item("cuda", "version", _V, _VERSION, _cuda),
        Item("ofed", "version", _V, _TEXT, _of(part.software("OFED"), lambda of: of.software.ofed)),
        Item("server_model", "server model", _P, _TEXT, _host(part.NODE, lambda host: host.product)),
        Item("cpu_model", "model", _P, _TEXT, _host(_CPU, lambda host: host.cpu_model)),
        Item("sockets", "sockets", _P, _NUMBER, _host(_CPU, lambda host: host.cpu_sockets)),
        Item("cores", "cores online", _P, _NUMBER, _of(_CPU, lambda of: of.cpus.cores)),
        Item("numa_nodes", "NUMA nodes", _P, _NUMBER, _of(_CPU, lambda of: mapped(of.cpus.numa_nodes, len))),
        Item("cpus", "CPUs online", _P, _NUMBER, _host(_CPU, lambda host: host.cpu_count)),
        Item("memory_gib", "installed", _P, _NUMBER, _host(part.MEMORY, _installed), "GiB"),
        Item("gpus", "GPUs on PCIe", _P, _NUMBER, _of(part.NODE, lambda of: len(of.pci.gpus))),
        Item("gpu_model", "model", _P, _TEXT, _gpus(lambda gpu: gpu.name)),
        Item("gpu_part_number", "part number", _P, _TEXT, _gpus(lambda gpu: gpu.part_number)),
        Item("gpu_memory_mib", "memory", _P, _NUMBER, _gpus(_memory_mib), "MiB"),
        Item("nvswitches", "NVSwitches on PCIe", _P, _NUMBER, _of(part.NODE, lambda of: len(of.pci.nvswitches))),
        Item("nics", "RDMA NICs on PCIe", _P, _NUMBER, _of(part.NODE, lambda of: len(rdma_nics(of.pci)))),
        Item("nic_model", "model", _P, _TEXT, _nic_models),
        Item("disks", "disks", _P, _NUMBER, _of(part.NODE, lambda of: len(of.disks.devices))),
        Item("disk_model", "model", _P, _TEXT, _disks(lambda disk: disk.model)),
        Item("disk_gb", "size", _P, _NUMBER, _disks(_gigabytes), "GB"),
        Item("ecc", "ECC", _S, _SWITCH, _gpus(lambda gpu: on_off(gpu.ecc_enabled))),
        Item("persistence", "persistence mode", _S, _SWITCH, _gpus(lambda gpu: on_off(gpu.persistence))),
        Item("mig", "MIG", _S, _SWITCH, _gpus(lambda gpu: on_off(gpu.mig_enabled))),
        Item("power_limit_w", "power limit", _S, _NUMBER, _gpus(lambda gpu: gpu.power_limit_w), "W"),
        Item("governor", "governor", _S, _TEXT, upkeep.setting("CPU clocks", lambda of: of.governor)),
        Item("energy_preference", "preference", _S, _TEXT, upkeep.setting("CPU clocks", lambda of: of.preference)),
        Item("idle_latency_us", "latency of the deepest idle state", _S, _NUMBER, _IDLE, "us"),
        Item("numa_balancing", "state", _S, _SWITCH, _BALANCING),
        Item("huge_pages", "choice", _S, _TEXT, upkeep.setting("transparent huge pages", lambda of: of.huge_pages)),
        Item("tuned", "profile", _S, _TEXT, upkeep.setting("tuned", lambda of: of.tuned)),
        Item("mtu", "MTU", _S, _NUMBER, upkeep.mtu, "bytes"),
        Item("gid_index", "place of the RoCE v2 GID", _S, _NUMBER, upkeep.gid_indices),
        Item("max_read_request", "MaxReadReq", _S, _NUMBER, upkeep.max_read_request, "bytes"),
        Item("bond_members", "members up", _S, _NUMBER, upkeep.bond_members),
        Item("dimms", "memory modules", _P, _NUMBER, _of(part.MEMORY, lambda of: mapped(of.upkeep.dimms, len))),
        Item("dimm_mts", "speed of the modules", _P, _NUMBER, upkeep.dimm_speeds, "MT/s"),
        Item("chassis_serial", "serial number", About.SERIALS, _TEXT, _host(part.NODE, lambda host: host.serial)),
        Item("gpu_serial", "serial number", About.SERIALS, _TEXT, _gpus(lambda gpu: gpu.serial)),
    )
}
