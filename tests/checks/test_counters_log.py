"""The kernel log while the load ran: what is new fails, what was there before is not told again."""

import pytest
from fleet.machine import EPOCH_S, Machine, facts_of

from nodegate import suite
from nodegate.judge.judge import judge
from nodegate.judge.node_parts import node_parts
from nodegate.profile import Profile
from nodegate.records.verdict import Verdict
from nodegate.subjects.counters import Counters

PASS, WARN, FAIL, ERROR = Verdict.PASS, Verdict.WARN, Verdict.FAIL, Verdict.ERROR
TESTS_TOOK_S = 1200.0
END_S = EPOCH_S + TESTS_TOOK_S
GPU = "NVRM: Xid (PCI:0000:3d:00): "
FAULT_31 = GPU + "31, pid=7, name=python, Ch 00000010, intr 00000000. MMU Fault: ENGINE GRAPHICS"
NIC = "mlx5_core 0000:1a:00.0 ibp26s0"
CHECKS = ("reaches_back", "xid", "sxid", "link_downs", "faults")


def judged(check, *lines, after=lambda machine: None):
    """What a check says of a node whose kernel said these lines, so many seconds after our tests began."""
    before, later = Machine.hgx_h100(), Machine.hgx_h100(epoch_s=END_S)
    later.set("system", "uptime_s", before.sections["system"]["uptime_s"] + TESTS_TOOK_S)
    for line, seconds in lines:
        if seconds < 0:
            before.kernel(line, ago_s=-seconds)
        later.kernel(line, ago_s=TESTS_TOOK_S - seconds)
    after(later)
    known = {"counters": Counters(facts_of(before), facts_of(later)), "profile": Profile.DELIVERY}
    return judge(suite.check(f"counters_log.{check}"), known.__getitem__, "gpu01", node_parts(facts_of(before)))


@pytest.mark.parametrize("check", CHECKS)
def test_a_quiet_log_passes(check):
    record = judged(check)
    assert record.verdict is PASS, record.message
    assert "2026-11-21 08:15:00Z" in record.message


@pytest.mark.parametrize("check", CHECKS)
def test_a_log_that_cannot_be_read_is_an_error(check):
    record = judged(check, after=lambda machine: machine.section_fails("kernel_log", "denied", "not permitted"))
    assert record.verdict is ERROR, record.message


@pytest.mark.parametrize("code", [13, 31, 43, 69, 94, 48])
def test_a_programs_fault_under_our_own_programs_fails(code):
    record = judged("xid", (f"{GPU}{code}, pid=7, name=python, something", 300.0))
    assert record.verdict is FAIL
    assert f"Xid {code} (" in record.message
    assert "; while the load ran - " in record.message


def test_the_same_fault_before_our_tests_is_not_reported_again():
    assert judged("xid", (FAULT_31, -30.0)).verdict is PASS
    assert judged("faults", ("EDAC MC0: 1 UE memory read error on DIMM_A1 (channel:1)", -30.0)).verdict is PASS


def test_the_same_words_again_are_a_new_fault():
    record = judged("xid", (FAULT_31, -300.0), (FAULT_31, 300.0))
    assert [(finding.verdict, finding.observed) for finding in record.findings] == [(FAIL, 1)]


def test_the_end_of_a_program_of_ours_only_warns():
    assert judged("xid", (GPU + "45, pid=7, name=nccl, Ch 00000008", 300.0)).verdict is WARN


def test_a_consequence_is_reported_with_its_root():
    record = judged("xid", (FAULT_31, 300.0), (GPU + "43, pid=7, name=python, Ch 00000010", 300.5))
    assert [finding.code for finding in record.findings] == ["31"]
    assert "followed by Xid 43" in record.message


def test_nvlink_5_decides_by_its_own_word():
    line = "149, NETIR_LINK_EVT {} XC0 i0 Link 01 (0x004f8002 0x00000000 0x00000000 0x00000000 0x00000000 0x00000000)"
    assert judged("xid", (GPU + line.format("Nonfatal"), 300.0)).verdict is WARN
    assert judged("xid", (GPU + line.format("Fatal   "), 300.0)).verdict is FAIL


def test_lines_without_a_time_are_told_apart_by_their_count():
    def untimed(machine):
        machine.sections["kernel_log"]["lines"].append(FAULT_31)

    assert judged("xid", after=untimed).verdict is FAIL


def test_a_fatal_switch_error_under_load_fails():
    line = "nvidia-nvswitch2: SXid (PCI:0000:85:00.0): 20034, Fatal, Link 30 LTSSM Fault Up"
    assert judged("sxid", (line, 300.0)).verdict is FAIL
    assert judged("sxid", (line, -300.0)).verdict is PASS


def test_one_link_down_under_load_is_one_too_many():
    record = judged("link_downs", (f"{NIC}: Link down", 300.0), (f"{NIC}: Link up", 303.0))
    assert record.message == (
        "mlx5_1 (0000:1a:00.0, ibs1): link down once at 2026-11-21 08:20:00Z, expected at most 0 ("
        "while the load ran) - clean or replace the cable or transceiver; look at the switch port"
    )
    assert record.verdict is FAIL


def test_faults_of_devices_and_of_the_host_are_found():
    record = judged(
        "faults",
        ("EDAC MC0: 1 UE memory read error on DIMM_A1 (channel:1)", 300.0),
        ("nvidia 0000:65:00.0: PCIe Bus Error: severity=Uncorrected (Fatal), type=Transaction Layer, (ID)", 310.0),
        ("nvme nvme2: controller is down; will reset: CSTS=0xffffffff, PCI_STATUS=0x10", 320.0),
    )
    assert {(finding.verdict, finding.code) for finding in record.findings} == {
        (FAIL, "memory_uncorrected"),
        (FAIL, "pcie_uncorrected"),
        (FAIL, "nvme_down"),
    }


def test_a_node_that_rebooted_under_load_fails():
    def rebooted(machine):
        machine.set("system", "uptime_s", 200.0)
        machine.set("system", "boot_id", "00000000-2b1d-4c58-9e60-0066c9fd4125")

    record = judged("reaches_back", after=rebooted)
    assert record.verdict is FAIL
    assert record.message.startswith("node: rebooted at 2026-11-21 08:31:40Z, during this run - find the cause")


@pytest.mark.parametrize("check", CHECKS)
def test_a_log_that_lost_the_time_of_our_tests_proves_nothing(check):
    record = judged(check, after=lambda machine: machine.set("kernel_log", "since_epoch_s", EPOCH_S + 60))
    assert record.verdict is ERROR
    assert "no longer reaches back to the start of the load" in record.message


def test_a_log_of_which_the_first_lines_did_not_fit_proves_nothing():
    def flood(machine):
        machine.set("kernel_log", "dropped", 9000)
        machine.set("kernel_log", "lines", ["2026-11-21T08:30:00.000000+0000 gpu01 kernel: nvidia: something"])
        machine._lines.clear()

    assert judged("xid", after=flood).verdict is ERROR


@pytest.mark.parametrize("check", CHECKS)
def test_a_clock_that_went_back_is_an_error(check):
    def back(machine):
        machine.epoch_s = EPOCH_S - 3600.0

    record = judged(check, after=back)
    assert record.verdict is ERROR
    assert "the node's clock was set back between the two readings" in record.message


def test_what_was_found_stays_a_failure_where_the_log_has_a_gap():
    record = judged(
        "xid", (FAULT_31, 300.0), after=lambda machine: machine.set("kernel_log", "since_epoch_s", EPOCH_S + 60)
    )
    assert record.verdict is FAIL


def test_a_boot_that_nobody_can_name_is_an_error():
    def unnamed(machine):
        for key in ("boot_id", "uptime_s"):
            machine.set("system", key, {"why": "failed", "detail": "EIO"})

    assert judged("reaches_back", after=unnamed).verdict is ERROR
