"""Real kernel logs judged as their truth says: what is bad is found once, and what only looks bad is not."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from fleet.machine import Machine
from support.corpus import corpus
from support.judging import judge_one

from nodegate.profile import Profile
from nodegate.records.verdict import Verdict

if TYPE_CHECKING:
    from nodegate.records.finding import Record

PASS, WARN, FAIL = Verdict.PASS, Verdict.WARN, Verdict.FAIL
CHECKS = (
    "kernel_log.xid",
    "kernel_log.sxid",
    "kernel_log.gpu_driver",
    "kernel_log.pcie_errors",
    "kernel_log.pcie_bandwidth",
    "kernel_log.nic_flaps",
    "kernel_log.nic_errors",
    "kernel_log.memory",
    "kernel_log.storage",
    "kernel_log.host_faults",
    "host_log.hardware_errors",
    "host_log.lockups",
    "host_log.hung_tasks",
    "host_log.nvme",
    "host_log.file_systems",
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


def test_sixteen_xid_13_and_a_43_are_one_warning() -> None:
    record = judged("kernel_log.xid", "kernel/gpud_dmesg_iso_xid13_43_oom.txt")
    assert said(record) == [("warn", "GPU 0000:38:00.0", "13")]
    assert "16 times" in record.message
    assert "followed by Xid 43" in record.message


def test_kills_for_want_of_memory_are_found_in_each_form() -> None:
    record = judged("kernel_log.memory", "kernel/gpud_dmesg_iso_xid13_43_oom.txt")
    assert [(finding.verdict, finding.observed) for finding in record.findings] == [(WARN, 3)]


def test_three_gpus_are_lost_in_three_ways() -> None:
    record = judged("kernel_log.xid", "kernel/gpud_fallen_off_bus_variants.txt", Profile.BOOTCHECK)
    assert said(record) == [
        ("fail", "GPU 0000:18:00.0", "79"),
        ("fail", "GPU 0000:29:00.0", "79"),
        ("fail", "GPU 0000:05:00.0", "79"),
    ]


def test_a_gsp_timeout_reported_many_times_is_one_fault_of_one_board() -> None:
    record = judged("kernel_log.xid", "kernel/gpud_xid119_gsp_rpc_history.txt", Profile.BOOTCHECK)
    assert said(record) == [("fail", "GPU 4 (0000:9b:00.0, S/N 1650001000004)", "119")]


def test_the_switches_follow_the_lost_gpu() -> None:
    file = "kernel/gpud_sxid_readme_xid79_sxid20034.txt"
    assert said(judged("kernel_log.xid", file)) == [("fail", "GPU 0000:91:00.0 (S/N 1653723052734)", "79")]
    switches = judged("kernel_log.sxid", file)
    assert {whose.split()[0] for _, whose, _ in said(switches)} == {f"nvidia-nvswitch{n}" for n in (0, 1, 2)}
    assert {verdict for verdict, _, _ in said(switches)} == {"warn"}
    assert all("follows the loss of GPU 0000:91:00.0" in finding.message for finding in switches.findings)


def test_sxids_are_judged_by_their_own_word() -> None:
    record = judged("kernel_log.sxid", "kernel/gpud_sxid_lines.txt")
    found = {(verdict, code) for verdict, _, code in said(record)}
    assert found == {
        ("warn", "12028"),
        ("fail", "20034"),
        ("warn", "11111"),
        ("warn", "unknown form"),
    }


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


def test_a_row_remap_warns_before_a_job() -> None:
    record = judged("kernel_log.xid", "kernel/stas_xid63_row_remapper.txt", Profile.BOOTCHECK)
    assert said(record) == [("warn", "GPU 0000:10:1c.0", "63")]


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


def test_nic_faults_of_a_design_document() -> None:
    record = judged("kernel_log.nic_errors", "kernel/nvsentinel_docs_nic.txt")
    assert set(said(record)) == {
        ("fail", "NIC 0000:3b:00.0", "nic_command_timeout"),
        ("fail", "NIC 0000:03:00.0 (eno1)", "nic_command_timeout"),
        ("warn", "NIC 0000:12:00.0", "nic_slot_power"),
        ("fail", "NIC 0000:5c:00.0", "nic_module_hot"),
        ("fail", "NIC 0000:d2:00.0", "nic_health_lost"),
        ("fail", "NIC 0000:65:00.0", "nic_queue_timeout"),
    }


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


def test_stuck_cpus_and_hung_tasks() -> None:
    file = "kernel/gpud_cpu_lockup_lines.txt"
    stuck = said(judged("host_log.lockups", file))
    assert stuck == [("fail", "CPU 0", "soft_lockup"), ("fail", "CPU 18", "soft_lockup")]
    hung = said(judged("host_log.hung_tasks", file))
    assert set(hung) == {
        ("warn", "process jfsmount:136986", "hung_task"),
        ("warn", "process kcompactd1:1177", "hung_task"),
    }


def test_exhausted_open_files_and_a_crash_inside_nccl() -> None:
    assert said(judged("kernel_log.host_faults", "kernel/gpud_filemax.txt")) == [
        ("fail", "host", "open_files_exhausted")
    ]
    crash = judged("kernel_log.host_faults", "kernel/gpud_nccl_segfault_iso.txt")
    assert said(crash) == [("warn", "program", "nccl_crashed")]


def test_two_lost_carriers_are_two_flaps() -> None:
    record = judged("kernel_log.nic_flaps", "rdma/gcm_link_flaps_syslog.txt")
    assert said(record) == [("warn", "eth0", "link down"), ("warn", "ib1", "link down")]
