"""The host: system, driver files, services, limits, mounts, environment, software, clock, jobs. Sections of those names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from nodegate.unknown import Known

UNLIMITED = -1


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
    uptime_s: Known[float]
    clock_epoch_s: float
    kernel_release: Known[str]
    kernel_command_line: Known[str]
    os_name: Known[str]  # PRETTY_NAME of os-release
    vendor: Known[str]
    product: Known[str]
    serial: Known[str]
    board: Known[str]
    bios_version: Known[str]
    bios_date: Known[str]
    cpu_model: Known[str]
    cpu_count: Known[int]
    cpu_sockets: Known[int]
    memory_total_bytes: Known[int]
    memory_available_bytes: Known[int]
    modules: Mapping[str, str]
    blocked: Known[tuple[BlockedProcess, ...]]
    iommu_groups: Known[int]
    sysctl: Mapping[str, Known[str]]
    is_root: bool


@dataclass(frozen=True)
class DriverGpu:
    """A GPU as /proc/driver/nvidia/gpus lists it: needs neither NVML nor root."""

    address: str
    model: Known[str]
    uuid: Known[str]
    vbios: Known[str]
    gsp_firmware: Known[str]  # Unknown(NOT_SUPPORTED) when the driver says N/A: GSP is off
    excluded: Known[bool]


@dataclass(frozen=True)
class Driver:
    """/proc/driver/nvidia and the device nodes. `open_kernel_module` tells the open flavour from the proprietary one."""

    loaded: bool
    version: Known[str]
    open_kernel_module: Known[bool]
    parameters: Mapping[str, str]
    gpus: Known[tuple[DriverGpu, ...]]
    device_nodes: Mapping[str, str]  # "nvidia0" -> "ok" or an errno name ("EPERM": hidden by the login's cgroup)


@dataclass(frozen=True)
class Service:
    """One systemd unit. `load_state` "not-found" means that it is not installed."""

    name: str  # "nvidia-fabricmanager"
    load_state: str
    active_state: str
    sub_state: str
    result: str
    restarts: Known[int]
    exit_status: Known[int]
    enabled: str


@dataclass(frozen=True)
class Services:
    """The systemd units that matter, by name; unknown where systemd does not answer."""

    units: Known[Mapping[str, Service]]
    fabric_manager_version: Known[str]  # "550.163.01"
    fabric_manager_log: Known[str]


@dataclass(frozen=True)
class ResourceLimits:
    """Resource limits (soft, hard) of our login, and of slurmd where it runs: jobs inherit slurmd's. -1 is unlimited."""

    open_files: Known[tuple[int, int]]
    processes: Known[tuple[int, int]]
    locked_memory_bytes: Known[tuple[int, int]]
    slurmd_open_files: Known[tuple[int, int]]
    slurmd_processes: Known[tuple[int, int]]
    slurmd_locked_memory_bytes: Known[tuple[int, int]]


@dataclass(frozen=True)
class Mount:
    """One mounted file system. Usage is unknown where the mount hangs or refuses."""

    path: str
    source: str
    type: str
    options: tuple[str, ...]
    size_bytes: Known[int]
    free_bytes: Known[int]

    @property
    def read_only(self) -> bool:
        """Mounted (or remounted by the kernel after errors) read-only."""
        return "ro" in self.options


@dataclass(frozen=True)
class Mounts:
    """Mounted file systems by path."""

    by_path: Mapping[str, Mount]


@dataclass(frozen=True)
class Environment:
    """Variables that a job's login shell would have, and NCCL's own settings files (name -> value).

    `origin` says where each setting stands: "login environment", "/etc/nccl.conf" or "~/.nccl.conf".
    """

    variables: Mapping[str, str]
    nccl_conf: Known[Mapping[str, str]]
    user_nccl_conf: Known[Mapping[str, str]]


@dataclass(frozen=True)
class NcclLibrary:
    """One NCCL library found on the node. `version` is read from the file's real name."""

    path: str
    version: Known[str]


@dataclass(frozen=True)
class Software:
    """Libraries and tools on the node. `tools` maps a program to its path, "" when it is not there."""

    nccl: Known[tuple[NcclLibrary, ...]]
    cuda: Known[Mapping[str, str]]  # folder -> version
    nvcc: Known[str]
    ofed: Known[str]
    packages: Known[Mapping[str, str]]
    tools: Mapping[str, str]


@dataclass(frozen=True)
class Clock:
    """Clock synchronisation. `offset_s` is the distance to the time source as the node's own daemon states it.

    `skew_s` is the node's clock minus the controller's (0 for the local transport), `skew_error_s` its uncertainty (half a round trip).
    """

    synchronized: Known[bool]
    offset_s: Known[float]
    max_error_s: Known[float]
    skew_s: Known[float]
    skew_error_s: float


@dataclass(frozen=True)
class DeviceUser:
    """A process that has a GPU's device node open."""

    pid: int
    name: str
    uid: int


@dataclass(frozen=True)
class Jobs:
    """What runs on the node now."""

    slurm_jobs: Known[tuple[str, ...]]
    gpu_users: Known[tuple[DeviceUser, ...]]
    listening_ports: Known[frozenset[int]]
