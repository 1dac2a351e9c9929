"""What the host checks say of one machine with one fault, word for word, and of the machines that only look faulty."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.judging import Case, assert_case

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
    Case("every CPU works", "host.cpus_online", PASS, "CPU: CPUs online 224"),
    Case(
        "two CPUs that the kernel took out",
        "host.cpus_online",
        FAIL,
        "CPU: 2 of 224 CPUs offline: 17, 129 - read the kernel log for machine checks; "
        "chcpu -e re-enables CPUs that were taken offline by hand",
        change=lambda machine: machine.set("cpus", "online", "0-16,18-128,130-223"),
    ),
    Case(
        "healthy: SMT is off",
        "host.cpus_online",
        PASS,
        "CPU: 112 CPUs online, one of each core: SMT is off",
        change=lambda machine: (machine.set("cpus", "online", "0-111"), machine.set("cpus", "smt", "off")),
    ),
    Case(
        "SMT off, and a core besides",
        "host.cpus_online",
        FAIL,
        "CPU: 113 of 224 CPUs offline: 111, 112, 113, 114, 115, 116, 117, 118 and 105 more - read the kernel log for "
        "machine checks; chcpu -e re-enables CPUs that were taken offline by hand",
        change=lambda machine: (machine.set("cpus", "online", "0-110"), machine.set("cpus", "smt", "off")),
    ),
    Case(
        "more CPUs online than there are",
        "host.cpus_online",
        ERROR,
        "node: 1 CPUs present and 224 online: one of the two readings is wrong - compare /sys/devices/system/cpu/"
        "present and online on the node",
        change=lambda machine: machine.set("cpus", "present", "0"),
    ),
    Case(
        "a list of CPUs that is none",
        "host.cpus_online",
        ERROR,
        "CPU: could not read CPUs online: failed: expected a list of numbers, the node sent 9-3 - see the evidence "
        "file for what the node answered",
        change=lambda machine: machine.set("cpus", "online", "9-3"),
    ),
    Case(
        "no port asked for",
        "host.ports",
        SKIP,
        "node: the inventory asks for none: nodegate_ports names them, 29500 for example",
    ),
    Case("the port is free", "host.ports", PASS, "port 29500: free", expected={"ports": 29500}),
    Case(
        "the port is taken",
        "host.ports",
        FAIL,
        "port 29500: another program listens on it - ss -ltnp 'sport = :29500' "
        "shows the owner; stop what an earlier job left running",
        change=lambda machine: machine.set("jobs", "listening_ports", [22, 29500]),
        expected={"ports": [29500]},
    ),
    Case(
        "the ports were not read",
        "host.ports",
        ERROR,
        "port 29500: could not read port: timeout: /proc/net/tcp - see the evidence file for what the node answered",
        change=lambda machine: machine.set("jobs", "listening_ports", {"why": "timeout", "detail": "/proc/net/tcp"}),
        expected={"ports": "29500"},
    ),
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
        WARN,
        ("kernel: version 5.4.0-150-generic, expected at least 5.5 (the site's own) - update the kernel"),
        change=release("5.4.0-150-generic"),
        limits=KERNEL,
    ),
    Case(
        "RHEL 8",
        "host.kernel_version",
        WARN,
        ("kernel: version 4.18.0-553.el8.x86_64, expected at least 5.5 (the site's own) - update the kernel"),
        change=release("4.18.0-553.el8.x86_64"),
        limits=KERNEL,
    ),
    Case(
        "no version in it",
        "host.kernel_version",
        ERROR,
        (
            "kernel: could not read version: 'custom' is not a version - see the evidence file for "
            "what the node answered"
        ),
        change=release("custom"),
        limits=KERNEL,
    ),
    Case(
        "without a limit",
        "host.kernel_version",
        NOT_JUDGED,
        "node: no limit kernel.version_min for platform hgx-h100-8",
        limits={"kernel.version_min": None},
    ),
    Case("large enough", "host.shared_memory", PASS, "/dev/shm: size 1007 GiB", limits=SHM),
    Case(
        "64 MiB",
        "host.shared_memory",
        FAIL,
        (
            "/dev/shm: size 0.1 GiB, expected at least 64 GiB (the site's own) - "
            "increase its size: mount -o remount,size=... /dev/shm"
        ),
        change=usage("/dev/shm", size_bytes=64 << 20),
        limits=SHM,
    ),
    Case(
        "not mounted",
        "host.shared_memory",
        FAIL,
        "/dev/shm: not mounted - increase its size: mount -o remount,size=... /dev/shm",
        change=shm_not_mounted,
        limits=SHM,
    ),
    Case(
        "it does not answer",
        "host.shared_memory",
        ERROR,
        ("/dev/shm: could not read size: timeout: statvfs, 2 s - see the evidence file for what the node answered"),
        change=usage_fails("/dev/shm", "timeout"),
        limits=SHM,
    ),
    Case(
        "slurmd grants enough",
        "host.open_files",
        PASS,
        "slurmd: open files 131072; hard limit 131072",
        limits=FILES,
    ),
    Case(
        "slurmd grants too few, a job may raise it",
        "host.open_files",
        WARN,
        (
            "slurmd: open files 1024, expected at least 65536 (the site's own); hard limit 524288 - "
            "raise it in slurmd.service (Limit*=); a job can do so itself with ulimit -n"
        ),
        change=slurmd_open_files(1024, 524288),
        limits=FILES,
    ),
    Case(
        "slurmd grants too few",
        "host.open_files",
        FAIL,
        (
            "slurmd: open files 1024, expected at least 65536 (the site's own); hard limit 4096 - "
            "raise it in slurmd.service (Limit*=)"
        ),
        change=slurmd_open_files(1024, 4096),
        limits=FILES,
    ),
    Case(
        "no slurmd: the login's limit counts",
        "host.open_files",
        FAIL,
        (
            "login: open files 1024, expected at least 65536 (the site's own); hard limit 4096 - "
            "raise it in /etc/security/limits.d"
        ),
        change=login_limits(nofile=[1024, 4096]),
        limits=FILES,
    ),
    Case(
        "slurmd's limits were not read",
        "host.open_files",
        ERROR,
        (
            "slurmd: could not read limit on open files: denied: /proc/812/limits - see the evidence "
            "file for what the node answered"
        ),
        change=lambda machine: machine.set("limits", "slurmd", {"why": "denied", "detail": "/proc/812/limits"}),
        limits=FILES,
    ),
    Case(
        "unlimited",
        "host.processes",
        PASS,
        "slurmd: processes unlimited; hard limit unlimited",
        limits=PROCESSES,
    ),
    Case(
        "too few",
        "host.processes",
        FAIL,
        (
            "login: processes 4096, expected at least 16384 (the site's own); hard limit 4096 - "
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
            "slurmd: could not read limit on processes: missing: /proc/PID/limits has no row Max "
            "processes - see the evidence file for what the node answered"
        ),
        change=lambda machine: machine.set("limits", "slurmd", "Max open files 1 1 files"),
        limits=PROCESSES,
    ),
    Case(
        "unlimited",
        "host.locked_memory",
        PASS,
        "slurmd: locked memory unlimited; hard limit unlimited",
        limits=UNLIMITED,
    ),
    Case(
        "64 KiB",
        "host.locked_memory",
        FAIL,
        (
            "login: locked memory 64 KiB, expected unlimited (the site's own); hard limit 64 KiB - "
            "raise it in /etc/security/limits.d"
        ),
        change=login_limits(memlock=[65536, 65536]),
        limits=UNLIMITED,
    ),
    Case(
        "a number that a site finds enough",
        "host.locked_memory",
        PASS,
        "login: locked memory 64 GiB; hard limit 64 GiB",
        change=login_limits(memlock=[64 << 30, 64 << 30]),
        limits={"host.locked_memory_min_gib": 64},
    ),
    Case(
        "less than a site's number",
        "host.locked_memory",
        FAIL,
        (
            "login: locked memory 8 GiB, expected at least 64 GiB (the site's own); hard limit 8 GiB "
            "- raise it in /etc/security/limits.d"
        ),
        change=login_limits(memlock=[8 << 30, 8 << 30]),
        limits={"host.locked_memory_min_gib": 64},
    ),
    Case(
        "not read",
        "host.locked_memory",
        ERROR,
        (
            "slurmd: could not read limit on locked memory: denied: /proc/812/limits - see the "
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
            "process 77 (nvidia-smi): in uninterruptible sleep in os_acquire_rwlock_write - reboot "
            "the node: the GPU driver is hung"
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
        ("processes: could not read process states: timeout: 2 s - see the evidence file for what the node answered"),
        change=lambda machine: machine.set("system", "dstate", {"why": "timeout", "detail": "2 s"}),
    ),
    Case("as installed, less what the kernel keeps", "host.memory_size", PASS, "memory: size 2016 GiB", limits=SIZE),
    Case(
        "a module is missing",
        "host.memory_size",
        FAIL,
        (
            "memory: size 1812 GiB, expected at least 1946 GiB (2048 GiB minus 5 %; the site's own) "
            "- look for a failed memory module in the BMC's event log"
        ),
        change=memory(1_900_000_000, 1_500_000_000),
        limits=SIZE,
    ),
    Case(
        "without a limit",
        "host.memory_size",
        NOT_JUDGED,
        "node: no limit host.memory_gib for platform hgx-h100-8",
        limits={"host.memory_gib": None},
    ),
    Case(
        "not read",
        "host.memory_size",
        ERROR,
        (
            "memory: could not read size: missing: /proc/meminfo has no MemTotal - see the evidence "
            "file for what the node answered"
        ),
        change=lambda machine: machine.set("system", "meminfo", "nonsense"),
        limits=SIZE,
    ),
    Case("free", "host.memory_available", PASS, "memory: available share 98.1 %", limits=AVAILABLE),
    Case(
        "taken by something",
        "host.memory_available",
        WARN,
        (
            "memory: available share 25 %, expected at least 50 % (the site's own) - "
            "look for leftover processes and files in /dev/shm"
        ),
        change=memory(2_000_000_000, 500_000_000),
        limits=AVAILABLE,
    ),
    Case(
        "not read",
        "host.memory_available",
        ERROR,
        (
            "memory: could not read available share: missing: /proc/meminfo has no MemAvailable - "
            "see the evidence file for what the node answered"
        ),
        change=memory(2_000_000_000, 10**16),
        limits=AVAILABLE,
    ),
    Case("steered and near", "host.clock_synchronised", PASS, "clock: synchronised", limits=OFFSET),
    Case(
        "not synchronised",
        "host.clock_synchronised",
        WARN,
        (
            "clock: not synchronised with a time source - start chrony or systemd-timesyncd, and "
            "check that it reaches its servers"
        ),
        change=chrony("Normal", "Not synchronised"),
        limits=OFFSET,
    ),
    Case(
        "1.5 s off",
        "host.clock_synchronised",
        WARN,
        (
            "clock: offset 1.5 s, expected at most 0.1 s (the site's own) - check that chrony "
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
            "clock: could not read synchronisation: missing: no such program - see the evidence file "
            "for what the node answered (and 1 more)"
        ),
        change=no_clock_daemon,
        limits=OFFSET,
    ),
    Case(
        "asked for and there",
        "host.mounts",
        PASS,
        "/mnt/data: mounted from 10.20.0.5:/data (nfs4)",
        expected={"mounts": ["/mnt/data", "/scratch"]},
    ),
    Case(
        "asked for and not there",
        "host.mounts",
        FAIL,
        "/mnt/checkpoints: not mounted - mount it; look at the file server and /etc/fstab",
        expected={"mounts": "/mnt/data,/mnt/checkpoints"},
    ),
    Case(
        "only a folder of that name",
        "host.mounts",
        FAIL,
        "/tmp: not mounted - mount it; look at the file server and /etc/fstab",
        expected={"mounts": ["/tmp"]},
    ),
    Case(
        "read-only",
        "host.mounts",
        FAIL,
        "/mnt/data: read-only - look at the kernel log for disk errors, then mount it again",
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
        "/mnt/data: hung; statvfs, 2 s - look at the file server and the network path to it",
        change=usage_fails("/mnt/data", "hung"),
        expected={"mounts": ["/mnt/data"]},
    ),
    Case(
        "its usage was not read",
        "host.mounts",
        ERROR,
        ("/mnt/data: could not read usage: denied: statvfs, 2 s - see the evidence file for what the node answered"),
        change=usage_fails("/mnt/data", "denied"),
        expected={"mounts": ["/mnt/data"]},
    ),
    Case("not asked for", "host.mounts", SKIP, "node: no mounts requested: nodegate_mounts names them"),
    Case("none hangs", "host.hung_mounts", PASS, "mounts: 6 file systems, none is hung"),
    Case(
        "one hangs",
        "host.hung_mounts",
        FAIL,
        (
            "/mnt/data: hung; statvfs, 2 s; nfs4 from 10.20.0.5:/data - look at the file server and "
            "the network path to it"
        ),
        change=usage_fails("/mnt/data", "hung"),
    ),
    Case(
        "a mount that is no file system of its own hangs",
        "host.hung_mounts",
        FAIL,
        "/tmp: hung; statvfs, 2 s - look at the file server and the network path to it",
        change=usage_fails("/tmp", "timeout"),
    ),
    Case(
        "late on busy processors: not hung, and not known to be sound",
        "host.hung_mounts",
        ERROR,
        (
            "/mnt/data: could not read usage: busy: statvfs, 2 s - the node's processors are busy: look at what runs "
            "on it (top), then run again"
        ),
        change=usage_fails("/mnt/data", "busy"),
    ),
    Case(
        "the mount table was not read",
        "host.hung_mounts",
        ERROR,
        "node: mounts could not be read: failed: EIO - read what it sent in the node's facts.json",
        change=lambda machine: machine.section_fails("mounts", "failed", "EIO"),
    ),
    Case("enough", "host.free_space", PASS, "3 alike: /, /tmp, /var/log: free space 90 %", limits=FREE),
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
        "3 alike: /, /tmp, /var/log: free space 90 %",
        change=usage("/mnt/data", free_bytes=1 << 30),
        limits=FREE,
    ),
    Case(
        "more free than there is",
        "host.free_space",
        ERROR,
        "/tmp: could not read free space: implausible: 1739461754880 of 1048576 - see the evidence file for what the "
        "node answered",
        change=usage("/tmp", size_bytes=1 << 20),
        limits=FREE,
    ),
    Case(
        "not read",
        "host.free_space",
        ERROR,
        ("/: could not read free space: denied: statvfs, 2 s - see the evidence file for what the node answered"),
        change=usage_fails("/", "denied"),
        limits=FREE,
    ),
)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_check_says(case: Case) -> None:
    assert_case(case)
