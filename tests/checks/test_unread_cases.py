"""What each check says when the one reading that it rests on cannot be had: an error, word for word, never a pass."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.judging import Case, assert_case

from nodegate.records.verdict import Verdict

if TYPE_CHECKING:
    from collections.abc import Callable

    from fleet.machine import Machine

ERROR = Verdict.ERROR
_SEE = "see the evidence file for what the node answered"
_LOG = (
    "node: kernel_log could not be read: denied: /dev/kmsg: Operation not permitted - run as root, or set "
    "ansible_become for this node, or let the login read the journal (group systemd-journal)"
)


def unread(reading: str) -> Callable[[Machine], None]:
    """One reading of GPU 3 fails."""
    return lambda machine: machine.set_gpu(3, reading, {"why": "failed", "detail": "NVML 999: Unknown Error"})


def no_log(machine: Machine) -> None:
    machine.section_fails("kernel_log", "denied", "/dev/kmsg: Operation not permitted")


def switch_without_config(machine: Machine) -> None:
    switch = next(device for device in machine.sections["pci"] if device["class"] == "0x068000")
    switch["config"] = {"why": "failed", "detail": "EIO"}


def of_gpu(check: str, reading: str, what: str, more: str = "") -> Case:
    line = f"{{gpu3}}: could not read {what}: failed: NVML 999: Unknown Error - {_SEE}{more}"
    return Case("the reading fails", check, ERROR, line, unread(reading))


CASES = (
    of_gpu("clocks.memory_max", "memory_clock_max_mhz", "highest memory clock"),
    of_gpu("clocks.violations", "violation_ns", "time slowed by heat", " (and 2 more)"),
    of_gpu("ecc.remapped_rows", "remapped_rows", "rows remapped for uncorrectable errors"),
    of_gpu("ecc.remapped_rows_new", "remapped_rows", "remapped rows"),
    of_gpu("gpu.persistence", "persistence_mode", "persistence mode"),
    of_gpu("gpu.compute_mode", "compute_mode", "compute mode"),
    of_gpu("gpu.mig", "mig_mode", "MIG mode", " (and 1 more)"),
    of_gpu("gsp.version", "gsp_firmware", "GSP firmware version"),
    of_gpu("power.enforced", "power_limit_enforced_mw", "power limit in force"),
    Case(
        "a switch's configuration space cannot be read",
        "fabric.nvswitches",
        ERROR,
        f"NVSwitch {{switch}}: could not read its PCIe configuration space: failed: EIO - {_SEE}",
        switch_without_config,
    ),
    *(
        Case("the log cannot be read", f"kernel_log.{name}", ERROR, _LOG, no_log)
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


@pytest.mark.parametrize("case", CASES, ids=str)
def test_case(case: Case) -> None:
    assert_case(case)
