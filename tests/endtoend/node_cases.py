"""Faults of nodes with a real systemd, and what a run over them must say: the rows of test_systemd_nodes.py."""

from typing import NamedTuple

from lab.nodes import faults, gpu_faults, host_faults, log_faults
from lab.nodes.fault import Fault

KERNEL_LOG = "kernel_log could not be read: denied"
_OF_THE_LOG = {
    "gpu": ("fallen_off_bus",),
    "fleet_log": ("unknown_errors",),
    "host_log": ("hardware_errors", "lockups", "hung_tasks", "nvme", "file_systems"),
    "kernel_log": (
        *("xid", "reaches_back", "sxid", "gpu_driver", "pcie_errors", "pcie_bandwidth", "nic_flaps", "nic_errors"),
        *("memory", "storage", "host_faults"),
    ),
}
NO_KERNEL_LOG = [f"{subject}.{check}" for subject, checks in _OF_THE_LOG.items() for check in checks]


class Case(NamedTuple):
    """A fault in plain words, how it is set, what the node is then, and the checks that say so.

    `said`: check -> its verdict and words; the first is the finding that the table of injected faults shows. NODE
    stands for the four digits of the node in the serial numbers of its GPUs.
    `follows`: words of the other checks that cannot judge because of it.
    """

    fault: Fault
    told: str
    injected: str
    said: dict[str, str]
    node: str = "rejected"
    follows: str = ""


def on(node, said):
    return said.replace("NODE", f"{int(node.rpartition('-')[2]):04}")


def accepted(number):
    """What a node says that is no worse for it."""
    return {"node.reachable": f"pass: node: responds as gpu-{number}"}


SERVICES_AND_DRIVER = [
    Case(
        faults.manager_stopped,
        "fabric manager stopped",
        "systemctl stop",
        {"fabric.manager": "fail: nvidia-fabricmanager: not running: inactive (dead, result success)"},
    ),
    Case(
        faults.manager_killed,
        "fabric manager killed",
        "systemctl kill --signal=KILL",
        {"fabric.manager": "fail: nvidia-fabricmanager: not running: failed (failed, result signal)"},
    ),
    Case(
        faults.manager_of_another_version,
        "fabric manager of another version than the driver",
        "what its program says of itself",
        {
            "fabric.version": "fail: version 550.54.15, expected 550.163.01 (the driver's version)",
            "drift.same_as_fleet": "warn: fabric manager version: 550.54.15, expected 550.163.01 (6 of 8 nodes)",
        },
    ),
    Case(
        faults.manager_not_installed,
        "fabric manager not installed",
        "unit and program taken away",
        {
            "fabric.manager": "fail: nvidia-fabricmanager: not installed",
            "fabric.version": "error: could not read version: missing: nv-fabricmanager: no such program",
            "drift.same_as_fleet": "warn: fabric manager version: none, expected 550.163.01 (6 of 8 nodes)",
        },
    ),
    Case(
        gpu_faults.driver_updated,
        "driver's packages updated, the old module still loaded",
        "NVML: error 18 (mock); /proc/driver/nvidia/version",
        {
            "software.driver_and_library": "fail: driver: Driver/library version mismatch (NVML error 18); "
            "the loaded kernel module is 550.144.03 - reboot, or stop all GPU programs and reload the driver",
            "fabric.version": "fail: version 550.163.01, expected 550.144.03",
        },
        follows="nvidia-smi's output names no GPU: Failed to initialize NVML: Driver/library version mismatch",
    ),
    Case(
        gpu_faults.driver_not_loaded,
        "driver not loaded",
        "NVML: error 9 (mock); nothing of it in /proc, /sys and /dev",
        {
            "software.driver_loaded": "fail: driver: NVIDIA kernel module not loaded",
            "gpu.bound": "fail: NVIDIA kernel module: not loaded",
            "fabric.version": "error: could not read the limit for version: missing: /proc/driver/nvidia/version",
        },
        follows="nvidia-smi's output names no GPU: NVIDIA-SMI has failed because it couldn't communicate with",
    ),
    Case(
        gpu_faults.library_missing,
        "libnvidia-ml missing",
        "the library taken away",
        {
            "gpu.lost": "error: nvml could not be read: missing: libnvidia-ml.so.1: cannot open shared object file",
            "software.driver_and_library": "error: could not read library version: missing: libnvidia-ml",
        },
        node="incomplete",
        follows="nvidia-smi's output names no GPU: NVIDIA-SMI couldn't find libnvidia-ml.so library in your system",
    ),
]

HOST_AND_GPUS = [
    Case(
        faults.narrow_link,
        "a GPU's PCIe link at two lanes",
        "sysfs: current_link_width",
        {"pcie.link_width": "fail: GPU 6 (0000:73:00.0, S/N 165NODE000007): link width 2 lanes, expected"},
    ),
    Case(
        faults.small_shm,
        "little shared memory",
        "mount -o remount,size=64m /dev/shm",
        {"host.shared_memory": "fail: /dev/shm: size 0.1 GiB, expected at least 64 GiB"},
    ),
    Case(
        host_faults.little_locked_memory,
        "little locked memory for logins and jobs",
        "/etc/security/limits.d",
        {"host.locked_memory": "fail: login: locked memory 64 KiB, expected at least"},
    ),
    Case(
        host_faults.full_disks,
        "/tmp and /var/tmp full",
        "tmpfs filled to the last byte",
        {"host.free_space": "warn: /tmp: free space 0 %, expected at least 5 %"},
        node="accepted",
    ),
    Case(
        host_faults.dead_file_server,
        "a mount hangs",
        "a FUSE file system that never answers at /mnt",
        {"host.hung_mounts": "fail: /mnt: hung; process"},
    ),
    Case(
        gpu_faults.gpu_lost_in_mid_run,
        "GPU lost, `nvidia-smi --query-gpu` ends with 0",
        "NVML: GPU_IS_LOST at each call but for the handle (mock)",
        {
            "gpu.lost": "fail: GPU 3 (0000:43:00.0): lost: NVML cannot read it: lost: NVML 15: GPU is lost",
            "gpu.count": "fail: node: 7 of 8 GPUs respond, expected 8 GPUs",
        },
        follows="lost: NVML 15: GPU is lost",
    ),
    Case(
        gpu_faults.nvml_dies,
        "GPU lost, and NVML dies of a signal: nvidia-smi is asked",
        "NVML: GPU_IS_LOST for a handle, SIGSEGV in a call (mock)",
        {
            "gpu.lost": "fail: GPU 3 (0000:43:00.0): lost: NVML cannot read it: lost: GPU is lost.  Reboot",
            "gpu.count": "fail: node: at most 7 of 8 GPUs respond, expected 8 GPUs",
            "software.driver_and_library": "error: failed: ended by SIGSEGV, at GPU 0 violation_ns",
        },
        follows="lost: GPU is lost.  Reboot the system to recover this GPU",
    ),
]

LOGINS = [
    Case(
        faults.by_sudo,
        "none: a login with sudo in place of root",
        "inventory: ansible_become",
        accepted(2),
        node="accepted",
    ),
    Case(
        host_faults.sudo_complains,
        "sudo cannot resolve the host's name, and works",
        "/etc/hosts without it; inventory: ansible_become",
        accepted(3),
        node="accepted",
    ),
    Case(host_faults.noisy_login, "logins print banners", ".bashrc and /etc/profile.d", accepted(4), node="accepted"),
    Case(
        gpu_faults.smi_missing, "nvidia-smi missing, NVML well", "the program taken away", accepted(5), node="accepted"
    ),
    Case(
        faults.no_root,
        "the login may not read the kernel log",
        "inventory: a user without sudo",
        {"kernel_log.xid": f"error: {KERNEL_LOG}", **dict.fromkeys(NO_KERNEL_LOG, f"error: {KERNEL_LOG}")},
        node="incomplete",
    ),
    Case(
        faults.few_open_files,
        "few open files for logins and jobs",
        "/etc/security/limits.d",
        {"host.open_files": "fail: login: open files 1024, expected at least 16384"},
    ),
    Case(
        gpu_faults.job_left,
        "a process of a job left on a GPU",
        "a process that holds /dev/nvidia0; NVML lists it (mock)",
        {
            "idle.processes": "fail: GPU 0 (0000:13:00.0, S/N 165NODE000001): compute process",
            "idle.memory": "fail: memory in use 8192 MiB, expected at most 128 MiB",
        },
    ),
]


class Busy(NamedTuple):
    """Why a node is left alone at night: how it was made so, and what is said."""

    node: str
    told: str
    injected: str
    words: str


BUSY = [
    Busy("gpu-9", "another run on the node", "a second run", "busy: another run holds the node's lock"),
    Busy("gpu-2", "a job on a GPU at night", "a process that NVML lists (mock)", "busy: /usr/bin/python3 (pid "),
    Busy(
        "gpu-3",
        "a job on a GPU at night, and the driver's packages were updated under it",
        "a process that holds /dev/nvidia0; NVML: error 18 (mock)",
        "busy: python3 (pid ",
    ),
]

# The last one: what the kernel has said stays in the log.
KERNEL = [
    Case(
        faults.rail_down,
        "an InfiniBand port down",
        "sysfs: state, phys_state",
        {
            "rdma.port_state": "fail: mlx5_2 port 1 (0000:34:00.0): state DOWN, expected ACTIVE",
            "rdma.rails": "fail: rails in service 7 ports, expected 8",
        },
    ),
    Case(
        faults.xid,
        "Xid 48 in the kernel log",
        "a line at /dev/kmsg",
        {"kernel_log.xid": "fail: GPU 5 (0000:63:00.0, S/N 165NODE000006): Xid 48 (uncorrectable memory error) once"},
    ),
    Case(
        faults.gpu_lost,
        "GPU fell off the bus",
        "configuration space all ff; NVML: GPU_IS_LOST (mock)",
        {
            "gpu.lost": "fail: GPU 3 (0000:43:00.0): lost: its PCIe configuration space reads all ff",
            "gpu.on_bus": "fail: GPU 3 (0000:43:00.0): does not respond on PCIe",
            "gpu.count": "fail: node: 7 of 8 GPUs respond, expected 8 GPUs",
            "pcie.devices_answer": "fail: GPU 3 (0000:43:00.0): does not respond on PCIe",
        },
        follows="lost: NVML 15: GPU is lost",
    ),
    Case(
        log_faults.fallen_off,
        "Xid 79 in the kernel log, the GPU back since",
        "lines at /dev/kmsg",
        {
            "kernel_log.xid": "fail: GPU 4 (0000:53:00.0, S/N 165NODE000005): Xid 79 (GPU has fallen off the bus)",
            "gpu.fallen_off_bus": "fail: GPU 4 (0000:53:00.0, S/N 165NODE000005): fell off the bus",
        },
    ),
    Case(
        log_faults.sxid,
        "fatal SXid in the kernel log",
        "a line at /dev/kmsg",
        {"kernel_log.sxid": "fail: nvidia-nvswitch2 (0000:a1:02.0): SXid 20034 (Fatal) once"},
    ),
    Case(
        log_faults.out_of_memory,
        "OOM killer in the kernel log",
        "lines at /dev/kmsg",
        {"kernel_log.memory": "warn: memory: the node ran out of memory and the kernel killed a process, once"},
        node="accepted",
    ),
    Case(
        log_faults.pcie_error,
        "fatal AER error in the kernel log",
        "lines at /dev/kmsg",
        {"kernel_log.pcie_errors": "fail: GPU 2 (0000:33:00.0, S/N 165NODE000003): a PCIe transfer was lost, once"},
    ),
]

# A run over three nodes: each of these costs no more than one connection.
OUT_OF_REACH = [
    Case(
        faults.sudo_refused,
        "sudo asks for a password",
        "inventory: ansible_become for a user without sudo",
        {"node.reachable": "error: node: sudo wants a password"},
        node="unreachable",
    ),
    Case(
        faults.no_python,
        "python3 missing",
        "the program taken away",
        {"node.reachable": "error: node: /usr/bin/python3 did not start there"},
        node="unreachable",
    ),
    Case(
        faults.cable_out,
        "network cable out",
        "ip link set down at the other end",
        {"node.reachable": "error: 192.0.2.4:22 did not answer within 3 s"},
        node="unreachable",
    ),
]

# Each is one run: the faults stand on gpu-2, gpu-3, ... while gpu-1 is healthy.
RUNS = [SERVICES_AND_DRIVER, HOST_AND_GPUS, LOGINS, OUT_OF_REACH, KERNEL]
