"""The rest of a made-up node: system, driver files, services, limits, mounts, software, clock and jobs."""

from typing import Any

Section = dict[str, Any]

DRIVER = "550.163.01"
KERNEL = "5.15.0-119-generic"
_UNITS = (
    *("nvidia-persistenced", "nvidia-fabricmanager", "chrony", "ntp", "ntpd", "ntpsec", "systemd-timesyncd"),
    *("nvidia-imex", "slurmd"),
)
_MISSING = "No such file or directory"


def system(name: str, serial: str, product: tuple[str, str], *, cpu: str, cpus: int, memory_kib: int) -> Section:
    """Section `system`."""
    nvidia, ofed = ("nvidia", "nvidia_uvm", "nvidia_modeset", "nvidia_drm", "nvidia_peermem"), "24.10-1.1.4"
    mellanox = ("ib_core", "ib_uverbs", "rdma_cm", "mlx5_core", "mlx5_ib", "ib_umad")
    dmi = {"sys_vendor": product[0], "product_name": product[1], "product_serial": serial}
    return (
        {"hostname": name, "boot_id": f"5f0c7a3e-2b1d-4c58-9e60-{abs(hash_of(name)):012x}", "uptime_s": 1_080_012.31}
        | {"kernel_release": KERNEL}
        | {"os_release": 'PRETTY_NAME="Ubuntu 22.04.5 LTS"\nNAME="Ubuntu"\nVERSION_ID="22.04"\nID=ubuntu'}
        | {"cmdline": f"BOOT_IMAGE=/boot/vmlinuz-{KERNEL} root=UUID=8f6e7d1c ro iommu=pt pci=realloc=off"}
        | {"dmi": {**dmi, "bios_version": "2.3.5", "bios_date": "09/04/2024"}}
        | {"cpu_model": cpu, "cpu_count": cpus, "cpu_sockets": 2}
        | {
            "meminfo": f"MemTotal:       {memory_kib} kB\nMemFree:        {memory_kib - 60_000_000} kB\n"
            f"MemAvailable:   {memory_kib - 40_000_000} kB\nSwapTotal:             0 kB"
        }
        | {"modules": {**dict.fromkeys(nvidia, DRIVER), **dict.fromkeys(mellanox, ofed), "gdrdrv": "2.4.1"}}
        | {"dstate": [], "iommu_groups": 268, "pid_namespace": "pid:[4026531836]"}
    )


def driver(gpus: list[Section]) -> Section:
    """Section `driver`, from the GPUs of section `nvml`."""
    return {
        "loaded": True,
        "version": f"NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  {DRIVER}  Release Build"
        "  Tue Apr  8 12:41:17 UTC 2025\nGCC version:  gcc version 11.4.0 (Ubuntu 11.4.0-1ubuntu1~22.04)",
        "gpus": {_sysfs(gpu["bus_id"]): gpu_information(gpu) for gpu in gpus},
        "devices": {f"nvidia{gpu['index']}": "ok" for gpu in gpus},
    }


def gpu_information(gpu: Section) -> str:
    """The text of /proc/driver/nvidia/gpus/*/information."""
    return (
        f"Model: \t\t {gpu['name']}\nIRQ:   \t\t {270 + gpu['index']}\nGPU UUID: \t {gpu['uuid']}\n"
        f"Video BIOS: \t {gpu['vbios']}\nBus Type: \t PCIe\nDMA Size: \t 52 bits\nDMA Mask: \t 0xfffffffffffff\n"
        f"Bus Location: \t {_sysfs(gpu['bus_id'])}\nDevice Minor: \t {gpu['index']}\n"
        f"GPU Firmware: \t {gpu['gsp_firmware']}\nGPU Excluded:\t No"
    )


def units(*, fabric_manager: bool) -> dict[str, dict[str, str]]:
    """The units of section `services`, in systemd's own order."""
    active = {
        **dict.fromkeys(("nvidia-persistenced", "chrony", "slurmd"), "active"),
        "nvidia-fabricmanager": "active" if fabric_manager else "",
        **dict.fromkeys(("ntp", "ntpd", "ntpsec", "nvidia-imex"), ""),
        "systemd-timesyncd": "inactive",
    }
    return {name: _unit(name, active[name]) for name in _UNITS}


def services(units_by_name: dict[str, dict[str, str]], *, fabric_manager: bool, gpu_count: int) -> Section:
    """Section `services`."""
    blocks = ["\n".join(f"{key}={value}" for key, value in unit.items()) for unit in units_by_name.values()]
    missing = {"why": "missing", "detail": f"/var/log/fabricmanager.log: {_MISSING}"}
    program = {"why": "missing", "detail": f"nv-fabricmanager: {_MISSING}"}
    return {
        "show": "\n\n".join(blocks),
        "fabric_manager_version": f"Fabric Manager version is : {DRIVER}" if fabric_manager else program,
        "fabric_manager_log": _fabric_manager_log(gpu_count) if fabric_manager else missing,
        "imex": {"why": "missing", "detail": "nvidia-imex-ctl: no such program"},
    }


def limits() -> Section:
    """Section `limits`."""
    return {
        "self": {"nofile": [1_048_576, 1_048_576], "nproc": [-1, -1], "memlock": [-1, -1]},
        "slurmd": "Limit                     Soft Limit           Hard Limit           Units     \n"
        "Max stack size            unlimited            unlimited            bytes     \n"
        "Max processes             unlimited            unlimited            processes \n"
        "Max open files            131072               131072               files     \n"
        "Max locked memory         unlimited            unlimited            bytes     ",
    }


def mounts() -> Section:
    """Section `mounts`."""
    gib = 1 << 30
    sizes = {"/": (1800, 1620), "/dev/shm": (1007, 1007), "/tmp": (1800, 1620), "/var/log": (1800, 1620)}
    sizes |= {"/scratch": (14_000, 13_100), "/mnt/data": (512_000, 201_000)}
    return {
        "table": "/dev/md0 / ext4 rw,relatime,errors=remount-ro 0 0\ntmpfs /dev/shm tmpfs rw,nosuid,nodev,inode64 0 0\n"
        "/dev/nvme2n1 /scratch xfs rw,noatime 0 0\n10.20.0.5:/data /mnt/data nfs4 rw,vers=4.2,hard,proto=rdma 0 0",
        "usage": {
            path: {"size_bytes": size * gib, "free_bytes": free * gib, "read_only": False}
            for path, (size, free) in sizes.items()
        },
    }


def environment() -> Section:
    """Section `environment`."""
    return {
        "variables": {"LD_LIBRARY_PATH": "/usr/local/cuda/lib64"},
        "nccl_conf": "# written by the image of this cluster\nNCCL_DEBUG=WARN",
        "user_nccl_conf": {"why": "missing", "detail": f"/root/.nccl.conf: {_MISSING}"},
    }


def software(*, fabric_manager: bool) -> Section:
    """Section `software`."""
    tools = (
        {name: f"/usr/bin/{name}" for name in ("nvidia-smi", "ib_write_bw", "dcgmi", "numactl", "mpirun", "srun")}
        | {"all_reduce_perf": "/opt/nccl-tests/build/all_reduce_perf", "gpu_burn": "/opt/gpu-burn/gpu_burn"}
        | {"nvbandwidth": "/opt/nvbandwidth/nvbandwidth", "enroot": "/usr/bin/enroot"}
        | dict.fromkeys(("docker", "podman", "apptainer"), "")
    )
    packages = {"libnccl2": "2.23.4-1+cuda12.4", "datacenter-gpu-manager": "1:3.3.9", "nvidia-driver-550": DRIVER}
    if fabric_manager:
        packages["nvidia-fabricmanager-550"] = f"{DRIVER}-1"
    return {
        "nccl": [{"path": "/usr/lib/x86_64-linux-gnu/libnccl.so.2", "file": "libnccl.so.2.23.4"}],
        "cuda": {"/usr/local/cuda": '{"cuda": {"name": "CUDA SDK", "version": "12.4.1"}}'},
        "nvcc": "/usr/local/cuda/bin/nvcc",
        "ofed": "MLNX_OFED_LINUX-24.10-1.1.4.0:",
        "packages": packages,
        "tools": tools,
    }


def clock() -> Section:
    """Section `clock`: chrony keeps the time within some tens of microseconds."""
    return {
        "adjtimex": {"status": 0x2001, "offset_us": 18},
        "timedatectl": "Timezone=Etc/UTC\nLocalRTC=no\nCanNTP=yes\nNTP=yes\nNTPSynchronized=yes",
        "chronyc": "Reference ID    : 0A140001 (10.20.0.1)\nStratum         : 3\n"
        "System time     : 0.000018421 seconds slow of NTP time\nLast offset     : -0.000004120 seconds\n"
        "RMS offset      : 0.000021877 seconds\nRoot delay      : 0.000812331 seconds\n"
        "Root dispersion : 0.000341207 seconds\nUpdate interval : 64.4 seconds\nLeap status     : Normal",
    }


def jobs() -> Section:
    """Section `jobs`: an idle node."""
    return {"slurm": [], "gpu_users": [], "listening_ports": [22, 111, 6818]}


def hooks() -> Section:
    """Section `hooks`: a node on which no hook has noted anything."""
    return {
        name: {"why": "missing", "detail": f"{path}: {_MISSING}"}
        for name, path in {"spool": "/var/lib/nodegate/spool.jsonl", "gate": "/etc/nodegate/hooks.conf"}.items()
    }


def cpus(count: int) -> Section:
    """Section `cpus`: two sockets, a NUMA node each, two CPUs a core."""
    every = f"0-{count - 1}"
    return {"present": every, "online": every, "smt": "on", "cores": count // 2, "numa_nodes": "0-1"}


def disks(chassis: str) -> Section:
    """Section `disks`: two for the system, eight for data."""
    small, large = (1_875_385_008, "Dell NVMe PM9A3 RI 960GB"), (7_501_476_528, "Dell NVMe CM6 RI 3.84TB")
    sorts = {f"nvme{number}n1": small if number < 2 else large for number in range(10)}
    return {name: _disk(*sort, f"S6ZZNE{hash_of(chassis + name) % 10**8:08}") for name, sort in sorts.items()}


def _disk(sectors: int, model: str, serial: str) -> Section:
    return {"sectors": str(sectors), "model": model, "serial": serial}


def hash_of(name: str) -> int:
    """A number of a name that is the same in every run."""
    number = 0
    for letter in name:
        number = (number * 131 + ord(letter)) % (1 << 40)
    return number


def _sysfs(bus_id: str) -> str:
    return bus_id[4:].lower()


def _unit(name: str, active: str) -> dict[str, str]:
    found = {"NRestarts": "0", "Result": "success", "Id": f"{name}.service"}
    loaded, state = "loaded" if active else "not-found", active or "inactive"
    return {**found, "LoadState": loaded, "ActiveState": state, "SubState": "running" if active == "active" else "dead"}


def _fabric_manager_log(gpu_count: int) -> str:
    messages = (
        f"Fabric Manager version {DRIVER} is running with the following configuration options",
        "Connected to 1 node.",
        "Successfully configured all the available NVSwitches to route GPU NVLink traffic.",
        f"{gpu_count} GPUs are registered with the NVLink fabric",
    )
    return "\n".join(f"[Nov 08 2026 20:15:31] [INFO] [tid 2204] {message}" for message in messages)


def upkeep(devices: list[Section], adapters: dict[str, Section]) -> Section:
    """Section `upkeep`: two arrays, two bonded front ports, 32 memory modules, and rails that read 4 KiB at a time."""
    is_rail = {adapter["pci"] for adapter in adapters.values()}
    return {
        "governors": {"performance": 224},
        "preferences": {"performance": 224},
        "idle": [{"name": "C1", "latency": "2", "disable": "0"}, {"name": "C6", "latency": "190", "disable": "1"}],
        "numa_balancing": "0",
        "huge_pages": "always [madvise] never",
        "tuned": {"why": "missing", "detail": f"/etc/tuned/active_profile: {_MISSING}"},
        "modules": ["gdrdrv", "ib_core", "mlx5_core", "mlx5_ib", "nvidia", "nvidia_uvm"],
        "arrays": {
            name: {"level": "raid1", "array_state": "clean", "degraded": "0", "sync_action": "idle", "raid_disks": "2"}
            for name in ("md0", "md1")
        },
        "pools": {},
        "nvme": {f"nvme{number}": {"state": "live", "model": "Dell NVMe PM9A3", "alarm": "0"} for number in range(10)},
        "bonds": {
            "bond0": {
                "mode": "802.3ad 4",
                "slaves": "eno1 eno2",
                "ad_partner_mac": "0c:42:a1:5e:00:01",
                "members": {"eno1": {"mii_status": "up"}, "eno2": {"mii_status": "up"}},
            }
        },
        "keys": {f"{name}/1": ["0xffff"] for name in adapters},
        "pcie": {device["address"]: "5957" if device["address"] in is_rail else "2957" for device in devices},
        "dimms": [{"mib": 65536, "mts": 4800}] * 32,
        "memory_errors": {f"mc{number}": {"ue_count": "0", "ce_count": "3"} for number in range(4)},
    }
