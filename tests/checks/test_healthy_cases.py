"""What each check of facts says of a healthy HGX H100, of which the inventory says nothing, and without its reading.

A reading that cannot be had is an error, word for word, never a pass.
"""

from support.cases import ERROR, NOT_JUDGED, PASS, SKIP, asserting, of, unread
from support.judging import Case, fails, gpu

from nodegate import suite
from nodegate.measure.registry import is_active


def failing(reading):
    return gpu(3, reading, unread("failed", "NVML 999: Unknown Error"))


def switch_without_config(machine):
    switch = next(device for device in machine.sections["pci"] if device["class"] == "0x068000")
    switch["config"] = unread("failed", "EIO")


NO_LOG = fails("kernel_log", "denied", "/dev/kmsg: Operation not permitted")
OF_A_GPU = {
    "clocks.memory_max": "memory_clock_max_mhz",
    "clocks.violations": "violation_ns",
    "ecc.remapped_rows": "remapped_rows",
    "ecc.remapped_rows_new": "remapped_rows",
    "gpu.persistence": "persistence_mode",
    "gpu.compute_mode": "compute_mode",
    "gpu.mig": "mig_mode",
    "gsp.version": "gsp_firmware",
    "power.enforced": "power_limit_enforced_mw",
}
OF_THE_LOG = (
    *("gpu_driver", "host_faults", "memory", "nic_errors"),
    *("nic_flaps", "pcie_bandwidth", "pcie_errors", "storage"),
)
CASES = (
    *(Case("the reading fails", ERROR, failing(reading), check=check) for check, reading in OF_A_GPU.items()),
    *of("fabric.nvswitches")(Case("a switch's configuration space cannot be read", ERROR, switch_without_config)),
    *(Case("the log cannot be read", ERROR, NO_LOG, check=f"kernel_log.{name}") for name in OF_THE_LOG),
)

# What has no limit there, nobody asked for, or takes more nodes.
NO_LIMIT = ("contract.gpudirect", "contract.nccl_unset", "drift.same_as_fleet", "gsp.fleet", "host.memory_size")
NOT_HERE = dict.fromkeys(NO_LIMIT, NOT_JUDGED) | dict.fromkeys(
    (
        *("ecc.retired_pages", "fabric.imex", "fabric.imex_domain", "fabric.one_domain", "fabric.summary"),
        *("gpu.recovery_action", "host.mounts", "host.ports", "lemons.fails_again", "nvlink.bit_errors"),
        *("ordered.parts", "ordered.serials", "ordered.settings", "ordered.versions", "platform.serial"),
        *("rdma.gid_index", "rdma.gids", "rdma.mtu", "software.required", "upkeep.written"),
    ),
    SKIP,
)
HEALTHY = tuple(
    Case("healthy", NOT_HERE.get(check.id, PASS), check=check.id)
    for check in suite.checks()
    if not is_active(check.asks_for)
)


test_case = asserting(CASES, HEALTHY)
