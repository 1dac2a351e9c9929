"""Host: kernel, memory, limits, clock and mounts are as GPU jobs need them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from nodegate.api import Unknown, Verdict, Why, gibibytes, part, percent, some
from nodegate.probe.readings import mapped, next_step
from nodegate.subjects.host import (
    SHARED_MEMORY,
    SYSTEM_FOLDERS,
    asked_mounts,
    hangs,
    has_slurmd,
    how_it_hangs,
    judge_limit,
    judge_version,
    pair_in_gib,
    surely,
    waits_in_gpu_driver,
)

if TYPE_CHECKING:
    from nodegate.api import Baseline, Clock, Cpus, Fleet, Host, Jobs, Mounts, Node, ResourceLimits, Verdicts

pytestmark = pytest.mark.tier("bootcheck")

HUNG = "hung"
CPU = part.Part(part.Kind.CPU, "CPU")
SERVER = "look at the file server and the network path to it"


def test_kernel_version(host: Host, baseline: Baseline, verdicts: Verdicts) -> None:
    """The Linux kernel is new enough. (F25)

    On kernels before 5.5 multi-process training can hang at its start. It warns, as the source does (accelerate):
    distributions bring later code into old kernels (4.18 of RHEL 8).
    """
    limit = baseline.limit("kernel.version_min")
    judge_version(
        verdicts,
        whose=part.software("kernel"),
        version=host.kernel_release,
        limit=limit,
        remedy="update the kernel",
        otherwise=Verdict.WARN,
    )


def test_shared_memory(mounts: Mounts, baseline: Baseline, verdicts: Verdicts) -> None:
    """The shared memory (/dev/shm) is large enough. (F16)

    Data loaders and NCCL pass data through it; when it is full, workers die with "Bus error". Containers have their
    own (64 MiB in Docker by default): this is the node's.
    """
    limit, shm = baseline.number("host.shm_min_gib"), mounts.by_path.get(SHARED_MEMORY)
    remedy = "increase its size: mount -o remount,size=... /dev/shm"
    if shm is None or not shm.type:
        verdicts.found(
            Verdict.FAIL, part=part.setting(SHARED_MEMORY), text="not mounted", action=remedy, code="not mounted"
        )
        return
    verdicts.at_least(
        part=part.setting(SHARED_MEMORY),
        quantity="size",
        observed=gibibytes(shm.size_bytes),
        limit=limit,
        action=remedy,
    )


def test_open_files(limits: ResourceLimits, baseline: Baseline, verdicts: Verdicts) -> None:
    """Jobs may open enough files. (F24)

    All-to-all over a few nodes needs thousands of sockets: NCCL then fails with "Too many open files". Jobs inherit
    the limit of slurmd where it runs, else that of the login.
    """
    slurmd = has_slurmd(limits)
    found = limits.slurmd_open_files if slurmd else limits.open_files
    limit = baseline.number("host.open_files_min")
    judge_limit(verdicts, slurmd=slurmd, what="open files", found=found, limit=limit, command="ulimit -n")


def test_processes(limits: ResourceLimits, baseline: Baseline, verdicts: Verdicts) -> None:
    """Jobs may start enough processes and threads. (F24)

    NCCL's proxy threads and data loaders fail with "Resource temporarily unavailable" at the limit.
    """
    slurmd = has_slurmd(limits)
    found = limits.slurmd_processes if slurmd else limits.processes
    limit = baseline.number("host.processes_min")
    judge_limit(verdicts, slurmd=slurmd, what="processes", found=found, limit=limit, command="ulimit -u")


def test_locked_memory(limits: ResourceLimits, baseline: Baseline, verdicts: Verdicts) -> None:
    """Jobs may lock enough memory. (F24)

    RDMA registers its buffers as locked memory: below the limit ibv_reg_mr fails with "Cannot allocate memory".
    """
    slurmd = has_slurmd(limits)
    found = limits.slurmd_locked_memory_bytes if slurmd else limits.locked_memory_bytes
    limit = baseline.limit("host.locked_memory_min_gib")
    judge_limit(
        verdicts, slurmd=slurmd, what="locked memory", found=pair_in_gib(found), limit=limit, command="ulimit -l"
    )


def test_blocked_processes(host: Host, verdicts: Verdicts) -> None:
    """No process waits for a GPU driver call that never ends. (F04, F31)

    A process in uninterruptible sleep cannot be killed. One that waits in the NVIDIA driver means a GPU that no
    longer responds (fail); others wait for storage, perhaps only for a moment (warn).
    """
    if isinstance(host.blocked, Unknown):
        verdicts.unknown(part=part.host("processes"), quantity="process states", reason=host.blocked)
        return
    for process in host.blocked:
        by_driver = waits_in_gpu_driver(process)
        verdicts.found(
            Verdict.FAIL if by_driver else Verdict.WARN,
            part=part.host(f"process {process.pid} ({process.name})"),
            text=f"in uninterruptible sleep in {process.waits_in or 'an unnamed kernel function'}",
            action="reboot the node: the GPU driver is hung" if by_driver else "look at the storage that it waits for",
            code="gpu driver" if by_driver else "other",
        )
    if not host.blocked:
        verdicts.passed(part=part.host("processes"), text="none in uninterruptible sleep")


def test_cpus_online(cpus: Cpus, verdicts: Verdicts) -> None:
    """Every CPU that the machine has works: none is offline. (F09, F17)

    The kernel takes a core with machine checks out of service, and jobs run on with fewer loaders. SMT switched off is
    a choice: then one of two is offline. Source: kernel, Documentation/admin-guide/cputopology.rst.
    """
    for quantity, reading in (("CPUs present", cpus.present), ("CPUs online", cpus.online)):
        if isinstance(reading, Unknown):
            verdicts.unknown(part=CPU, quantity=quantity, reason=reading)
    if isinstance(cpus.present, Unknown) or isinstance(cpus.online, Unknown):
        return
    if not cpus.online <= cpus.present:
        why = f"{len(cpus.present)} CPUs present and {len(cpus.online)} online: one of the two readings is wrong"
        verdicts.cannot(why, next_step="compare /sys/devices/system/cpu/present and online on the node")
    offline = sorted(cpus.present - cpus.online)
    if cpus.smt in ("off", "forceoff") and len(offline) <= len(cpus.online):
        verdicts.passed(part=CPU, text=f"{len(cpus.online)} CPUs online, one of each core: SMT is off")
    elif not offline:
        verdicts.passed(part=CPU, quantity="CPUs online", observed=len(cpus.online))
    else:
        verdicts.found(
            Verdict.FAIL,
            part=CPU,
            text=f"{len(offline)} of {len(cpus.present)} CPUs offline: {some(map(str, offline), 8)}",
            action="read the kernel log for machine checks; chcpu -e re-enables CPUs that were taken offline by hand",
            quantity="CPUs offline",
            observed=len(offline),
        )


def test_ports(jobs: Jobs, node: Node, verdicts: Verdicts) -> None:
    """The TCP ports that jobs need (nodegate_ports) are free. (F18)

    A master port that is taken ends the job at its start: "Address already in use". Source: PyTorch, MASTER_PORT.
    """
    if not node.settings.ports:
        verdicts.not_demanded("the inventory asks for none: nodegate_ports names them, 29500 for example")
    taken = jobs.listening_ports
    for number in node.settings.ports:
        verdicts.holds(
            part=part.host(f"port {number}"),
            quantity="port",
            observed=taken if isinstance(taken, Unknown) else number in taken,
            good="free",
            bad="another program listens on it",
            action=f"ss -ltnp 'sport = :{number}' shows the owner; stop what an earlier job left running",
            expected=False,
        )


def test_memory_size(host: Host, baseline: Baseline, verdicts: Verdicts) -> None:
    """The node has the memory that its platform should have. (F17)

    A memory module that failed at power-on is left out silently: jobs then run out of memory on this node alone.
    """
    installed = baseline.number("host.memory_gib")
    tolerance = baseline.number("host.memory_tolerance_percent")
    least = installed.value * (1 - tolerance.value / 100)
    source = f"{installed.value} GiB minus {tolerance.value} %; {installed.source}"
    verdicts.at_least(
        part=part.MEMORY,
        quantity="size",
        observed=gibibytes(host.memory_total_bytes),
        limit=replace(installed, value=round(least, 1), unit="GiB", source=source),
        action="look for a failed memory module in the BMC's event log",
    )


def test_memory_available(host: Host, baseline: Baseline, verdicts: Verdicts) -> None:
    """Most of the memory is free for a job. (F15, F17)

    Files in /dev/shm or processes of an earlier job that were left behind take memory from the next one.
    """
    verdicts.at_least(
        part=part.MEMORY,
        quantity="available share",
        observed=percent(host.memory_available_bytes, host.memory_total_bytes),
        limit=baseline.number("host.memory_available_min_percent"),
        action="look for leftover processes and files in /dev/shm",
        otherwise=Verdict.WARN,
    )


def test_clock_synchronised(clock: Clock, baseline: Baseline, verdicts: Verdicts) -> None:
    """The clock is synchronised with a time source and close to it. (F19)

    Logs of nodes whose clocks differ cannot be merged, and certificates and leases fail. Workers that wait for each
    other by the clock start out of step.
    """
    verdicts.holds(
        part=part.host("clock"),
        quantity="synchronisation",
        observed=clock.synchronized,
        good="synchronised",
        bad="not synchronised with a time source",
        action="start chrony or systemd-timesyncd, and check that it reaches its servers",
        otherwise=Verdict.WARN,
        code="not synchronised",
    )
    verdicts.at_most(
        part=part.host("clock"),
        quantity="offset",
        observed=mapped(clock.offset_s, abs),
        limit=baseline.number("host.clock_offset_max_s"),
        action="check that chrony reaches its servers (chronyc sources)",
        otherwise=Verdict.WARN,
        code="offset",
    )


def test_clock_skew(clock: Clock, fleet: Fleet, baseline: Baseline, verdicts: Verdicts) -> None:
    """The clock agrees with the controller's, beyond what the round trip leaves open. (F19)

    If most nodes agree with each other and not with the controller, its clock is wrong: then they are compared with
    each other. All could be wrong together.
    """
    limit = baseline.number("host.clock_skew_max_s")
    if isinstance(clock.skew_s, Unknown) and clock.skew_s.why is Why.MISSING:
        verdicts.not_done("this evidence does not include the round-trip time")
    common = fleet.common_skew(limit.value)
    verdicts.at_most(
        part=part.host("clock"),
        quantity="difference from the clocks of most nodes" if common else "difference from the controller's clock",
        observed=surely(clock.skew_s, clock.skew_error_s, of=common.skew_s if common else 0.0),
        limit=limit,
        action="set the clock: chronyc makestep",
    )
    if common and verdicts.verdict is Verdict.PASS:
        text = f"{abs(common.skew_s):.0f} s from {common.count} of {common.total} nodes, whose clocks agree"
        step = "set the controller's clock; the nodes' clocks are right unless all are wrong in the same way"
        verdicts.found(Verdict.WARN, part=part.host("controller's clock"), text=text, action=step, code="controller")


def test_mounts(mounts: Mounts, node: Node, verdicts: Verdicts) -> None:
    """Every mount that the inventory asks for (nodegate_mounts) is there, responds and can be written. (F31)

    "/data:ro" asks for a mount that need not be writable.
    A missing or hung file system stalls data loading and checkpoints.
    """
    wanted = asked_mounts(node.settings.mounts)
    for path, writable in wanted.items():
        mount = mounts.by_path.get(path)
        if mount is None or not mount.type:
            fault, note, remedy = "not mounted", "", "mount it; look at the file server and /etc/fstab"
        elif hangs(mount):
            fault, note, remedy = HUNG, how_it_hangs(mount), SERVER
        elif mount.read_only and writable:
            fault, note, remedy = "read-only", "", "look at the kernel log for disk errors, then mount it again"
        elif isinstance(mount.size_bytes, Unknown):
            verdicts.unknown(part=part.host(path), quantity="usage", reason=mount.size_bytes)
            continue
        else:
            verdicts.passed(part=part.host(path), text=f"mounted from {mount.source} ({mount.type})")
            continue
        verdicts.found(Verdict.FAIL, part=part.host(path), text=fault, note=note, action=remedy, code=fault)
    if not wanted:
        verdicts.not_demanded("no mounts requested: nodegate_mounts names them")


def test_hung_mounts(mounts: Mounts, verdicts: Verdicts) -> None:
    """No mounted file system is hung. (F31)

    A process that touches a hung mount cannot be ended; jobs stop without a message. On a node whose processors are
    busy a sound one may be late too: that is an error, not a fault.
    """
    for mount in mounts.by_path.values():
        if hangs(mount):
            verdicts.found(
                Verdict.FAIL,
                part=part.host(mount.path),
                text=HUNG,
                note=how_it_hangs(mount) + (f"; {mount.type} from {mount.source}" if mount.type else ""),
                action=SERVER,
                code=HUNG,
            )
        elif isinstance(mount.size_bytes, Unknown) and mount.size_bytes.why is Why.BUSY:
            step = next_step("mounts", Why.BUSY)
            verdicts.unknown(part=part.host(mount.path), quantity="usage", reason=mount.size_bytes, action=step)
    if not verdicts.findings:
        verdicts.passed(part=part.host("mounts"), text=f"{len(mounts.by_path)} file systems, none is hung")


def test_free_space(mounts: Mounts, node: Node, baseline: Baseline, verdicts: Verdicts) -> None:
    """The system's folders and the mounts that the inventory asks for have free space. (F31)

    A full /tmp, /var/log or checkpoint folder makes jobs fail with misleading errors.
    """
    limit = baseline.number("host.mount_free_min_percent")
    asked = asked_mounts(node.settings.mounts)
    for path in dict.fromkeys((*SYSTEM_FOLDERS, *asked)):
        mount = mounts.by_path.get(path)
        if mount is None or hangs(mount):
            continue  # host.mounts and host.hung_mounts report those
        verdicts.at_least(
            part=part.host(path),
            quantity="free space",
            observed=percent(mount.free_bytes, mount.size_bytes),
            limit=limit,
            action="delete what is not needed",
            otherwise=Verdict.FAIL if path in asked else Verdict.WARN,
        )
    if not verdicts.findings:
        verdicts.unknown(part=part.host("mounts"), quantity="free space", reason="no file system reported its usage")
