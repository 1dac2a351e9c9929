"""What each check says when the one reading that it rests on cannot be had: an error, word for word, never a pass."""

from support.cases import ERROR, asserting, of, unread
from support.judging import Case, fails, gpu


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
CASES = (
    *(Case("the reading fails", ERROR, failing(reading), check=check) for check, reading in OF_A_GPU.items()),
    *of("fabric.nvswitches")(Case("a switch's configuration space cannot be read", ERROR, switch_without_config)),
    *(
        Case("the log cannot be read", ERROR, NO_LOG, check=f"kernel_log.{name}")
        for name in (
            "gpu_driver",
            "host_faults",
            "memory",
            "nic_errors",
            "nic_flaps",
            "pcie_bandwidth",
            "pcie_errors",
            "storage",
        )
    ),
)


test_case = asserting(CASES)
