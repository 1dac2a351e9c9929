"""What the host checks say of one machine with one fault, word for word, and of the machines that only look faulty."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.judging import Case, assert_case

from nodegate.verdict import Verdict

if TYPE_CHECKING:
    from collections.abc import Callable

    from nodegate.demo.machine import Machine

PASS, WARN, FAIL, ERROR, SKIP = Verdict.PASS, Verdict.WARN, Verdict.FAIL, Verdict.ERROR, Verdict.SKIP
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
    Case("new enough", "host.kernel_version", PASS, "kernel: version 5.15.0-119-generic", limits=KERNEL),
    Case(
        "healthy: 5.15 is newer than 5.5",
        "host.kernel_version",
        PASS,
        "kernel: version 5.15.0-119-generic",
        change=release("5.15.0-119-generic"),
        limits=KERNEL,
    ),
    Case(
        "5.4",
        "host.kernel_version",
        FAIL,
        ("kernel: version 5.4.0-150-generic, expected at least 5.5 (the site's own) - update the kernel"),
        change=release("5.4.0-150-generic"),
        limits=KERNEL,
    ),
    Case(
        "RHEL 8",
        "host.kernel_version",
        FAIL,
        ("kernel: version 4.18.0-553.el8.x86_64, expected at least 5.5 (the site's own) - update the kernel"),
        change=release("4.18.0-553.el8.x86_64"),
        limits=KERNEL,
    ),
    Case(
        "no version in it",
        "host.kernel_version",
        ERROR,
        ("kernel: version is unknown ('custom' is no version) - see the evidence file for what the node answered"),
        change=release("custom"),
        limits=KERNEL,
    ),
    Case(
        "without a limit",
        "host.kernel_version",
        SKIP,
        "not judged: no limit kernel.version_min for platform hgx-h100-8",
        limits={"kernel.version_min": None},
    ),
    Case("large enough", "host.shared_memory", PASS, "/dev/shm: size 1007 GiB", limits=SHM),
    Case(
        "64 MiB",
        "host.shared_memory",
        FAIL,
        (
            "/dev/shm: size 0.1 GiB, expected at least 64 GiB (the site's own) - mount it "
            "larger: mount -o remount,size=... /dev/shm"
        ),
        change=usage("/dev/shm", size_bytes=64 << 20),
        limits=SHM,
    ),
    Case(
        "not mounted",
        "host.shared_memory",
        FAIL,
        "/dev/shm: is not mounted - mount it larger: mount -o remount,size=... /dev/shm",
        change=shm_not_mounted,
        limits=SHM,
    ),
    Case(
        "it does not answer",
        "host.shared_memory",
        ERROR,
        ("/dev/shm: size is unknown (timeout: statvfs, 2 s) - see the evidence file for what the node answered"),
        change=usage_fails("/dev/shm", "timeout"),
        limits=SHM,
    ),
    Case(
        "slurmd grants enough",
        "host.open_files",
        PASS,
        ("slurmd: open files 131072 (hard limit 131072), expected at least 65536 (the site's own)"),
        limits=FILES,
    ),
    Case(
        "slurmd grants too few, a job may raise it",
        "host.open_files",
        WARN,
        (
            "slurmd: open files 1024 (hard limit 524288), expected at least 65536 (the site's "
            "own) - raise it in slurmd.service (Limit*=); a job can do so itself with ulimit -n"
        ),
        change=slurmd_open_files(1024, 524288),
        limits=FILES,
    ),
    Case(
        "slurmd grants too few",
        "host.open_files",
        FAIL,
        (
            "slurmd: open files 1024 (hard limit 4096), expected at least 65536 (the site's own) "
            "- raise it in slurmd.service (Limit*=)"
        ),
        change=slurmd_open_files(1024, 4096),
        limits=FILES,
    ),
    Case(
        "no slurmd: the login's limit counts",
        "host.open_files",
        FAIL,
        (
            "login: open files 1024 (hard limit 4096), expected at least 65536 (the site's own) "
            "- raise it in /etc/security/limits.d"
        ),
        change=login_limits(nofile=[1024, 4096]),
        limits=FILES,
    ),
    Case(
        "slurmd's limits were not read",
        "host.open_files",
        ERROR,
        (
            "slurmd: limit of open files is unknown (denied: /proc/812/limits) - see the "
            "evidence file for what the node answered"
        ),
        change=lambda machine: machine.set("limits", "slurmd", {"why": "denied", "detail": "/proc/812/limits"}),
        limits=FILES,
    ),
    Case(
        "unlimited",
        "host.processes",
        PASS,
        ("slurmd: processes unlimited (hard limit unlimited), expected at least 16384 (the site's own)"),
        limits=PROCESSES,
    ),
    Case(
        "too few",
        "host.processes",
        FAIL,
        (
            "login: processes 4096 (hard limit 4096), expected at least 16384 (the site's own) - "
            "raise it in /etc/security/limits.d"
        ),
        change=login_limits(nproc=[4096, 4096]),
        limits=PROCESSES,
    ),
    Case(
        "not read",
        "host.processes",
        ERROR,
        (
            "slurmd: limit of processes is unknown (missing: /proc/PID/limits has no row Max "
            "processes) - see the evidence file for what the node answered"
        ),
        change=lambda machine: machine.set("limits", "slurmd", "Max open files 1 1 files"),
        limits=PROCESSES,
    ),
    Case(
        "unlimited",
        "host.locked_memory",
        PASS,
        ("slurmd: locked memory unlimited (hard limit unlimited), expected unlimited (the site's own)"),
        limits=UNLIMITED,
    ),
    Case(
        "64 KiB",
        "host.locked_memory",
        FAIL,
        (
            "login: locked memory 0.0625 MiB (hard limit 0.0625 MiB), expected unlimited (the "
            "site's own) - raise it in /etc/security/limits.d"
        ),
        change=login_limits(memlock=[65536, 65536]),
        limits=UNLIMITED,
    ),
    Case(
        "a number that a site finds enough",
        "host.locked_memory",
        PASS,
        ("login: locked memory 64 GiB (hard limit 64 GiB), expected at least 64 GiB (the site's own)"),
        change=login_limits(memlock=[64 << 30, 64 << 30]),
        limits={"host.locked_memory_min_gib": 64},
    ),
    Case(
        "less than a site's number",
        "host.locked_memory",
        FAIL,
        (
            "login: locked memory 8 GiB (hard limit 8 GiB), expected at least 64 GiB (the site's "
            "own) - raise it in /etc/security/limits.d"
        ),
        change=login_limits(memlock=[8 << 30, 8 << 30]),
        limits={"host.locked_memory_min_gib": 64},
    ),
    Case(
        "not read",
        "host.locked_memory",
        ERROR,
        (
            "slurmd: limit of locked memory is unknown (denied: /proc/812/limits) - see the "
            "evidence file for what the node answered"
        ),
        change=lambda machine: machine.set("limits", "slurmd", {"why": "denied", "detail": "/proc/812/limits"}),
        limits=UNLIMITED,
    ),
    Case("none", "host.blocked_processes", PASS, "processes: none in uninterruptible sleep"),
    Case(
        "nvidia-smi hangs in the driver",
        "host.blocked_processes",
        FAIL,
        (
            "process 77 (nvidia-smi): in uninterruptible sleep in os_acquire_rwlock_write - "
            "reboot the node: the GPU driver hangs"
        ),
        change=blocked("nvidia-smi", "os_acquire_rwlock_write"),
    ),
    Case(
        "tar waits for a file server",
        "host.blocked_processes",
        WARN,
        ("process 77 (tar): in uninterruptible sleep in rpc_wait_bit_killable - look at the storage that it waits for"),
        change=blocked("tar", "rpc_wait_bit_killable"),
    ),
    Case(
        "not read",
        "host.blocked_processes",
        ERROR,
        (
            "processes: uninterruptible sleep is unknown (timeout: 2 s) - see the evidence file "
            "for what the node answered"
        ),
        change=lambda machine: machine.set("system", "dstate", {"why": "timeout", "detail": "2 s"}),
    ),
    Case("as installed, less what the kernel keeps", "host.memory_size", PASS, "memory: size 2015.6 GiB", limits=SIZE),
    Case(
        "a module is missing",
        "host.memory_size",
        FAIL,
        (
            "memory: size 1812 GiB, expected at least 1945.6 GiB (2048 GiB less 5 %: the site's "
            "own) - look for a failed memory module in the BMC's event log"
        ),
        change=memory(1_900_000_000, 1_500_000_000),
        limits=SIZE,
    ),
    Case(
        "without a limit",
        "host.memory_size",
        SKIP,
        "not judged: no limit host.memory_gib for platform hgx-h100-8",
        limits={"host.memory_gib": None},
    ),
    Case(
        "not read",
        "host.memory_size",
        ERROR,
        (
            "memory: size is unknown (missing: /proc/meminfo has no MemTotal) - see the evidence "
            "file for what the node answered"
        ),
        change=lambda machine: machine.set("system", "meminfo", "nonsense"),
        limits=SIZE,
    ),
    Case("free", "host.memory_available", PASS, "memory: available 98.1 %", limits=AVAILABLE),
    Case(
        "taken by something",
        "host.memory_available",
        WARN,
        (
            "memory: available 25 %, expected at least 50 % (the site's own) - look for "
            "left-over processes and for files in /dev/shm"
        ),
        change=memory(2_000_000_000, 500_000_000),
        limits=AVAILABLE,
    ),
    Case(
        "not read",
        "host.memory_available",
        ERROR,
        (
            "memory: available is unknown (missing: /proc/meminfo has no MemAvailable) - see the "
            "evidence file for what the node answered"
        ),
        change=memory(2_000_000_000, 10**16),
        limits=AVAILABLE,
    ),
    Case("steered and near", "host.clock_synchronised", PASS, "clock: synchronised yes (and 1 more)", limits=OFFSET),
    Case(
        "not synchronised",
        "host.clock_synchronised",
        WARN,
        (
            "clock: synchronised no, expected yes - start chrony or systemd-timesyncd, and see "
            "whether it reaches its servers"
        ),
        change=chrony("Normal", "Not synchronised"),
        limits=OFFSET,
    ),
    Case(
        "1.5 s off",
        "host.clock_synchronised",
        WARN,
        (
            "clock: offset 1.5 s, expected at most 0.1 s (the site's own) - see whether chrony "
            "reaches its servers (chronyc sources)"
        ),
        change=chrony("0.000018421", "1.5"),
        limits=OFFSET,
    ),
    Case(
        "no daemon answers",
        "host.clock_synchronised",
        ERROR,
        (
            "clock: synchronised is unknown (missing: no such program) - see the evidence file "
            "for what the node answered (and 1 more)"
        ),
        change=no_clock_daemon,
        limits=OFFSET,
    ),
    Case(
        "asked for and there",
        "host.mounts",
        PASS,
        "/mnt/data: mounted from 10.20.0.5:/data (nfs4) (and 1 more)",
        expected={"mounts": ["/mnt/data", "/scratch"]},
    ),
    Case(
        "asked for and not there",
        "host.mounts",
        FAIL,
        "/mnt/checkpoints: is not mounted - mount it; look at the file server and /etc/fstab",
        expected={"mounts": "/mnt/data,/mnt/checkpoints"},
    ),
    Case(
        "only a folder of that name",
        "host.mounts",
        FAIL,
        "/tmp: is not mounted - mount it; look at the file server and /etc/fstab",
        expected={"mounts": ["/tmp"]},
    ),
    Case(
        "read-only",
        "host.mounts",
        FAIL,
        ("/mnt/data: is mounted read-only - look at the kernel log for disk errors, then mount it again"),
        change=data_read_only,
        expected={"mounts": ["/mnt/data"]},
    ),
    Case(
        "healthy: read-only, as asked for",
        "host.mounts",
        PASS,
        "/mnt/data: mounted from 10.20.0.5:/data (nfs4)",
        change=data_read_only,
        expected={"mounts": ["/mnt/data:ro"]},
    ),
    Case(
        "it hangs",
        "host.mounts",
        FAIL,
        ("/mnt/data: does not answer (hung: statvfs, 2 s) - look at the file server and the way to it"),
        change=usage_fails("/mnt/data", "hung"),
        expected={"mounts": ["/mnt/data"]},
    ),
    Case(
        "its usage was not read",
        "host.mounts",
        ERROR,
        ("/mnt/data: usage is unknown (denied: statvfs, 2 s) - see the evidence file for what the node answered"),
        change=usage_fails("/mnt/data", "denied"),
        expected={"mounts": ["/mnt/data"]},
    ),
    Case("not asked for", "host.mounts", SKIP, "no mounts asked for: nodegate_mounts names them"),
    Case("none hangs", "host.hung_mounts", PASS, "mounts: 6 file systems, none hangs"),
    Case(
        "one hangs",
        "host.hung_mounts",
        FAIL,
        (
            "/mnt/data: (nfs4 from 10.20.0.5:/data) does not answer (hung: statvfs, 2 s) - look "
            "at the file server and the way to it"
        ),
        change=usage_fails("/mnt/data", "hung"),
    ),
    Case(
        "the mount table was not read",
        "host.hung_mounts",
        ERROR,
        ("gpu01: mounts could not be read: failed: EIO - see the node's facts.json for what it sent"),
        change=lambda machine: machine.section_fails("mounts", "failed", "EIO"),
    ),
    Case("enough", "host.free_space", PASS, "/: free space 90 % (and 2 more)", limits=FREE),
    Case(
        "a full /tmp",
        "host.free_space",
        WARN,
        ("/tmp: free space 0.1 %, expected at least 5 % (the site's own) - delete what is not needed"),
        change=usage("/tmp", free_bytes=1 << 30),
        limits=FREE,
    ),
    Case(
        "a full mount that jobs need",
        "host.free_space",
        FAIL,
        ("/mnt/data: free space 0 %, expected at least 5 % (the site's own) - delete what is not needed"),
        change=usage("/mnt/data", free_bytes=1 << 30),
        limits=FREE,
        expected={"mounts": ["/mnt/data"]},
    ),
    Case(
        "healthy: a full mount that nobody asked for",
        "host.free_space",
        PASS,
        "/: free space 90 % (and 2 more)",
        change=usage("/mnt/data", free_bytes=1 << 30),
        limits=FREE,
    ),
    Case(
        "not read",
        "host.free_space",
        ERROR,
        ("/: free space is unknown (denied: statvfs, 2 s) - see the evidence file for what the node answered"),
        change=usage_fails("/", "denied"),
        limits=FREE,
    ),
)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_check_says(case: Case) -> None:
    assert_case(case)
