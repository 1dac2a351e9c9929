"""The host itself: its identity, its kernel, its CPUs. Sections `system` and `cpus` of the probe document."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from nodegate.probe import plausible
from nodegate.probe import readings as read
from nodegate.unknown import Known, Unknown, Why, value_or

_OF_THE_MACHINE = "pid:[4026531836]"  # the process namespace of the kernel itself: a constant of Linux since 3.8
_VIRTUAL_VENDORS = ("qemu", "amazon ec2", "vmware", "microsoft corporation", "google", "xen", "innotek", "openstack")
_VIRTUAL_PRODUCTS = ("virtual", "kvm", "compute engine", "hvm")
_pretty_name = read.first(r"^PRETTY_NAME=[\"']?([^\"'\n]*)", Unknown(Why.MISSING, "os-release has no PRETTY_NAME"))
_DMI = (
    *(("vendor", "sys_vendor"), ("product", "product_name"), ("serial", "product_serial")),
    *(("bios_version", "bios_version"), ("bios_date", "bios_date")),
)
_MEMORY = (
    *(("memory_total_bytes", "MemTotal"), ("memory_available_bytes", "MemAvailable")),
    *(("swap_total_bytes", "SwapTotal"), ("swap_free_bytes", "SwapFree")),
)
_LIST = re.compile(r"[0-9]{1,6}(?:-[0-9]{1,6})?(?:,[0-9]{1,6}(?:-[0-9]{1,6})?)*")
_MOST = 1 << 16


@dataclass(frozen=True)
class BlockedProcess:
    """A process in uninterruptible sleep (D state)."""

    pid: int
    name: str
    waits_in: str


@dataclass(frozen=True)
class Host:
    """System identity and kernel state. Sizes are bytes, `uptime_s` seconds, `clock_epoch_s` the node's own clock."""

    hostname: Known[str]
    boot_id: Known[str]
    machine_id: Known[str]  # not the id itself: a hash of it
    uptime_s: Known[float]
    clock_epoch_s: float
    kernel_release: Known[str]
    kernel_command_line: Known[str]
    os_name: Known[str]  # PRETTY_NAME of os-release
    vendor: Known[str]
    product: Known[str]
    serial: Known[str]
    bios_version: Known[str]
    bios_date: Known[str]
    cpu_model: Known[str]
    cpu_count: Known[int]
    cpu_sockets: Known[int]
    memory_total_bytes: Known[int]
    memory_available_bytes: Known[int]
    swap_total_bytes: Known[int]
    swap_free_bytes: Known[int]
    modules: Mapping[str, str]
    blocked: Known[tuple[BlockedProcess, ...]]
    iommu_groups: Known[int]
    in_container: Known[bool]

    @property
    def is_virtual(self) -> bool:
        """A virtual machine, as its DMI strings say. Bare metal of a cloud does not say so and is none."""
        vendor, product = value_or(self.vendor, "").lower(), value_or(self.product, "").lower()
        if "metal" in product:
            return False
        return vendor.startswith(_VIRTUAL_VENDORS) or any(word in product for word in _VIRTUAL_PRODUCTS)


def parse(found: Mapping[str, object], *, epoch_s: float) -> Host:
    """The data of section `system`, with the node's clock from the head of the document."""
    dmi = read.mapping(found, "dmi")
    memory = read.body(found, "meminfo")
    modules = value_or(read.mapping(found, "modules"), {})
    return read.filled(
        Host,
        found,
        uptime_s=plausible.within(read.number(found, "uptime_s"), plausible.UPTIME_S),
        clock_epoch_s=epoch_s,
        kernel_command_line=read.text(found, "cmdline"),
        os_name=read.label(read.mapped(read.body(found, "os_release"), _pretty_name)),
        **{name: read.text(dmi, key) for name, key in _DMI},
        **{name: read.mapped(memory, partial(_meminfo, key)) for name, key in _MEMORY},
        modules={name: value_or(read.text(modules, name), "") for name in modules},
        blocked=read.mapped(read.records(found, "dstate"), lambda found: tuple(map(_blocked, found))),
        in_container=read.mapped(read.text(found, "pid_namespace"), _in_container),
        iommu_groups=plausible.within(read.integer(found, "iommu_groups"), plausible.GROUPS),
    )


def _in_container(namespace: str) -> Known[bool]:
    if not namespace:
        return Unknown(Why.MISSING, "/proc/self/ns/pid: not readable")
    return namespace != _OF_THE_MACHINE


def _meminfo(name: str, written: str) -> Known[int]:
    """Bytes; the kernel writes kB and means KiB."""
    match = re.search(rf"^{name}:\s+([0-9]{{1,15}}) kB$", written, re.MULTILINE)
    return int(match[1]) * 1024 if match else Unknown(Why.MISSING, f"/proc/meminfo has no {name}")


def _blocked(process: Mapping[str, object]) -> BlockedProcess:
    name, waits_in = (value_or(read.text(process, key), "") for key in ("comm", "wchan"))
    return BlockedProcess(value_or(read.integer(process, "pid"), 0), name, waits_in)


@dataclass(frozen=True)
class Cpus:
    """The CPUs that are there and those that work, by number. `smt` is the kernel's word: on, off, notsupported."""

    present: Known[frozenset[int]]
    online: Known[frozenset[int]]
    smt: Known[str]
    cores: Known[int]  # that are online
    numa_nodes: Known[frozenset[int]]


def parse_cpus(found: Mapping[str, object]) -> Cpus:
    """The data of section `cpus`."""
    lists = {name: read.mapped(read.text(found, name), numbers_in) for name in ("present", "online", "numa_nodes")}
    return read.filled(Cpus, found, **lists)


def numbers_in(written: str) -> Known[frozenset[int]]:
    """The numbers of a list as the kernel writes it: "0-111,224"."""
    if not _LIST.fullmatch(written.strip()):
        return read.wrong("a list of numbers", written)
    found: set[int] = set()
    for each in written.strip().split(","):
        first, _, last = each.partition("-")
        if not int(first) <= int(last or first) < _MOST:
            return read.wrong("a list of numbers", written)
        found.update(range(int(first), int(last or first) + 1))
    return frozenset(found)
