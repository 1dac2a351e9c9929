"""The faults that are planted in the demo fleet, each with its consequences and with what must be found of it."""

from collections.abc import Callable, Mapping, Sequence

from fleet import load_faults
from fleet.load import burn, copies, groups, nccl, rdma
from fleet.machine import Machine
from fleet.planted import found
from nodegate.demo.verify import PlantedFault
from nodegate.errors import Busy, CannotMeasure

_HOUR_S = 3600.0
_NOT_SUPPORTED = {"why": "not supported", "detail": "NVML 3: Not Supported", "nvml": 3}


def lost_gpu(machine: Machine) -> list[PlantedFault]:
    serial = next(gpu["serial"] for gpu in machine.sections["nvml"]["gpus"] if gpu["index"] == 3)
    machine.lose_gpu(3)
    machine.kernel(f"NVRM: GPU {machine.gpu_address(3)}: GPU serial number is {serial}.", ago_s=1800.0)
    gates = {burn.NAME: "gpu.lost", copies.NAME: "gpu.lost", nccl.NAME: "gpu.on_bus", groups.NAME: "gpu.on_bus"}
    for measurement, gate in gates.items():
        machine.not_measured(measurement, _blocked(gate))
    return found(
        machine,
        "F02",
        "GPU 3 has fallen off the bus (Xid 79)",
        "gpu.count fail",
        "gpu.lost gpu.on_bus gpu.fallen_off_bus kernel_log.xid pcie.devices_answer fail GPU 3",
        "* error GPU 3",
        "burn.* copies.* nccl.* nccl_groups.* error",
    )


def dead_fabric_manager(machine: Machine) -> list[PlantedFault]:
    old = "550.127.08"
    machine.stop_service("nvidia-fabricmanager")
    machine.set("services", "fabric_manager_version", f"Fabric Manager version is : {old}")
    machine.set(
        "services",
        "fabric_manager_log",
        f"[Nov 20 2026 22:10:04] [INFO] [tid 2188] Fabric Manager version {old} is running with the following "
        "configuration options\n[Nov 20 2026 22:10:04] [ERROR] [tid 2188] fabric manager NVIDIA GPU driver interface "
        f"version {old} don't match with driver version 550.163.01. Please update with matching NVIDIA driver package.",
    )
    machine.set(
        "software", "packages", machine.sections["software"]["packages"] | {"nvidia-fabricmanager-550": f"{old}-1"}
    )
    for index in range(8):
        machine.set_gpu(index, "fabric.state", 2)
        machine.set_gpu(index, "fabric.health_mask", 0)
    error = "cuInit: 802 CUDA_ERROR_SYSTEM_NOT_READY"
    machine.under_load(burn.NAME, lambda document: burn.never_started(document, error))
    machine.under_load(copies.NAME, copies.never_started)
    for measurement in (nccl.NAME, groups.NAME):
        machine.not_measured(measurement, _blocked("fabric.manager"))
    return found(
        machine,
        "F12",
        f"nvidia-fabricmanager {old} does not start under driver 550.163.01",
        "fabric.manager fabric.version fabric.manager_log fail nvidia-fabricmanager",
        "drift.same_as_fleet warn fabric manager version",
        *(f"fabric.state fail GPU {index}" for index in range(8)),
        *(f"{checks}.* error GPU {index}" for checks in ("burn", "copies") for index in range(8)),
        "burn.* copies.* nccl.* nccl_groups.* error",
    )


def row_remap_pending(machine: Machine) -> list[PlantedFault]:
    place = machine.gpu_address(6).removesuffix(".0")
    for line in (
        "48, pid=20551, name=python3, An uncorrectable double bit error (DBE) has been detected on GPU.",
        "63, pid=20551, name=python3, Row Remapper: New row (0x12ab3f40) marked for remapping, reset gpu to activate.",
        "94, pid=20551, name=python3, Contained: SM (0x1). RST: No, D-RST: No",
    ):
        machine.kernel(f"NVRM: Xid (PCI:{place}): {line}", ago_s=2 * _HOUR_S)
    machine.set_gpu(6, "ecc.volatile_uncorrected", 1)
    machine.set_gpu(6, "ecc.aggregate_uncorrected", 1)
    machine.set_gpu(6, "ecc.aggregate_dram_uncorrected", 1)
    machine.set_gpu(6, "remapped_rows", [0, 1, 1, 0])
    machine.set_gpu(6, "remap_histogram", [2559, 1, 0, 0, 0])
    return found(
        machine,
        "F03",
        "GPU 6: a row replacement waits for a reset (Xid 48, 63, 94)",
        "ecc.volatile fail GPU 6",
        "ecc.lifetime warn GPU 6",
        "ecc.remap_pending fail GPU 6",
        "ecc.remapped_rows_new warn GPU 6",
        "kernel_log.xid fail GPU 6",
    )


def row_remap_failed(machine: Machine) -> list[PlantedFault]:
    place = machine.gpu_address(1).removesuffix(".0")
    machine.kernel(
        f"NVRM: Xid (PCI:{place}): 64, pid=1733, name=python3, Row Remapper: Failed to remap row (0x00000000031c7f00)",
        ago_s=9 * _HOUR_S,
    )
    machine.set_gpu(1, "ecc.aggregate_uncorrected", 9)
    machine.set_gpu(1, "ecc.aggregate_dram_uncorrected", 9)
    machine.set_gpu(1, "remapped_rows", [0, 8, 0, 1])
    machine.set_gpu(1, "remap_histogram", [190, 0, 1, 0, 1])
    return found(
        machine,
        "F03",
        "GPU 1: a row could not be replaced (Xid 64)",
        "ecc.lifetime warn GPU 1",
        "ecc.remap_pending fail GPU 1",
        "ecc.remapped_rows_new warn GPU 1",
        "ecc.spare_rows kernel_log.xid fail GPU 1",
    )


def gsp_timeout(machine: Machine) -> list[PlantedFault]:
    place = machine.gpu_address(2).removesuffix(".0")
    for count in range(4):
        machine.kernel(
            f"NVRM: Xid (PCI:{place}): 119, pid=30211, name=python3, Timeout after 6s of waiting for RPC response from "
            "GPU2 GSP! Expected function 103 (GSP_RM_ALLOC) (0x2081 0x4).",
            ago_s=3 * _HOUR_S - 6 * count,
        )
    return found(machine, "F04", "GPU 2: the GSP firmware does not answer (Xid 119)", "kernel_log.xid fail GPU 2")


def gsp_off(machine: Machine) -> list[PlantedFault]:
    driver = machine.sections["driver"]
    machine.set(
        "driver",
        "version",
        driver["version"].replace("NVIDIA UNIX Open Kernel Module for x86_64", "NVIDIA UNIX x86_64 Kernel Module"),
    )
    for index, address in enumerate(machine.gpu_addresses):
        machine.set_gpu(index, "gsp_firmware", dict(_NOT_SUPPORTED))
        machine.set_gpu(index, "gsp_mode", [0, 1])
        text: str = driver["gpus"][address]
        driver["gpus"][address] = text.replace("GPU Firmware: \t 550.163.01", "GPU Firmware: \t N/A")
    return found(
        machine,
        "F04",
        "GSP firmware is off, unlike on the other nodes",
        "gsp.fleet drift.same_as_fleet warn GSP firmware",
        "drift.same_as_fleet warn kernel module",
    )


def narrow_gpu(machine: Machine) -> list[PlantedFault]:
    machine.set_link(machine.gpu_address(7), width=2)
    return found(
        machine,
        "F05",
        "GPU 7 is linked at x2",
        "pcie.link_width copies.host_to_device copies.host_at_once copies.host_both_ways copies.device_to_host"
        " fail GPU 7",
        "copies.nvbandwidth fail GPU 7",
    )


def narrow_nic(machine: Machine) -> list[PlantedFault]:
    address = machine.nic_address(2)
    parent = machine.pci(address)["parent"]
    machine.set_link(address, width=8)
    uptime_s = float(machine.sections["system"]["uptime_s"])
    machine.kernel(
        f"mlx5_core {address}: 252.048 Gb/s available PCIe bandwidth, limited by 32.0 GT/s PCIe x8 link at {parent} "
        "(capable of 504.112 Gb/s with 32.0 GT/s PCIe x16 link)",
        ago_s=uptime_s - 14,
    )
    return [
        *found(machine, "F05", "mlx5_2 is linked at x8", f"kernel_log.pcie_bandwidth pcie.link_width fail {address}"),
        *load_faults.nic_findings(machine, 2, 244.7, "F05", "mlx5_2 is linked at x8"),
    ]


def flapping_link(machine: Machine) -> list[PlantedFault]:
    address = machine.nic_address(5)
    for count in range(5):
        started = (7 - count) * _HOUR_S
        machine.kernel(f"mlx5_core {address} ibs5: Link down", ago_s=started)
        machine.kernel(f"mlx5_core {address} ibs5: Link up", ago_s=started - 7)
    machine.set_port("mlx5_5", 1, "counters.link_downed", "5")
    machine.set_netdev("ibs5", "carrier_changes", "12")
    return found(machine, "F06", "mlx5_5 lost its link 5 times in 24 hours", f"kernel_log.nic_flaps fail {address}")


def port_down(machine: Machine) -> list[PlantedFault]:
    machine.set_port("mlx5_3", 1, "state", "1: DOWN")
    machine.set_port("mlx5_3", 1, "phys_state", "3: Disabled")
    machine.set_netdev("ens4np0", "carrier", "0")
    machine.kernel(f"mlx5_core {machine.nic_address(3)} ens4np0: Link down", ago_s=5 * _HOUR_S)
    return found(
        machine,
        "F07",
        "the port of mlx5_3 is down",
        "rdma.rails fail RDMA",
        "rdma.port_state fail mlx5_3 port 1",
        f"kernel_log.nic_flaps warn {machine.nic_address(3)}",
    )


def power_brake(machine: Machine) -> list[PlantedFault]:
    machine.set_gpu(4, "event_reasons", 0x88)
    machine.set_gpu(4, "sm_clock_mhz", 510)
    what = "GPU 4 is held down by the power brake"
    machine.under_load(burn.NAME, *[load_faults.braked(4)] * 3)
    return [
        *found(machine, "F08", what, "clocks.event_reasons fail GPU 4", *load_faults.brake_findings(4)),
        *load_faults.slow_collectives(machine, 0.61, "F08", what),
    ]


def broken_nvlink(machine: Machine) -> list[PlantedFault]:
    machine.set_nvlink(1, 7, "state", 0)
    machine.set_nvlink(1, 7, "speed_mbps", dict(_NOT_SUPPORTED))
    machine.kernel("nvidia-nvswitch1: SXid (PCI:0000:6d:00.0): 20034, Fatal, Link 30 LTSSM Fault Up", ago_s=4 * _HOUR_S)
    return found(
        machine,
        "F13",
        "NVLink 7 of GPU 1 is down (SXid 20034)",
        "nvlink.links fail GPU 1",
        "kernel_log.sxid fail nvidia-nvswitch1",
    )


def stray_process(machine: Machine) -> list[PlantedFault]:
    size = 38_112 << 20
    machine.set_gpu(5, "memory_used_bytes", size)
    machine.set_gpu(
        5, "processes", [{"pid": 77120, "kind": "compute", "memory_bytes": size - (1 << 20), "name": "python3"}]
    )
    machine.set("jobs", "gpu_users", [{"pid": 77120, "comm": "python3", "uid": 1004}])
    for measurement in (burn.NAME, copies.NAME, nccl.NAME, rdma.NAME, groups.NAME):
        why = "the node is busy: python3 (pid 77120) on GPU 5"
        machine.not_measured(measurement, Busy(why, next_step="drain it, wait until its job ends, then run again"))
    return found(
        machine,
        "F15",
        "a program of an earlier job holds GPU 5",
        "idle.processes idle.memory fail GPU 5",
        "burn.* copies.* nccl.* nccl_groups.* rdma_bandwidth.* error",
    )


def small_shm(machine: Machine) -> list[PlantedFault]:
    size = 16 << 30
    machine.set("mounts", "usage./dev/shm", {"size_bytes": size, "free_bytes": size, "read_only": False})
    return found(machine, "F16", "shared memory has 16 GiB", "host.shared_memory fail /dev/shm")


def out_of_memory(machine: Machine) -> list[PlantedFault]:
    machine.kernel(
        "python3 invoked oom-killer: gfp_mask=0x140cca(GFP_HIGHUSER_MOVABLE|__GFP_COMP), order=0, oom_score_adj=0",
        ago_s=7201,
    )
    machine.kernel(
        "Out of memory: Killed process 51007 (python3) total-vm:2147183648kB, anon-rss:2040109512kB, file-rss:0kB, "
        "shmem-rss:0kB, UID:1004 pgtables:4096kB oom_score_adj:0",
        ago_s=7200,
    )
    return found(machine, "F17", "the kernel killed a program for want of memory", "kernel_log.memory warn memory")


def old_nccl(machine: Machine) -> list[PlantedFault]:
    machine.set("software", "nccl", [{"path": "/usr/lib/x86_64-linux-gnu/libnccl.so.2", "file": "libnccl.so.2.20.5"}])
    machine.set("software", "packages", machine.sections["software"]["packages"] | {"libnccl2": "2.20.5-1+cuda12.4"})
    return found(machine, "F20", "NCCL 2.20.5", "software.nccl_version warn", "drift.same_as_fleet warn NCCL version")


def low_limits(machine: Machine) -> list[PlantedFault]:
    text: str = machine.sections["limits"]["slurmd"]
    text = text.replace("131072               131072 ", "1024                 4096   ")
    text = text.replace(
        "memory         unlimited            unlimited", "memory         65536                65536    "
    )
    machine.set("limits", "slurmd", text)
    return found(
        machine,
        "F24",
        "slurmd passes on low limits: 1024 files, 64 KiB of locked memory",
        "host.open_files host.locked_memory fail slurmd",
    )


def stale_nccl_settings(machine: Machine) -> list[PlantedFault]:
    """An old image's nccl.conf turns InfiniBand off.

    It stands on a node that takes no part in launches over nodes: those would hang with it.
    """
    machine.set(
        "environment", "nccl_conf", "# written by the image of this cluster\nNCCL_DEBUG=WARN\nNCCL_IB_DISABLE=1"
    )
    return found(machine, "F26", "/etc/nccl.conf turns InfiniBand off", "software.nccl_settings fail /etc/nccl.conf")


def old_vbios(machine: Machine) -> list[PlantedFault]:
    old = "96.00.74.00.01"
    driver = machine.sections["driver"]
    for index, address in enumerate(machine.gpu_addresses):
        text: str = driver["gpus"][address]
        driver["gpus"][address] = text.replace("96.00.89.00.01", old)
        machine.set_gpu(index, "vbios", old)
    return found(
        machine,
        "F33",
        f"the GPUs have VBIOS {old}, unlike those of the other nodes",
        "drift.same_as_fleet warn GPU VBIOS",
    )


def _blocked(check: str) -> CannotMeasure:
    """What a run writes instead of a measurement that rests on a check which failed."""
    return CannotMeasure(f"blocked by {check}", next_step="fix that first, then run again", blocked_by=check)


FAULTS: Mapping[str, Sequence[Callable[[Machine], list[PlantedFault]]]] = {
    "hgx02": (load_faults.slow_nic, load_faults.hot_gpu, load_faults.memory_errors),
    "hgx03": (lost_gpu,),
    "hgx04": (load_faults.no_nvls, load_faults.bad_cable, load_faults.link_trains_down),
    "hgx05": (dead_fabric_manager, stale_nccl_settings),
    "hgx06": (load_faults.slow_all_reduce, load_faults.lost_words),
    "hgx07": (row_remap_pending, narrow_nic, old_vbios),
    "hgx08": (broken_nvlink, power_brake, out_of_memory),
    "hgx10": (flapping_link, gsp_timeout),
    "roce02": (port_down, row_remap_failed, stray_process),
    "roce03": (load_faults.wrong_results, load_faults.brake_under_load),
    "roce04": (load_faults.hung_all_reduce,),
    "roce05": (gsp_off, narrow_gpu, small_shm, low_limits, old_nccl, load_faults.no_nccl_tests),
}
