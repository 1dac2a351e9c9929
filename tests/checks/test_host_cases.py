"""What the host checks say of one machine with one fault, word for word, and of the machines that only look faulty."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.cases import assert_case
from support.judging import Case

from nodegate.records.verdict import Verdict

if TYPE_CHECKING:
    from collections.abc import Callable

    from fleet.machine import Machine

PASS, WARN, FAIL, ERROR, SKIP = Verdict.PASS, Verdict.WARN, Verdict.FAIL, Verdict.ERROR, Verdict.SKIP
NOT_JUDGED = Verdict.NOT_JUDGED
KERNEL = {"kernel.version_min": "5.5"}
SHM = {"host.shm_min_gib": 64}
FILES = {"host.open_files_min": 65536}
PROCESSES = {"host.processes_min": 16384}
UNLIMITED = {"host.locked_memory_min_gib": "unlimited"}
SIZE = {"host.memory_gib": 2048, "host.memory_tolerance_percent": 5}
OFFSET = {"host.clock_offset_max_s": 0.1}
FREE = {"host.mount_free_min_percent": 5}
AVAILABLE = {"host.memory_available_min_percent": 50}


def release(text: str) -> Callable[[Machine], None]:
    return lambda machine: machine.set("system", "kernel_release", text)


def usage(path: str, **values: int) -> Callable[[Machine], None]:
    return lambda machine: machine.sections["mounts"]["usage"][path].update(values)


def usage_fails(path: str, why: str) -> Callable[[Machine], None]:
    return lambda machine: machine.sections["mounts"]["usage"].update({path: {"why": why, "detail": "statvfs, 2 s"}})


def shm_not_mounted(machine: Machine) -> None:
    machine.set("mounts", "table", "/dev/md0 / ext4 rw 0 0")


def slurmd_open_files(soft: int, hard: int) -> Callable[[Machine], None]:
    row = f"Max open files            {soft:<20} {hard:<20} files     "
    return lambda machine: machine.set("limits", "slurmd", row)


def login_limits(**limits: list[int]) -> Callable[[Machine], None]:
    def change(machine: Machine) -> None:
        machine.set("limits", "slurmd", {"why": "missing", "detail": "no slurmd"})
        machine.sections["limits"]["self"].update(limits)

    return change


def blocked(name: str, waits_in: str) -> Callable[[Machine], None]:
    return lambda machine: machine.set("system", "dstate", [{"pid": 77, "comm": name, "wchan": waits_in}])


def memory(total_kib: int, available_kib: int) -> Callable[[Machine], None]:
    text = f"MemTotal:       {total_kib} kB\nMemAvailable:   {available_kib} kB"
    return lambda machine: machine.set("system", "meminfo", text)


def chrony(old: str, new: str) -> Callable[[Machine], None]:
    return lambda machine: machine.set("clock", "chronyc", machine.sections["clock"]["chronyc"].replace(old, new))


def no_clock_daemon(machine: Machine) -> None:
    for name in ("chronyc", "adjtimex", "timedatectl"):
        machine.set("clock", name, {"why": "missing", "detail": "no such program"})


def data_read_only(machine: Machine) -> None:
    table = machine.sections["mounts"]["table"]
    machine.set("mounts", "table", table.replace("/mnt/data nfs4 rw", "/mnt/data nfs4 ro"))


CASES = (
    Case("every CPU works", "host.cpus_online", PASS),
    Case(
        "two CPUs that the kernel took out",
        "host.cpus_online",
        FAIL,
        change=lambda machine: machine.set("cpus", "online", "0-16,18-128,130-223"),
    ),
    Case(
        "healthy: SMT is off",
        "host.cpus_online",
        PASS,
        change=lambda machine: (machine.set("cpus", "online", "0-111"), machine.set("cpus", "smt", "off")),
    ),
    Case(
        "SMT off, and a core besides",
        "host.cpus_online",
        FAIL,
        change=lambda machine: (machine.set("cpus", "online", "0-110"), machine.set("cpus", "smt", "off")),
    ),
    Case(
        "more CPUs online than there are",
        "host.cpus_online",
        ERROR,
        change=lambda machine: machine.set("cpus", "present", "0"),
    ),
    Case(
        "a list of CPUs that is none",
        "host.cpus_online",
        ERROR,
        change=lambda machine: machine.set("cpus", "online", "9-3"),
    ),
    Case("no port asked for", "host.ports", SKIP),
    Case("the port is free", "host.ports", PASS, expected={"ports": 29500}),
    Case(
        "the port is taken",
        "host.ports",
        FAIL,
        change=lambda machine: machine.set("jobs", "listening_ports", [22, 29500]),
        expected={"ports": [29500]},
    ),
    Case(
        "the ports were not read",
        "host.ports",
        ERROR,
        change=lambda machine: machine.set("jobs", "listening_ports", {"why": "timeout", "detail": "/proc/net/tcp"}),
        expected={"ports": "29500"},
    ),
    Case("new enough", "host.kernel_version", PASS, limits=KERNEL),
    Case(
        "healthy: 5.15 is newer than 5.5",
        "host.kernel_version",
        PASS,
        change=release("5.15.0-119-generic"),
        limits=KERNEL,
    ),
    Case("5.4", "host.kernel_version", WARN, change=release("5.4.0-150-generic"), limits=KERNEL),
    Case("RHEL 8", "host.kernel_version", WARN, change=release("4.18.0-553.el8.x86_64"), limits=KERNEL),
    Case("no version in it", "host.kernel_version", ERROR, change=release("custom"), limits=KERNEL),
    Case("without a limit", "host.kernel_version", NOT_JUDGED, limits={"kernel.version_min": None}),
    Case("large enough", "host.shared_memory", PASS, limits=SHM),
    Case("64 MiB", "host.shared_memory", FAIL, change=usage("/dev/shm", size_bytes=64 << 20), limits=SHM),
    Case("not mounted", "host.shared_memory", FAIL, change=shm_not_mounted, limits=SHM),
    Case("it does not answer", "host.shared_memory", ERROR, change=usage_fails("/dev/shm", "timeout"), limits=SHM),
    Case("slurmd grants enough", "host.open_files", PASS, limits=FILES),
    Case(
        "slurmd grants too few, a job may raise it",
        "host.open_files",
        WARN,
        change=slurmd_open_files(1024, 524288),
        limits=FILES,
    ),
    Case("slurmd grants too few", "host.open_files", FAIL, change=slurmd_open_files(1024, 4096), limits=FILES),
    Case(
        "no slurmd: the login's limit counts",
        "host.open_files",
        FAIL,
        change=login_limits(nofile=[1024, 4096]),
        limits=FILES,
    ),
    Case(
        "slurmd's limits were not read",
        "host.open_files",
        ERROR,
        change=lambda machine: machine.set("limits", "slurmd", {"why": "denied", "detail": "/proc/812/limits"}),
        limits=FILES,
    ),
    Case("unlimited", "host.processes", PASS, limits=PROCESSES),
    Case("too few", "host.processes", FAIL, change=login_limits(nproc=[4096, 4096]), limits=PROCESSES),
    Case(
        "not read",
        "host.processes",
        ERROR,
        change=lambda machine: machine.set("limits", "slurmd", "Max open files 1 1 files"),
        limits=PROCESSES,
    ),
    Case("unlimited", "host.locked_memory", PASS, limits=UNLIMITED),
    Case("64 KiB", "host.locked_memory", FAIL, change=login_limits(memlock=[65536, 65536]), limits=UNLIMITED),
    Case(
        "a number that a site finds enough",
        "host.locked_memory",
        PASS,
        change=login_limits(memlock=[64 << 30, 64 << 30]),
        limits={"host.locked_memory_min_gib": 64},
    ),
    Case(
        "less than a site's number",
        "host.locked_memory",
        FAIL,
        change=login_limits(memlock=[8 << 30, 8 << 30]),
        limits={"host.locked_memory_min_gib": 64},
    ),
    Case(
        "not read",
        "host.locked_memory",
        ERROR,
        change=lambda machine: machine.set("limits", "slurmd", {"why": "denied", "detail": "/proc/812/limits"}),
        limits=UNLIMITED,
    ),
    Case("none", "host.blocked_processes", PASS),
    Case(
        "nvidia-smi hangs in the driver",
        "host.blocked_processes",
        FAIL,
        change=blocked("nvidia-smi", "os_acquire_rwlock_write"),
    ),
    Case("tar waits for a file server", "host.blocked_processes", WARN, change=blocked("tar", "rpc_wait_bit_killable")),
    Case(
        "not read",
        "host.blocked_processes",
        ERROR,
        change=lambda machine: machine.set("system", "dstate", {"why": "timeout", "detail": "2 s"}),
    ),
    Case("as installed, less what the kernel keeps", "host.memory_size", PASS, limits=SIZE),
    Case("a module is missing", "host.memory_size", FAIL, change=memory(1_900_000_000, 1_500_000_000), limits=SIZE),
    Case("without a limit", "host.memory_size", NOT_JUDGED, limits={"host.memory_gib": None}),
    Case(
        "not read",
        "host.memory_size",
        ERROR,
        change=lambda machine: machine.set("system", "meminfo", "nonsense"),
        limits=SIZE,
    ),
    Case("free", "host.memory_available", PASS, limits=AVAILABLE),
    Case(
        "taken by something", "host.memory_available", WARN, change=memory(2_000_000_000, 500_000_000), limits=AVAILABLE
    ),
    Case("not read", "host.memory_available", ERROR, change=memory(2_000_000_000, 10**16), limits=AVAILABLE),
    Case("steered and near", "host.clock_synchronised", PASS, limits=OFFSET),
    Case(
        "not synchronised", "host.clock_synchronised", WARN, change=chrony("Normal", "Not synchronised"), limits=OFFSET
    ),
    Case("1.5 s off", "host.clock_synchronised", WARN, change=chrony("0.000018421", "1.5"), limits=OFFSET),
    Case("no daemon answers", "host.clock_synchronised", ERROR, change=no_clock_daemon, limits=OFFSET),
    Case("asked for and there", "host.mounts", PASS, expected={"mounts": ["/mnt/data", "/scratch"]}),
    Case("asked for and not there", "host.mounts", FAIL, expected={"mounts": "/mnt/data,/mnt/checkpoints"}),
    Case("only a folder of that name", "host.mounts", FAIL, expected={"mounts": ["/tmp"]}),
    Case("read-only", "host.mounts", FAIL, change=data_read_only, expected={"mounts": ["/mnt/data"]}),
    Case(
        "healthy: read-only, as asked for",
        "host.mounts",
        PASS,
        change=data_read_only,
        expected={"mounts": ["/mnt/data:ro"]},
    ),
    Case("it hangs", "host.mounts", FAIL, change=usage_fails("/mnt/data", "hung"), expected={"mounts": ["/mnt/data"]}),
    Case(
        "its usage was not read",
        "host.mounts",
        ERROR,
        change=usage_fails("/mnt/data", "denied"),
        expected={"mounts": ["/mnt/data"]},
    ),
    Case("not asked for", "host.mounts", SKIP),
    Case("none hangs", "host.hung_mounts", PASS),
    Case("one hangs", "host.hung_mounts", FAIL, change=usage_fails("/mnt/data", "hung")),
    Case(
        "a mount that is no file system of its own hangs",
        "host.hung_mounts",
        FAIL,
        change=usage_fails("/tmp", "timeout"),
    ),
    Case(
        "late on busy processors: not hung, and not known to be sound",
        "host.hung_mounts",
        ERROR,
        change=usage_fails("/mnt/data", "busy"),
    ),
    Case(
        "the mount table was not read",
        "host.hung_mounts",
        ERROR,
        change=lambda machine: machine.section_fails("mounts", "failed", "EIO"),
    ),
    Case("enough", "host.free_space", PASS, limits=FREE),
    Case("a full /tmp", "host.free_space", WARN, change=usage("/tmp", free_bytes=1 << 30), limits=FREE),
    Case(
        "a full mount that jobs need",
        "host.free_space",
        FAIL,
        change=usage("/mnt/data", free_bytes=1 << 30),
        limits=FREE,
        expected={"mounts": ["/mnt/data"]},
    ),
    Case(
        "healthy: a full mount that nobody asked for",
        "host.free_space",
        PASS,
        change=usage("/mnt/data", free_bytes=1 << 30),
        limits=FREE,
    ),
    Case("more free than there is", "host.free_space", ERROR, change=usage("/tmp", size_bytes=1 << 20), limits=FREE),
    Case("not read", "host.free_space", ERROR, change=usage_fails("/", "denied"), limits=FREE),
)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_check_says(case: Case) -> None:
    assert_case(case)
