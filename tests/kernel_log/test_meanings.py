"""One row a meaning, whatever the driver and its branch: the words of each, the part that the line names, what ends it.

Sources of the forms: the drivers' own source (NVIDIA open kernel modules 595, mlx5_core of OFED 24.07, bnxt_en, ice,
ena, efa, ionic, mana, Linux 5.15 and 6.x). The values are invented.
"""

import pytest
from fleet.machine import Machine
from support.judging import judge_one

from nodegate.kernel_log.incidents import rule_of
from nodegate.knowledge.tables import lines, recoveries, rows
from nodegate.node_side.probe.kernel_lines import KINDS, kind_of
from nodegate.profile import Profile
from nodegate.records.verdict import Verdict

FAIL, WARN = Verdict.FAIL, Verdict.WARN
GPU = "GPU 3 (0000:3d:00.0, S/N 1650001000003)"
NIC = "mlx5_1 (0000:1a:00.0, ibs1)"
BDF = "0000:1a:00.0"
MLX5 = "mlx5_core 0000:5c:00.0: "
HEALTH = f"{MLX5}print_health_info:506:(pid 0): Health issue observed, "
INFO = 6  # the level with which some drivers print what is severe

CUT_OFF = f"mlx5_core {BDF}: wait_func:9:(pid 0): QUERY(0x770) timeout. Will cause a leak of a command resource"
NO_SPACE = f"pci {BDF}: BAR 1: no space for [mem size 0x2000 64bit pref]"

MEANINGS = (  # the row, the part, and a line
    ("gsp_heartbeat_lost", GPU, "NVRM: GPU3 _kgspIsHeartbeatTimedOut: Heartbeat timed out, currentTimeMs 842193"),
    ("gsp_heartbeat_lost", GPU, "NVRM: GPU 0000:3d:00.0: heartbeat TIMED OUT"),
    ("gsp_heartbeat_lost", "driver", "NVRM: _kgspRpcRecvPoll: GSP RM heartbeat timed out"),
    ("gsp_boot_failed", GPU, "NVRM: GPU3 kgspInitRm_IMPL: need firmware to initialize GSP"),
    ("fsp_failed", GPU, "NVRM: GPU3 kfspWaitForSecureBoot_GB100: Timed out waiting for FSP queue"),
    ("gpu_bus_fault", GPU, "NVRM: GPU3 kgmmuInvalidateTlb_GB100: timed out"),
    ("nvlink_uncontained", GPU, "NVRM: GPU3 knvlinkDo_IMPL: uncontained NVLink error, degraded mode"),
    ("gpu_power_cable", GPU, "NVRM: GPU 0000:3d:00.0: GPU does not have the necessary power cables connected."),
    ("nvswitch_failed", "nvidia-nvswitch2", "nvidia-nvswitch2: Failed to enable PCI device : -22"),
    ("nic_command_timeout", NIC, CUT_OFF),
    ("nic_command_timeout", NIC, f"mana {BDF}: HWC: Request timed out!"),
    ("nic_command_timeout", NIC, f"ena {BDF} ens1: Reg read timeout occurred"),
    ("nic_firmware_stalled", NIC, f"bnxt_en {BDF} ens1: Firmware not responding, status: 0x8000"),
    ("nic_firmware_stalled", NIC, f"ice {BDF}: Firmware recovery mode detected. Limiting functionality."),
    ("nic_firmware_stalled", "mlx5_1 (0000:1a:00.0, ibs1)", "infiniband mlx5_1: critical PE Error, GLPE_CRITERR=0x123"),
    ("nic_not_recovered", NIC, f"ice {BDF}: reset 3 failed"),
    ("nic_not_started", NIC, f"bnxt_en {BDF}: Cannot enable PCI device, aborting"),
    ("pcie_link_dead", NIC, f"pcieport {BDF}: pciehp: Slot(4): Power fault"),
    ("pcie_no_address", NIC, f"pci {BDF}: BAR 1: no space for [mem size 0x2000000000 64bit pref]"),
    ("pcie_no_address", NIC, f"mlx5_core {BDF}: BAR 0 [mem size 0x02000000 64bit pref]: failed to assign"),
    ("iommu_stopped", NIC, f"pci {BDF}: AMD-Vi: Event logged [IOTLB_INV_TIMEOUT device=1a:00.0 address=0x10]"),
    ("panic_of_hardware", "kernel", "Kernel panic - not syncing: Fatal hardware error!"),
    ("bus_error_of_hardware", "CPU 12", "SError Interrupt on CPU12, code 0x00000000be000011 -- python3"),
    ("nvme_down", "disk nvme2", "nvme nvme2: Identify Controller failed (-4)"),
    ("filesystem_cannot_write", "file system nvme3n1p1", "EXT4-fs (nvme3n1p1): I/O error while writing superblock"),
    ("raid_stopped", "file system md0", "md/raid:md0: Cannot continue operation (2/6 failed)."),
)  # fmt: skip
NEVER_FAIL = (
    "NVRM: GPU3 knvlinkDo_IMPL: NVLink is unavailable, failing.",
    "NVRM: GPU3 knvlinkDo_IMPL: GPU 3 doesn't have a fabric address",
    "NVRM: GPU3 _kgspClassifyGspTimeout: =================== GSP-RM is slow ===================",
    "NVRM: open of non-existent GPU with minor number 7",
    "NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  595.45.04",
    f"mlx5_core {BDF}: wait_fw_init:380:(pid 0): Waiting for FW initialization, timeout abort in 100s",
    f"bnxt_en {BDF} ens1: Discarding out of seq response: 0x3a1 for msg {{0x23 0x3a2}}",
    f"pci {BDF}: BAR 13: no space for [io  size 0x1000]",
    f"pci {BDF}: BAR 2: failed to assign [io  size 0x0020]",
    "pcieport 0000:97:01.0: Data Link Layer Link Active not set in 1000 msec",
    "pci 0000:c1:00.0: BAR 1: no space for [mem size 0x2000 64bit pref]",  # no GPU, switch or NIC is there
    "tsc: Marking TSC unstable due to TSC halts in idle",
    "rcu: INFO: rcu_sched detected expedited stalls on CPUs/tasks: {",
    "mce: CMCI storm detected: switching to poll mode",
    "nvme nvme0: missing or invalid SUBNQN field.",
)
RECOVERED = (  # an error, and the line after which it only warns
    (CUT_OFF, f"mlx5_core {BDF}: wait_func_handle_exec_timeout:9:(pid 0): cmd[3]: X(0x805) recovered after timeout"),
    (f"mlx5_core {BDF}: mlx5_health_try_recover:9:(pid 0): starting health recovery flow",
     f"mlx5_core {BDF}: mlx5_health_try_recover:9:(pid 0): health recovery succeeded"),
    (NO_SPACE, f"pci {BDF}: BAR 1: assigned [mem 0x2000-0x3fff 64bit pref]"),
)  # fmt: skip
FORMS = (  # the verdict, the row, and a line in one of the forms of kernels and drivers of other years
    (FAIL, "cpu_stall", "INFO: rcu_sched self-detected stall on CPU { 7}  (t=21001 jiffies g=87 q=2)"),
    (FAIL, "cpu_stall", "INFO: rcu_sched_state detected stall on CPU 3 (t=15000 jiffies)"),
    (FAIL, "kernel_crash", "general protection fault, probably for non-canonical address 0xdead0000: 0000 [#1] SMP"),
    (FAIL, "kernel_crash", "Oops: general protection fault: 0000 [#2] PREEMPT SMP"),
    (FAIL, "kernel_crash", "BUG: kernel NULL pointer dereference, address: 0000000000000028"),
    (FAIL, "gsp_boot_failed", "NVRM: kgspWaitForGfwBootOk_GH100: failed to wait for GFW boot: 0x65"),
    (FAIL, "memory_poisoned", "Memory failure: 0x77f: Sending SIGBUS to python3:9 due to x"),
    (FAIL, "memory_poisoned", "mce: Uncorrected hardware memory error in user-access at 77f0"),
    (FAIL, "machine_check_uncorrected",
     "[Hardware Error]: CPU:9 (19:11:1) MC0_STATUS[-|UE|MiscV|AddrV|-|-|-]: 0xbc00080001010135"),
    (FAIL, "machine_check_uncorrected", "EDAC skx MC2: CPU 4: Machine Check Event: 0x0 Bank 13: 0xbd80000000100e90"),
    (FAIL, "nic_hardware_error", f"{MLX5}poll_health:1012:(pid 0): Fatal error 3 detected"),
    (FAIL, "nic_hardware_error", f"{HEALTH}ICM fetch PCI error, severity(3) ERROR:"),
    (FAIL, "nic_hardware_error", "mlx4_core 0000:5c:00.0: Internal error detected:"),
    (FAIL, "nic_hot", f"{HEALTH}High temperature, severity(3) ERROR:"),
    (FAIL, "nic_pcie_lost", f"{MLX5}mlx5_pci_err_detected Device state = 1 Exit, result = 3, need reset"),
    (FAIL, "nic_queue_timeout", "NETDEV WATCHDOG: ens1f0 (bnxt_en): transmit queue 2 timed out"),
    (FAIL, "nic_queue_timeout", "ice 0000:5c:00.0 ens1f0: NETDEV WATCHDOG: CPU: 3: transmit queue 7 timed out 5768 ms"),
    (WARN, "nic_cable_error", f"{MLX5}Port module event[error]: module 0, Cable error, Bad or shorted cable/module"),
    (WARN, "pcie_uncorrected_received",
     "pcieport 0000:64:01.0: AER: Uncorrected (Non-Fatal) error received: 0000:65:00.0"),
    (WARN, "filesystem_error", "BTRFS critical (device nvme1n1p3): corrupt leaf, bad key order"),
    (WARN, "oom_host", "Out of memory (oom_kill_allocating_task): Killed process 77 (python3)"),
    (WARN, "hung_task", "INFO: task data loader 3:4711 blocked for more than 120 seconds."),
    (WARN, "lustre_lost", "LNet: 9:0:(o2iblnd_cb.c:31:kiblnd_check_conns()) Timed out tx for 10.9.8.7@o2ib: 4 seconds"),
    (WARN, "lustre_lost",
     "Lustre: 9:0:(client.c:21:ptlrpc_expire_one_request()) @@@ Request sent has timed out for slow reply"),
)  # fmt: skip
NO_FAULT = (
    "traps: python3[4242] general protection fault ip:7f00 sp:7ffe error:0 in libx.so",
    f"{MLX5}wait_fw_init:380:(pid 4): Waiting for FW initialization, timeout abort in 100s",
    f"{MLX5}Port module event: module 0, Cable plugged",
    "pcieport 0000:64:01.0: AER: Corrected error received: 0000:65:00.0",
)
NAMED = (  # the part that a line names
    ("0000:97:01.0", "pciehp 0000:97:01.0:pcie24: slot(6): Link Down event"),
    ("0000:97:00.0", "nvidia 0000:97:00.0: AMD-Vi: Event logged [IO_PAGE_FAULT domain=0x001e address=0xfdf9100000]"),
    ("0000:97:00.0", "AMD-Vi: Event logged [IO_PAGE_FAULT device=97:00.0 domain=0x12]"),
    ("0000:97:00.0", "ice 0000:97:00.0: probe with driver ice failed with error -5"),
    ("tank", "WARNING: Pool 'tank' has encountered an uncorrectable I/O failure"),
)
CHECKS = {
    "memory": "kernel_log.memory",
    "hung_task": "host_log.hung_tasks",
    "gpu_driver": "kernel_log.gpu_driver",
    "pcie": "kernel_log.pcie_errors",
    "nic": "kernel_log.nic_errors",
    "storage": "kernel_log.storage",
    "host": "kernel_log.host_faults",
    "lockup": "host_log.lockups",
    "nvme": "host_log.nvme",
    "file_system": "host_log.file_systems",
    "hardware_error": "host_log.hardware_errors",
}


def told(*said, profile=Profile.DELIVERY, by=()):
    """Verdict, row and part of what the checks of the lines' rows, and those of `by`, say of them that is no pass."""
    machine = Machine.hgx_h100()
    subjects = {getattr(rule_of(line), "subject", "") for line in said}
    for number, line in enumerate(said):
        machine.kernel(line, ago_s=600.0 - number)
    findings = [
        finding
        for check in sorted(check for name, check in CHECKS.items() if name in subjects or check in by)
        for finding in judge_one(check, machine, profile=profile).findings
    ]
    return [(each.verdict, each.code, each.part.label) for each in findings if each.verdict is not Verdict.PASS]


@pytest.mark.parametrize(("row", "whose", "line"), MEANINGS)
def test_a_meaning_is_found_in_the_words_of_each_driver_and_names_the_part(row, whose, line):
    assert kind_of(line, INFO) in KINDS
    assert told(line) == [(FAIL, row, whose)]


@pytest.mark.parametrize(("verdict", "row", "line"), FORMS)
def test_a_meaning_is_found_in_each_of_its_forms(verdict, row, line):
    assert [(found, code) for found, code, _ in told(line)] == [(verdict, row)]


@pytest.mark.parametrize("line", NO_FAULT)
def test_what_only_looks_like_a_fault_passes(line):
    assert told(line, by=("kernel_log.host_faults", "kernel_log.nic_errors", "kernel_log.pcie_errors")) == []


@pytest.mark.parametrize(("part", "line"), NAMED)
def test_the_finding_names_the_device_that_the_line_names(part, line):
    ((_, _, whose),) = told(line)
    assert part in whose


def test_a_fatal_error_of_a_nic_is_one_finding_however_long_its_report():
    found = told(f"{MLX5}poll_health:1012:(pid 0): Fatal error 1 detected", f"{MLX5}synd(0x1): firmware internal error")
    assert [(verdict, row) for verdict, row, _ in found] == [(FAIL, "nic_hardware_error")]


@pytest.mark.parametrize("profile", [Profile.DELIVERY, Profile.BOOTCHECK])
@pytest.mark.parametrize("line", NEVER_FAIL)
def test_what_healthy_machines_print_never_fails(line, profile):
    assert {verdict for verdict, _, _ in told(line, profile=profile)} <= {WARN}


@pytest.mark.parametrize(("error", "end"), RECOVERED)
def test_what_recovers_only_warns(error, end):
    row = getattr(rule_of(error), "id", "")
    other = end.replace(BDF, "0000:3d:00.0")
    assert [verdict for verdict, code, _ in told(error, end) if code == row] == [WARN]
    assert [verdict for verdict, code, _ in told(error, other) if code == row] == [FAIL]
    assert [verdict for verdict, code, _ in told(end, error) if code == row] == [FAIL]


def test_what_follows_a_fault_of_the_same_device_is_its_detail():
    stall = f"bnxt_en {BDF}: QPLIB: bnxt_re_is_fw_stalled: FW STALL Detected. cmdq[0xe]=0x3"
    refused = f"bnxt_en {BDF} bnxt_re1: Failed to modify HW QP"
    assert told(stall, refused) == [(FAIL, "nic_firmware_stalled", NIC)]
    assert told(refused) == [(FAIL, "nic_resource_failed", NIC)]


def test_every_line_that_ends_an_error_is_of_a_row_that_exists():
    assert recoveries().keys() <= {rule.id for rule in lines()}
    for row in rows("recovered_lines.csv"):
        assert all(recoveries()[name].search(row["example"]) for name in row["rows"].split())
        assert kind_of(row["example"], INFO) in KINDS
