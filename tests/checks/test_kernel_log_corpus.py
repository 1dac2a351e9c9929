"""Real kernel logs judged as their truth says: what is bad is found once, and what only looks bad is not."""

import pytest
from fleet.machine import Machine
from support.corpus import corpus
from support.judging import judge_one

from nodegate.profile import Profile
from nodegate.records.finding import Record
from nodegate.records.verdict import Verdict

PASS, WARN, FAIL = Verdict.PASS, Verdict.WARN, Verdict.FAIL
CHECKS = (
    *(f"kernel_log.{name}" for name in ("xid", "sxid", "gpu_driver", "pcie_errors", "pcie_bandwidth", "nic_flaps")),
    *(f"kernel_log.{name}" for name in ("nic_errors", "memory", "storage", "host_faults")),
    *(f"host_log.{name}" for name in ("hardware_errors", "lockups", "hung_tasks", "nvme", "file_systems")),
)
AFTER_THEM_ALL_S = 1_740_400_000.0  # 2025-02-24: later than the newest of these lines
UPTIME_S = 200 * 86400.0
A_YEAR_H = {"kernel.log_window_h": 24 * 366, "kernel.nic_flap_window_h": 24 * 366, "kernel.nic_flap_max": 2}


def judged(check: str, file: str, profile: Profile = Profile.DELIVERY) -> Record:
    """What a check says of a node whose kernel log is this file, all of it of the present boot."""
    machine = Machine.hgx_h100(epoch_s=AFTER_THEM_ALL_S)
    machine.set("system", "uptime_s", UPTIME_S)
    machine.set("kernel_log", "lines", corpus(file).splitlines())
    machine.set("kernel_log", "source", "file:/var/log/kern.log")
    machine.set("kernel_log", "since_epoch_s", AFTER_THEM_ALL_S - UPTIME_S)
    return judge_one(check, machine, profile=profile, baseline=A_YEAR_H)


def said(record: Record) -> list[tuple[str, str, str]]:
    """Verdict, part and code of each finding that is no pass."""
    return [
        (finding.verdict.value, finding.part.label, finding.code)
        for finding in record.findings
        if finding.verdict is not PASS
    ]


@pytest.mark.parametrize(
    "file",
    [
        "azhpc_journald_audit_noise.txt",
        "gpud_kmsg_boot.txt",
        "gpud_kmsg_peermem.txt",
        "gpud_pstore_dmesg_mlx5.txt",  # a panic on purpose, a cable that nobody needs, a link that is not limited
    ],
)
@pytest.mark.parametrize("check", CHECKS)
def test_healthy_logs_pass(check: str, file: str) -> None:
    record = judged(check, f"kernel/{file}")
    assert record.verdict is PASS, record.message


BAD = {
    ("kernel_log.xid", "kernel/gpud_fallen_off_bus_variants.txt"): (
        ("fail", "GPU 0000:05:00.0", "79"),
        ("fail", "GPU 0000:18:00.0", "79"),
        ("fail", "GPU 0000:29:00.0", "79"),
    ),
    # reported many times, it is one fault of one board
    ("kernel_log.xid", "kernel/gpud_xid119_gsp_rpc_history.txt"): (
        ("fail", "GPU 4 (0000:9b:00.0, S/N 1650001000004)", "119"),
    ),
    ("kernel_log.xid", "kernel/stas_xid63_row_remapper.txt"): (("warn", "GPU 0000:10:1c.0", "63"),),
    ("kernel_log.nic_errors", "kernel/nvsentinel_docs_nic.txt"): (
        ("fail", "NIC 0000:03:00.0 (eno1)", "nic_command_timeout"),
        ("fail", "NIC 0000:3b:00.0", "nic_command_timeout"),
        ("fail", "NIC 0000:5c:00.0", "nic_module_hot"),
        ("fail", "NIC 0000:65:00.0 (ens15np0)", "nic_queue_timeout"),
        ("fail", "NIC 0000:d2:00.0", "nic_health_lost"),
        ("warn", "NIC 0000:12:00.0", "nic_slot_power"),
    ),
    ("host_log.lockups", "kernel/gpud_cpu_lockup_lines.txt"): (
        ("fail", "CPU 0", "soft_lockup"),
        ("fail", "CPU 18", "soft_lockup"),
    ),
    ("host_log.hung_tasks", "kernel/gpud_cpu_lockup_lines.txt"): (
        ("warn", "process jfsmount:136986", "hung_task"),
        ("warn", "process kcompactd1:1177", "hung_task"),
    ),
    ("kernel_log.host_faults", "kernel/gpud_filemax.txt"): (("fail", "host", "open_files_exhausted"),),
    ("kernel_log.host_faults", "kernel/gpud_nccl_segfault_iso.txt"): (("warn", "program", "nccl_crashed"),),
    ("kernel_log.nic_flaps", "rdma/gcm_link_flaps_syslog.txt"): (
        ("warn", "eth0", "link down"),
        ("warn", "ib1", "link down"),
    ),
}


@pytest.mark.parametrize(("check", "file"), BAD)
def test_what_is_bad_is_found_once_and_nothing_else(check: str, file: str) -> None:
    profile = Profile.BOOTCHECK if check == "kernel_log.xid" else Profile.DELIVERY
    assert sorted(said(judged(check, file, profile))) == list(BAD[check, file])


def test_sxids_are_judged_by_their_own_word() -> None:
    found = said(judged("kernel_log.sxid", "kernel/gpud_sxid_lines.txt"))
    judgements = {("warn", "12028"), ("fail", "20034"), ("warn", "11111"), ("warn", "unknown form")}
    assert {(verdict, code) for verdict, _, code in found} == judgements


def test_sixteen_xid_13_and_a_43_are_one_warning() -> None:
    record = judged("kernel_log.xid", "kernel/gpud_dmesg_iso_xid13_43_oom.txt")
    assert said(record) == [("warn", "GPU 0000:38:00.0", "13")]
    assert "16 times" in record.message
    assert "followed by Xid 43" in record.message


def test_kills_for_want_of_memory_are_found_in_each_form() -> None:
    record = judged("kernel_log.memory", "kernel/gpud_dmesg_iso_xid13_43_oom.txt")
    assert [(finding.verdict, finding.observed) for finding in record.findings] == [(WARN, 3)]


def test_the_switches_follow_the_lost_gpu() -> None:
    file = "kernel/gpud_sxid_readme_xid79_sxid20034.txt"
    assert said(judged("kernel_log.xid", file)) == [("fail", "GPU 0000:91:00.0 (S/N 1653723052734)", "79")]
    switches = judged("kernel_log.sxid", file)
    assert {whose.split()[0] for _, whose, _ in said(switches)} == {f"nvidia-nvswitch{n}" for n in (0, 1, 2)}
    assert {verdict for verdict, _, _ in said(switches)} == {"warn"}
    assert all("follows the loss of GPU 0000:91:00.0" in finding.message for finding in switches.findings)


def test_nvlink_5_links_are_judged_by_their_own_word() -> None:
    record = judged("kernel_log.xid", "kernel/gpud_xid145_149_realnvl5.txt")
    assert {verdict for verdict, _, code in said(record) if code == "145"} == {"warn"}
    fatal = {whose for verdict, whose, code in said(record) if (verdict, code) == ("fail", "149")}
    assert fatal == {f"GPU {domain}:01:00.0" for domain in ("0008", "0018", "0019")}


def test_154_is_reported_beside_the_fault_and_alone_only_where_there_is_none() -> None:
    record = judged("kernel_log.xid", "kernel/gpud_xid149_154_gb200.txt")
    assert sorted(said(record)) == [
        ("fail", "GPU 0008:01:00.0", "149"),
        ("fail", "GPU 0009:01:00.0", "149"),
        ("fail", "GPU 0018:01:00.0", "154"),
        ("fail", "GPU 0019:01:00.0", "154"),
    ]
    by_gpu = {finding.part.label: finding.action for finding in record.findings}
    assert by_gpu["GPU 0009:01:00.0"].startswith("the driver asks for: Drain and Reset;")
    assert by_gpu["GPU 0008:01:00.0"].startswith("the driver asks for: GPU Reset Required;")


def test_every_xid_of_a_mixed_log_is_there() -> None:
    record = judged("kernel_log.xid", "kernel/nvsentinel_xid_sxid_lines.txt")
    codes = {code for _, _, code in said(record)}
    assert codes >= {"13", "31", "79", "94", "145"}


def test_two_devices_are_limited_by_their_uplink() -> None:
    record = judged("kernel_log.pcie_bandwidth", "kernel/stas_limited_by_pcie.txt")
    assert [verdict for verdict, _, _ in said(record)] == ["fail", "fail"]
    assert "PCIe bandwidth 252 Gb/s, expected at least 504 Gb/s" in record.findings[0].message
    assert [finding.part.pci for finding in record.findings] == ["0000:04:00.0", "0000:8b:00.0"]
    assert "link at 0000:01:00.0" in record.findings[0].note


def test_nic_faults_are_found_and_refused_registers_are_not() -> None:
    record = judged("kernel_log.nic_errors", "kernel/gpud_mlx5_lines.txt")
    assert {code for _, _, code in said(record)} == {"nic_slot_power", "nic_module_hot"}
    assert not any("ACCESS_REG" in finding.message for finding in record.findings)


def test_nic_faults_and_a_stuck_cpu_of_one_journal() -> None:
    nics = judged("kernel_log.nic_errors", "kernel/nvsentinel_mlx5_lines.txt")
    found = {(whose, code) for _, whose, code in said(nics)}
    assert found >= {
        ("NIC 0000:03:00.0 (eno1)", "nic_command_timeout"),
        ("NIC 0000:41:00.0", "nic_health_lost"),
        ("eth0", "nic_queue_timeout"),
    }
    assert not any("unplugged" in finding.message for finding in nics.findings)
    assert said(judged("host_log.lockups", "kernel/nvsentinel_mlx5_lines.txt")) == [("fail", "CPU 94", "soft_lockup")]
