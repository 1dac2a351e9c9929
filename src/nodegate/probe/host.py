"""The host itself: its identity, kernel, CPUs and clock. Sections `system`, `cpus` and `clock` of the document."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from nodegate.probe import plausible
from nodegate.probe import readings as read
from nodegate.probe.document import ProbeDocument
from nodegate.probe.driver import fields_in
from nodegate.unknown import Known, Unknown, Why, value_or

T = TypeVar("T")
_by_systemd = read.first(r"^NTPSynchronized=(yes|no)$", Unknown(Why.MISSING, "timedatectl shows no NTPSynchronized"))
_KERNEL_UNSYNCHRONIZED = 0x40  # linux/timex.h: STA_UNSYNC
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


@dataclass(frozen=True)
class Clock:
    """Clock synchronisation. `offset_s` is the offset from the time source as the node's own daemon reports it.

    `skew_s` is the node's clock minus the controller's, `skew_error_s` its uncertainty: half of the round trip's
    time beyond the probe's own time.
    """

    synchronized: Known[bool]
    offset_s: Known[float]
    skew_s: Known[float]
    skew_error_s: float


def parse_clock(found: Mapping[str, object], document: ProbeDocument) -> Clock:
    """The data of section `clock`, and the skew against the controller's clock from the times of the round trip."""
    kernel = read.mapping(found, "adjtimex")
    chrony = read.mapped(read.body(found, "chronyc"), _chrony)
    systemd = read.mapped(read.body(found, "timedatectl"), _by_systemd)
    by_kernel = read.mapped(read.integer(kernel, "status"), lambda status: not status & _KERNEL_UNSYNCHRONIZED)
    skew, error = _skew(document)
    tracked = (chrony, chrony) if isinstance(chrony, Unknown) else chrony
    return Clock(
        synchronized=_first(tracked[0], by_kernel, read.mapped(systemd, "yes".__eq__)),
        offset_s=_first(tracked[1], read.scaled(read.number(kernel, "offset_us"), 1e-6)),
        skew_s=skew,
        skew_error_s=error,
    )


def _chrony(written: str) -> Known[tuple[bool, Known[float]]]:
    """Synchronized, and the offset in seconds, of `chronyc tracking`: the daemon that controls the clock knows best."""
    lines = fields_in(written)
    leap = lines.get("Leap status")
    if leap is None:
        return read.wrong("chronyc tracking", written)
    system = re.fullmatch(r"([0-9.]{1,20}) seconds (slow|fast) of NTP time", lines.get("System time", ""))
    offset = read.real_in(system[1]) if system else Unknown(Why.MISSING, "chronyc printed no System time")
    sign = -1.0 if system and system[2] == "slow" else 1.0
    return leap != "Not synchronised", read.scaled(offset, sign)


def _first(*readings: Known[T]) -> Known[T]:
    """The first that is known; else the first reason."""
    return next((reading for reading in readings if not isinstance(reading, Unknown)), readings[0])


def _skew(document: ProbeDocument) -> tuple[Known[float], float]:
    """Node's clock minus the controller's, and its uncertainty, in seconds.

    The probe started after it was sent, and at least its own duration before the answer arrived: the middle of
    that window is the estimate, half the window is the error.
    """
    if document.received_epoch_s <= 0:
        return Unknown(Why.MISSING, "the time of the round trip was not recorded"), 0.0
    window_s = max(document.round_trip_s - max(document.duration_s, 0.0), 0.0)
    started = document.received_epoch_s - document.round_trip_s + window_s / 2
    return document.epoch_s - started, window_s / 2
