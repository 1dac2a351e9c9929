"""Faults of a guest that stands in for a GPU node, set and taken back: each is a context manager over a guest.

What they yield are variables that the guest then has in the inventory. What a kernel has said it keeps in its log:
faults of the log are not taken back (`stays`), so each guest gets them last.
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable
from contextlib import AbstractContextManager

from lab.guests.cables import flap, pull, put_back
from lab.guests.gpu_node import GPUS, NVSWITCH, RAILS
from lab.guests.guest import Guest
from lab.taken_back import Broken, taken_back

Fault = Callable[[Guest], AbstractContextManager[dict[str, str]]]
HOURS_OFF = 3
CORRECTABLE_ERRORS = 5
FLAPS = 3
# struct aer_error_inj of the kernel's aer_inject module: bus, device, function; uncorrectable, correctable; header.
_INJECT = """modprobe aer_inject
python3 - <<'END'
import struct, time
counted = open("/sys/bus/pci/devices/{address}/{counter}")
def total():
    counted.seek(0)
    return int(counted.read().split()[-1])
for _ in range({times}):
    wanted, end_s = total() + 1, time.monotonic() + 30
    with open("/dev/aer_inject", "wb", buffering=0) as file:
        file.write(struct.pack("<BBBxIIIIIII", {bus}, {device}, 0, {uncorrectable}, {correctable}, 0, 0, 0, 0, 0))
    while total() < wanted:
        if time.monotonic() > end_s:
            raise SystemExit("the kernel does not count it")
        time.sleep(0.05)
END
"""
_BAD_TLP, _DATA_LINK_PROTOCOL = 0x40, 0x10
_JOB = """cd /sys/fs/cgroup && echo +memory >cgroup.subtree_control && mkdir -p job && echo 48M >job/memory.max
sh -c 'echo $$ >job/cgroup.procs && exec python3 -c "eaten = [bytearray(8 << 20) for _ in range(50)]"' && exit 1
rmdir job && journalctl --sync
"""


@taken_back
def nothing(_guest: Guest) -> Broken:
    """A healthy node."""
    yield {}


@taken_back
def link_down(guest: Guest) -> Broken:
    """The cable of a rail is out."""
    pull(guest, 1)
    yield {}
    put_back(guest, 1)


@taken_back
def link_flaps(guest: Guest) -> Broken:
    """The cable of a rail is loose: its link goes and comes back, and is up when the run begins. Stays in the log."""
    for _ in range(FLAPS):
        flap(guest, 1)
    yield {}


@taken_back
def correctable_errors(guest: Guest) -> Broken:
    """The PCIe port above a rail's NIC gets damaged packets and has them sent again. Stays in the counters."""
    _inject(guest, "rail0", "aer_dev_correctable", correctable=_BAD_TLP, times=CORRECTABLE_ERRORS)
    yield {}


@taken_back
def fatal_error(guest: Guest) -> Broken:
    """The PCIe link of a rail's NIC breaks: the kernel resets it, and the device does not come back. Stays."""
    _inject(guest, "rail1", "aer_dev_fatal", uncorrectable=_DATA_LINK_PROTOCOL)
    guest.run("timeout 50 sh -c \"until dmesg | grep -q 'AER: device recovery failed'; do sleep 0.1; done\"")
    yield {}


@taken_back
def xid(guest: Guest) -> Broken:
    """A GPU has fallen off the bus. Stays in the log."""
    address = GPUS[1].removesuffix(".0")
    _kernel_says(guest, f"NVRM: Xid (PCI:{address}): 79, pid=4711, name=python3, GPU has fallen off the bus.")
    yield {}


@taken_back
def sxid(guest: Guest) -> Broken:
    """An NVLink of an NVSwitch broke. Stays in the log."""
    _kernel_says(guest, f"nvidia-nvswitch0: SXid (PCI:{NVSWITCH}): 20034, Fatal, Link 30 LTSSM Fault Up")
    yield {}


@taken_back
def clock_set_after_an_xid(guest: Guest) -> Broken:
    """The node started with a clock that was days slow, a GPU failed, and then chrony set the clock. Stays."""
    guest.run("date -s '-3 days'")
    address = GPUS[0].removesuffix(".0")
    _kernel_says(guest, f"NVRM: Xid (PCI:{address}): 48, pid=4711, name=python3, DBE (double bit error) detected")
    _right(guest)
    yield {}


@taken_back
def job_out_of_memory(guest: Guest) -> Broken:
    """A job takes more than its control group may have. Stays in the log."""
    guest.run(_JOB)
    yield {}


@taken_back
def node_out_of_memory(guest: Guest) -> Broken:
    """The kernel ended a process because the whole node had no memory left. Stays in the log."""
    killed = "Out of memory: Killed process 4711 (python3) total-vm:412345kB, anon-rss:398765kB, file-rss:4kB"
    _kernel_says(guest, f"{killed}, shmem-rss:0kB, UID:0 pgtables:860kB oom_score_adj:0")
    yield {}


@taken_back
def disk_full(guest: Guest) -> Broken:
    """Not a byte is free where the system lies, nor in /tmp."""
    guest.run("mount -o remount,size=1m /tmp; cat /dev/zero >/tmp/full || true")
    guest.run("fallocate -l $(df --output=avail -B1 / | tail -1) /full; cat /dev/zero >/fuller || true")
    yield {}
    guest.run("rm -f /full /fuller /tmp/full; mount -o remount,size=200m /tmp")


@taken_back
def clock_fast(guest: Guest) -> Broken:
    """The clock is hours ahead, and the time service says that all is well."""
    guest.run(f"date -s '+{HOURS_OFF} hours'")
    yield {}
    _right(guest)


@taken_back
def clock_slow(guest: Guest) -> Broken:
    """The clock is hours behind, and the time service says that all is well."""
    guest.run(f"date -s '-{HOURS_OFF} hours'")
    yield {}
    _right(guest)


@taken_back
def little_locked_memory(guest: Guest) -> Broken:
    """A login may lock as little memory as distributions allow."""
    file = "/etc/security/limits.d/lab.conf"
    guest.run(f"cp {file} /root/kept; printf '* - memlock 8192\\nroot - memlock 8192\\n' >{file}")
    yield {}
    guest.run(f"mv /root/kept {file}")


@taken_back
def no_root(guest: Guest) -> Broken:
    """The login is no root and asks for no sudo, and the kernel shows its log to root alone."""
    guest.run("test $(cat /proc/sys/kernel/dmesg_restrict) = 1")
    yield {"ansible_user": "ops"}


@taken_back
def by_sudo(_guest: Guest) -> Broken:
    """No fault: a login with sudo sees what root sees."""
    yield {"ansible_user": "ops", "ansible_become": "true"}


def probe_runs(guest: Guest) -> bool:
    """Whether nodegate's probe is at work on the guest."""
    return bool(guest.run("pgrep -f '^/usr/bin/python3 -I -S -$' || true").strip())


def _right(guest: Guest) -> None:
    """Set the clock, as chrony steps it."""
    guest.run(f"date -s @{time.time():.3f}")


def _kernel_says(guest: Guest, text: str) -> None:
    """A line in the kernel's log, as journald has it; of the facility `user`, for so is all that comes from outside."""
    guest.run(f"echo {shlex.quote(text)} >/dev/kmsg; journalctl --sync")


def _inject(
    guest: Guest, rail: str, counter: str, *, correctable: int = 0, uncorrectable: int = 0, times: int = 1
) -> None:
    port, _ = RAILS[rail]
    _, bus, place = port.split(":")
    device = place.partition(".")[0]
    guest.run(
        _INJECT.format(
            address=port,
            counter=counter,
            bus=int(bus, 16),
            device=int(device, 16),
            correctable=correctable,
            uncorrectable=uncorrectable,
            times=times,
        )
    )
