"""One fault, the forms in which kernels of other years, drivers and machines print it."""

import pytest
from fleet.machine import Machine
from support.judging import judge_one

from nodegate.records.verdict import Verdict

NIC = "mlx5_core 0000:5c:00.0: "


def said(check, *lines):
    machine = Machine.hgx_h100()
    for line in lines:
        machine.kernel(line, ago_s=600.0)
    record = judge_one(check, machine)
    return [f"{each.verdict.value} {each.code}" for each in record.findings if each.verdict is not Verdict.PASS]


FAILS = {
    "host_log.lockups": (
        ("INFO: rcu_sched self-detected stall on CPU { 7}  (t=21001 jiffies g=87 q=2)", "cpu_stall"),
        ("INFO: rcu_sched_state detected stall on CPU 3 (t=15000 jiffies)", "cpu_stall"),
    ),
    "kernel_log.host_faults": (
        ("general protection fault, probably for non-canonical address 0xdead0000: 0000 [#1] SMP", "kernel_crash"),
        ("Oops: general protection fault: 0000 [#2] PREEMPT SMP", "kernel_crash"),
        ("BUG: kernel NULL pointer dereference, address: 0000000000000028", "kernel_crash"),
    ),
    "kernel_log.gpu_driver": (
        ("NVRM: kgspWaitForGfwBootOk_GH100: failed to wait for GFW boot: 0x65", "gsp_boot_failed"),
    ),
    "host_log.hardware_errors": (
        ("Memory failure: 0x77f: Sending SIGBUS to python3:9 due to x", "memory_poisoned"),
        ("mce: Uncorrected hardware memory error in user-access at 77f0", "memory_poisoned"),
        (
            "[Hardware Error]: CPU:9 (19:11:1) MC0_STATUS[-|UE|MiscV|AddrV|-|-|-]: 0xbc00080001010135",
            "machine_check_uncorrected",
        ),
        ("EDAC skx MC2: CPU 4: Machine Check Event: 0x0 Bank 13: 0xbd80000000100e90", "machine_check_uncorrected"),
    ),
    "kernel_log.nic_errors": (
        (f"{NIC}poll_health:1012:(pid 0): Fatal error 3 detected", "nic_hardware_error"),
        (
            f"{NIC}print_health_info:506:(pid 0): Health issue observed, ICM fetch PCI error, severity(3) ERROR:",
            "nic_hardware_error",
        ),
        ("mlx4_core 0000:5c:00.0: Internal error detected:", "nic_hardware_error"),
        (f"{NIC}print_health_info:506:(pid 0): Health issue observed, High temperature, severity(3) ERROR:", "nic_hot"),
        (f"{NIC}mlx5_pci_err_detected Device state = 1 Exit, result = 3, need reset", "nic_pcie_lost"),
        ("NETDEV WATCHDOG: ens1f0 (bnxt_en): transmit queue 2 timed out", "nic_queue_timeout"),
        ("ice 0000:5c:00.0 ens1f0: NETDEV WATCHDOG: CPU: 3: transmit queue 17 timed out 5768 ms", "nic_queue_timeout"),
    ),
}


@pytest.mark.parametrize(
    ("check", "line", "expected"), [(check, *row) for check, rows in FAILS.items() for row in rows]
)
def test_a_fault_fails_in_each_of_its_forms(check, line, expected):
    assert said(check, line) == [f"fail {expected}"]


WARNS = {
    "kernel_log.nic_errors": (
        (f"{NIC}Port module event[error]: module 0, Cable error, Bad or shorted cable/module", "nic_cable_error"),
    ),
    "kernel_log.pcie_errors": (
        (
            "pcieport 0000:64:01.0: AER: Uncorrected (Non-Fatal) error received: 0000:65:00.0",
            "pcie_uncorrected_received",
        ),
    ),
    "host_log.file_systems": (("BTRFS critical (device nvme1n1p3): corrupt leaf, bad key order", "filesystem_error"),),
    "kernel_log.memory": (("Out of memory (oom_kill_allocating_task): Killed process 77 (python3)", "oom_host"),),
    "host_log.hung_tasks": (("INFO: task data loader 3:4711 blocked for more than 120 seconds.", "hung_task"),),
    "kernel_log.storage": (
        (
            "LNet: 99:0:(o2iblnd_cb.c:3174:kiblnd_check_conns()) Timed out tx for 10.9.8.7@o2ib: 4030 seconds",
            "lustre_lost",
        ),
        (
            "Lustre: 9:0:(client.c:21:ptlrpc_expire_one_request()) @@@ Request sent has timed out for slow reply",
            "lustre_lost",
        ),
    ),
}


@pytest.mark.parametrize(
    ("check", "line", "expected"), [(check, *row) for check, rows in WARNS.items() for row in rows]
)
def test_a_lesser_fault_warns_in_each_of_its_forms(check, line, expected):
    assert said(check, line) == [f"warn {expected}"]


PASSES = {
    "kernel_log.host_faults": ("traps: python3[4242] general protection fault ip:7f00 sp:7ffe error:0 in libx.so",),
    "kernel_log.nic_errors": (
        f"{NIC}wait_fw_init:380:(pid 4): Waiting for FW initialization, timeout abort in 100s",
        f"{NIC}Port module event: module 0, Cable plugged",
    ),
    "kernel_log.pcie_errors": ("pcieport 0000:64:01.0: AER: Corrected error received: 0000:65:00.0",),
}


@pytest.mark.parametrize(("check", "line"), [(check, line) for check, rows in PASSES.items() for line in rows])
def test_what_only_looks_like_it_passes(check, line):
    assert said(check, line) == []


def test_a_fatal_error_of_a_nic_is_one_finding_however_long_its_report():
    lines = (f"{NIC}poll_health:1012:(pid 0): Fatal error 1 detected", f"{NIC}synd(0x1): firmware internal error")
    assert said("kernel_log.nic_errors", *lines) == ["fail nic_hardware_error"]


NAMED = {
    "kernel_log.pcie_errors": (
        ("pciehp 0000:97:01.0:pcie24: slot(6): Link Down event", "0000:97:01.0"),
        (
            "nvidia 0000:97:00.0: AMD-Vi: Event logged [IO_PAGE_FAULT domain=0x001e address=0xfdf9100000]",
            "0000:97:00.0",
        ),
        ("AMD-Vi: Event logged [IO_PAGE_FAULT device=97:00.0 domain=0x12]", "0000:97:00.0"),
    ),
    "kernel_log.nic_errors": (("ice 0000:97:00.0: probe with driver ice failed with error -5", "0000:97:00.0"),),
    "host_log.file_systems": (("WARNING: Pool 'tank' has encountered an uncorrectable I/O failure", "tank"),),
}


@pytest.mark.parametrize(("check", "line", "part"), [(check, *row) for check, rows in NAMED.items() for row in rows])
def test_the_finding_names_the_device_that_the_line_names(check, line, part):
    machine = Machine.hgx_h100()
    machine.kernel(line, ago_s=600.0)
    (finding,) = judge_one(check, machine).findings
    assert finding.verdict in (Verdict.WARN, Verdict.FAIL)
    assert part in finding.part.label
