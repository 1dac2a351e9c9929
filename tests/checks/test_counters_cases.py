"""What the counter checks say when a load adds errors, word for word, and of counters that only look bad."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from fleet.machine import Machine
from support.counting import CounterCase, checks, judged

from nodegate.records.verdict import Verdict

if TYPE_CHECKING:
    from collections.abc import Callable

PASS, WARN, FAIL, ERROR, SKIP = Verdict.PASS, Verdict.WARN, Verdict.FAIL, Verdict.ERROR, Verdict.SKIP
NOT_JUDGED = Verdict.NOT_JUDGED
L40S = Machine.pcie_l40s
GPU2 = "GPU 2 (0000:3b:00.0, S/N 1650001000002)"
LINK7 = "GPU 2 NVLink 7 (0000:3b:00.0, S/N 1650001000002)"
PORT1 = "mlx5_1 port 1 (0000:1a:00.0, ibs1)"
ROCE1 = "mlx5_1 port 1 (0000:3c:00.0, ens2np0)"
RESET = "drain the node and reset the GPU; if it comes back, run field diagnostics and replace the board"
RESEAT = "reseat the board or riser; replace it if the count grows again"
CABLE = "clean and reseat the cable or transceiver, then replace it; look at the switch port"
NETWORK = "look at the switch port, its buffers and congestion control"
CLEAR = "clear it (perfquery -R, or a reload of the driver), then measure again"
NVLINK = "drain the node and reset the GPUs; if it comes back, run field diagnostics"
SEE = "see the evidence file for what the node answered"
FAILED = {"why": "failed", "detail": "NVML 999"}
ABSENT = {"why": "not supported", "detail": "NVML 3"}


def gpu(path: str, value: object) -> Callable[[Machine], object]:
    return lambda machine: machine.set_gpu(2, path, value)


def every_gpu(path: str, value: object) -> Callable[[Machine], object]:
    def change(machine: Machine) -> None:
        for index in range(8):
            machine.set_gpu(index, path, value)

    return change


def link(key: str, value: object) -> Callable[[Machine], object]:
    return lambda machine: machine.set_nvlink(2, 7, key, value)


def port(counter: str, value: str, folder: str = "counters") -> Callable[[Machine], object]:
    return lambda machine: machine.set_port("mlx5_1", 1, f"{folder}.{counter}", value)


def no_port_counters(machine: Machine) -> None:
    for folder in ("counters", "hw_counters"):
        machine.sections["infiniband"]["mlx5_1"]["ports"]["1"][folder] = {}


def aer(kind: str, count: int) -> Callable[[Machine], object]:
    total = {"correctable": "COR", "nonfatal": "NONFATAL", "fatal": "FATAL"}[kind]
    return lambda machine: machine.set_pci(machine.gpu_address(2), f"aer_dev_{kind}", f"TOTAL_ERR_{total} {count}")


def firmware_keeps_aer(machine: Machine) -> None:
    for device in machine.sections["pci"]:
        for kind in ("correctable", "nonfatal", "fatal"):
            device[f"aer_dev_{kind}"] = {"why": "missing", "detail": "no such file"}


def no_fatal_count(machine: Machine) -> None:
    machine.set_pci(machine.gpu_address(2), "aer_dev_fatal", {"why": "missing", "detail": "no such file"})


def flap(machine: Machine) -> None:
    name = machine.sections["infiniband"]["mlx5_1"]["ports"]["1"]["netdev"]
    before = int(machine.sections["netdev"][name]["carrier_changes"])
    machine.set_netdev(name, "carrier_changes", str(before + 2))


def restarted(machine: Machine) -> None:
    machine.set("system", "boot_id", "00000000-0000-4000-8000-000000000002")


DEVICES = (
    CounterCase("nothing changes", "counters.devices", PASS, "node: all 70 devices are still there"),
    CounterCase(
        "a GPU falls off the bus",
        "counters.devices",
        FAIL,
        (
            "GPU 2 (0000:3b:00.0, S/N 1650001000002): gone after the load - look at the kernel log; "
            "reseat or replace the device (and 1 more)"
        ),
        lambda machine: machine.lose_gpu(2),
    ),
    CounterCase(
        "an adapter is gone",
        "counters.devices",
        FAIL,
        (
            "mlx5_1 port 1 (0000:1a:00.0, ibs1): gone after the load - look at the kernel log; "
            "reseat or replace the device"
        ),
        lambda machine: machine.sections["infiniband"].pop("mlx5_1"),
    ),
    CounterCase(
        "a GPU comes back",
        "counters.devices",
        WARN,
        (
            "GPU 7 (0000:bd:00.0, S/N 1650001000007): appeared under load: it was not there before - "
            "measure this node again (and 2 more)"
        ),
        before=lambda machine: machine.remove_gpu(7) if machine.epoch_s < 1_795_249_000 else None,
    ),
    CounterCase(
        "the probe could not look",
        "counters.devices",
        ERROR,
        (
            "node: pci could not be read: timeout: 10 s - the node is slow: check its load and "
            "kernel log, then run again"
        ),
        lambda machine: machine.section_fails("pci", "timeout", "10 s"),
    ),
)
MEMORY = (
    CounterCase(
        "nothing is added",
        "counters.ecc",
        PASS,
        ("8 alike: GPU 0, GPU 1, GPU 2, GPU 3, GPU 4, GPU 5, GPU 6, GPU 7: uncorrected memory errors under load 0"),
    ),
    CounterCase(
        "old errors",
        "counters.ecc",
        PASS,
        ("8 alike: GPU 0, GPU 1, GPU 2, GPU 3, GPU 4, GPU 5, GPU 6, GPU 7: uncorrected memory errors under load 0"),
        before=gpu("ecc.volatile_uncorrected", 4),
    ),
    CounterCase(
        "uncorrected",
        "counters.ecc",
        FAIL,
        (
            f"{GPU2}: uncorrected memory errors under load 2, expected at most 0 (0 an hour over 10 "
            "min; common.yaml counters.ecc_uncorrected_per_h: an uncorrected error ends the job, "
            f"whatever the count) - {RESET}"
        ),
        gpu("ecc.volatile_uncorrected", 2),
    ),
    CounterCase(
        "uncorrected in SRAM",
        "counters.ecc",
        FAIL,
        (
            f"{GPU2}: uncorrectable errors in SRAM under load 1, expected at most 0 (0 an hour over 10 "
            "min; common.yaml counters.ecc_uncorrected_per_h: an uncorrected error ends the job, "
            f"whatever the count) - {RESET}"
        ),
        gpu("ecc.aggregate_sram_uncorrected", 1),
    ),
    CounterCase(
        "very many corrected",
        "counters.ecc",
        WARN,
        (
            f"{GPU2}: corrected memory errors under load 5000, expected at most 167 (1000 an hour "
            "over 10 min; common.yaml counters.ecc_corrected_per_h: choice: OCI replaces a board at "
            "1000 corrected SRAM errors over its life (oci-dr-hpc-v2), Azure NHC at 10000; this is "
            f"an hour's) - {RESET}"
        ),
        gpu("ecc.volatile_corrected", 5000),
    ),
    CounterCase(
        "a few corrected",
        "counters.ecc",
        PASS,
        ("8 alike: GPU 0, GPU 1, GPU 2, GPU 3, GPU 4, GPU 5, GPU 6, GPU 7: uncorrected memory errors under load 0"),
        gpu("ecc.volatile_corrected", 40),
    ),
    CounterCase(
        "set to zero meanwhile",
        "counters.ecc",
        ERROR,
        (
            f"{GPU2}: could not read corrected memory errors under load: failed: it dropped from 70 to "
            f"1: it was reset in between - {SEE}"
        ),
        gpu("ecc.volatile_corrected", 1),
        before=gpu("ecc.volatile_corrected", 70),
    ),
    CounterCase(
        "not told after",
        "counters.ecc",
        ERROR,
        f"{GPU2}: could not read uncorrected memory errors under load: failed: NVML 999 - {SEE}",
        gpu("ecc.volatile_uncorrected", FAILED),
    ),
    CounterCase(
        "no ECC at all",
        "counters.ecc",
        SKIP,
        ("8 alike: GPU 0, GPU 1, GPU 2, GPU 3, GPU 4, GPU 5, GPU 6, GPU 7: does not count memory errors"),
        before=every_gpu("ecc", ABSENT),
    ),
    CounterCase(
        "a restart",
        "counters.ecc",
        ERROR,
        (
            "node: the node was rebooted between the two readings - look at the kernel log and the "
            "power supply: a node that restarts under load is not fit for work"
        ),
        restarted,
    ),
    CounterCase(
        "nothing is replaced",
        "counters.remapped_rows",
        PASS,
        ("8 alike: GPU 0, GPU 1, GPU 2, GPU 3, GPU 4, GPU 5, GPU 6, GPU 7: row remap failures under load 0"),
    ),
    CounterCase(
        "old rows",
        "counters.remapped_rows",
        PASS,
        ("8 alike: GPU 0, GPU 1, GPU 2, GPU 3, GPU 4, GPU 5, GPU 6, GPU 7: row remap failures under load 0"),
        before=gpu("remapped_rows", [1, 2, 0, 0]),
    ),
    CounterCase(
        "a row waits for a reset",
        "counters.remapped_rows",
        FAIL,
        f"{GPU2}: pending row remaps under load 1, expected at most 0 (none on a healthy GPU) - {RESET} (and 1 more)",
        gpu("remapped_rows", [0, 1, 1, 0]),
    ),
    CounterCase(
        "a replacement fails",
        "counters.remapped_rows",
        FAIL,
        f"{GPU2}: row remap failures under load 1, expected at most 0 (none on a healthy GPU) - {RESET}",
        gpu("remapped_rows", [0, 0, 0, 1]),
    ),
    CounterCase(
        "replaced early",
        "counters.remapped_rows",
        WARN,
        (
            f"{GPU2}: rows remapped for corrected errors under load 1, expected at most 0 (none on a "
            f"healthy GPU) - {RESET}"
        ),
        gpu("remapped_rows", [1, 0, 0, 0]),
    ),
    CounterCase(
        "not told",
        "counters.remapped_rows",
        ERROR,
        f"{GPU2}: could not read row remap failures under load: failed: NVML 999 - {SEE} (and 3 more)",
        gpu("remapped_rows", FAILED),
    ),
)
LINKS = (
    CounterCase(
        "nothing is added",
        "counters.nvlink",
        PASS,
        (
            "8 alike: GPU 0, GPU 1, GPU 2, GPU 3, GPU 4, GPU 5, GPU 6, GPU 7: 18 NVLinks without a "
            "replay, a recovery or too many CRC errors under load"
        ),
    ),
    CounterCase(
        "old errors",
        "counters.nvlink",
        PASS,
        (
            "8 alike: GPU 0, GPU 1, GPU 2, GPU 3, GPU 4, GPU 5, GPU 6, GPU 7: 18 NVLinks without a "
            "replay, a recovery or too many CRC errors under load"
        ),
        before=link("replay", 3),
    ),
    CounterCase(
        "a replay",
        "counters.nvlink",
        FAIL,
        (
            f"{LINK7}: replay errors under load 1, expected at most 0 (0 an hour over 10 "
            "min; common.yaml counters.nvlink_replay_per_h: NVIDIA/DCGM DcgmHealthWatch.cpp: one "
            f"replay in the window fails; facebookresearch/gcm allows 0) - {NVLINK}"
        ),
        link("replay", 1),
    ),
    CounterCase(
        "CRC errors that are corrected",
        "counters.nvlink",
        PASS,
        (
            "8 alike: GPU 0, GPU 1, GPU 2, GPU 3, GPU 4, GPU 5, GPU 6, GPU 7: 18 NVLinks without a "
            "replay, a recovery or too many CRC errors under load"
        ),
        link("crc", 900),
    ),
    CounterCase(
        "a storm of CRC errors",
        "counters.nvlink",
        FAIL,
        (
            f"{LINK7}: CRC errors under load 90000, expected at most 60000 (360000 an hour "
            "over 10 min; common.yaml counters.nvlink_crc_per_h: NVIDIA/DCGM DcgmHealthWatch.cpp: "
            f"CRC errors count from 100 a second on) - {NVLINK}"
        ),
        link("crc", 90_000),
    ),
    CounterCase(
        "not told after",
        "counters.nvlink",
        ERROR,
        f"{LINK7}: could not read recovery errors under load: failed: NVML 999 - {SEE}",
        link("recovery", FAILED),
    ),
    CounterCase(
        "a platform without",
        "counters.nvlink",
        SKIP,
        ("8 alike: GPU 0, GPU 1, GPU 2, GPU 3, GPU 4, GPU 5, GPU 6, GPU 7: has no NVLink error counters"),
        machine=L40S,
    ),
    CounterCase(
        "no replays",
        "counters.pcie_replays",
        PASS,
        ("8 alike: GPU 0, GPU 1, GPU 2, GPU 3, GPU 4, GPU 5, GPU 6, GPU 7: PCIe replays under load 0"),
    ),
    CounterCase(
        "old replays",
        "counters.pcie_replays",
        PASS,
        ("8 alike: GPU 0, GPU 1, GPU 2, GPU 3, GPU 4, GPU 5, GPU 6, GPU 7: PCIe replays under load 0"),
        before=gpu("pcie_replays", 70),
    ),
    CounterCase(
        "as many as the bit error rate allows",
        "counters.pcie_replays",
        PASS,
        "7 alike: GPU 0, GPU 1, GPU 3, GPU 4, GPU 5, GPU 6, GPU 7: PCIe replays under load 0",
        gpu("pcie_replays", 310),
    ),
    CounterCase(
        "more",
        "counters.pcie_replays",
        FAIL,
        (
            f"{GPU2}: PCIe replays under load 400, expected at most 310 (Gen5 x16 over 600 s; "
            "common.yaml counters.pcie_replays_per_lane_per_min: NVIDIA/DCGM DcgmHealthWatch.cpp: a "
            "lane of PCIe Gen1, Gen2 and so on (a bit error rate of 1e-12); at most this times the "
            f"lanes, rounded up) - {RESEAT}"
        ),
        gpu("pcie_replays", 400),
    ),
    CounterCase(
        "not told after",
        "counters.pcie_replays",
        ERROR,
        f"{GPU2}: could not read PCIe replays under load: failed: NVML 999 - {SEE}",
        gpu("pcie_replays", FAILED),
    ),
    CounterCase(
        "no PCIe errors",
        "counters.pcie_errors",
        PASS,
        (
            "53 alike: GPU 0, bridge 0000:17:01.0, bridge 0000:16:00.0, bridge 0000:15:01.0, GPU 1, "
            "bridge 0000:17:03.0, GPU 2, bridge 0000:39:01.0 and 45 more: fatal PCIe errors under load 0"
        ),
    ),
    CounterCase(
        "old PCIe errors",
        "counters.pcie_errors",
        PASS,
        (
            "53 alike: GPU 0, bridge 0000:17:01.0, bridge 0000:16:00.0, bridge 0000:15:01.0, GPU 1, "
            "bridge 0000:17:03.0, GPU 2, bridge 0000:39:01.0 and 45 more: fatal PCIe errors under load 0"
        ),
        before=aer("nonfatal", 3),
    ),
    CounterCase(
        "corrected ones",
        "counters.pcie_errors",
        WARN,
        (
            f"{GPU2}: correctable PCIe errors under load 2, expected at most 0 (0 an hour "
            "over 10 min; common.yaml counters.pcie_aer_correctable_per_h: OCI health checks: any "
            f"increase alerts) - {RESEAT}"
        ),
        aer("correctable", 2),
    ),
    CounterCase(
        "a fatal one",
        "counters.pcie_errors",
        FAIL,
        (
            f"{GPU2}: fatal PCIe errors under load 1, expected at most 0 (0 an hour over 10 "
            "min; common.yaml counters.pcie_aer_uncorrectable_per_h: PCI Express: an uncorrectable "
            f"error loses data) - {RESEAT}"
        ),
        aer("fatal", 1),
    ),
    CounterCase(
        "the firmware keeps them",
        "counters.pcie_errors",
        SKIP,
        "node: the firmware does not share the PCIe error counters with the OS",
        before=firmware_keeps_aer,
    ),
    CounterCase(
        "one GPU of eight has no counter, before and after",
        "counters.pcie_errors",
        ERROR,
        (
            f"{GPU2}: could not read fatal PCIe errors under load: failed: it has no such counter, and another device "
            f"of its model has - {SEE}"
        ),
        no_fatal_count,
        before=no_fatal_count,
    ),
    CounterCase(
        "not told after",
        "counters.pcie_errors",
        ERROR,
        f"{GPU2}: could not read fatal PCIe errors under load: timeout: 2 s - {SEE}",
        lambda machine: machine.set_pci(machine.gpu_address(2), "aer_dev_fatal", {"why": "timeout", "detail": "2 s"}),
    ),
)
NIC = (
    CounterCase(
        "healthy, with old errors",
        "counters.nic",
        PASS,
        (
            "8 alike: mlx5_0 port 1, mlx5_1 port 1, mlx5_2 port 1, mlx5_3 port 1, mlx5_4 port 1, mlx5_5 port 1, "
            "mlx5_6 port 1, mlx5_7 port 1: link_downed under load 0"
        ),
    ),
    CounterCase(
        "a link that went down",
        "counters.nic",
        FAIL,
        (
            f"{PORT1}: link_downed under load 3, expected at most 0 (0 an hour over 10 min; "
            "common.yaml counters.link_downed_per_h: NVIDIA/NVSentinel link-counter-detection.md: "
            f"any increase is fatal) - {CABLE}"
        ),
        port("link_downed", "253"),
        before=port("link_downed", "250"),
    ),
    CounterCase(
        "full since before the load: a link that goes down cannot be seen",
        "counters.nic",
        NOT_JUDGED,
        f"{PORT1}: link_downed not judged: at its maximum since before the load (255),"
        f" so it cannot show new errors - {CLEAR}",
        before=port("link_downed", "255"),
    ),
    CounterCase(
        "full since before the load, as that of a healthy port in service",
        "counters.nic",
        NOT_JUDGED,
        f"{PORT1}: excessive_buffer_overrun_errors not judged: "
        f"at its maximum since before the load (15), so it cannot show new errors - {CLEAR}",
        before=port("excessive_buffer_overrun_errors", "15"),
    ),
    CounterCase(
        "full on a RoCE port, whose network device counts its flaps",
        "counters.nic",
        NOT_JUDGED,
        f"{ROCE1}: link_downed not judged: at its maximum since before the load (255),"
        f" so it cannot show new errors - {CLEAR}",
        before=port("link_downed", "255"),
        machine=L40S,
    ),
    CounterCase(
        "few symbol errors, but the counter came to its full scale and counts no further",
        "counters.nic",
        ERROR,
        (
            f"{PORT1}: could not read symbol_error under load: failed: "
            "it reached its maximum 65535 and stopped counting; perfquery -R, or a reload of the driver, resets it - "
            "see the evidence file for what the node answered"
        ),
        port("symbol_error", "65535"),
        before=port("symbol_error", "65530"),
    ),
    CounterCase(
        "symbol errors above the bit error rate",
        "counters.nic",
        FAIL,
        (
            f"{PORT1}: symbol_error under load 21, expected at most 20 (120 an hour over 10 "
            "min; common.yaml counters.symbol_error_per_h: NVIDIA/NVSentinel "
            "link-counter-detection.md: more than 120 an hour is fatal (IBTA: a bit error rate of "
            f"1e-12)) - {CABLE}"
        ),
        port("symbol_error", "21"),
    ),
    CounterCase(
        "symbol errors within it",
        "counters.nic",
        PASS,
        (
            "8 alike: mlx5_0 port 1, mlx5_1 port 1, mlx5_2 port 1, mlx5_3 port 1, mlx5_4 port 1, mlx5_5 port 1, "
            "mlx5_6 port 1, mlx5_7 port 1: link_downed under load 0"
        ),
        port("symbol_error", "20"),
    ),
    CounterCase(
        "many receive errors",
        "counters.nic",
        WARN,
        (
            f"{PORT1}: port_rcv_errors under load 59986, expected at most 6000 (36000 an hour "
            "over 10 min; common.yaml counters.port_rcv_errors_per_h: NVIDIA/NVSentinel "
            f"link-counter-detection.md: more than 10 a second is degraded) - {CABLE}"
        ),
        port("port_rcv_errors", "60000"),
    ),
    CounterCase(
        "RoCE slow restarts",
        "counters.nic",
        WARN,
        (
            f"{ROCE1}: roce_slow_restart under load 89869, expected at most 6000 (36000 an hour "
            "over 10 min; common.yaml counters.roce_slow_restart_per_h: NVIDIA/NVSentinel "
            f"link-counter-detection.md: more than 10 a second is degraded) - {NETWORK}"
        ),
        port("roce_slow_restart", "90000", "hw_counters"),
        before=port("roce_slow_restart", "131", "hw_counters"),
        machine=L40S,
    ),
    CounterCase(
        "a flap of a RoCE port",
        "counters.nic",
        FAIL,
        (
            f"{ROCE1}: carrier changes under load 2, expected at most 1 (2 an hour "
            "over 10 min; common.yaml counters.carrier_changes_per_h: NVIDIA/NVSentinel "
            f"link-counter-detection.md: more than 2 an interval is degraded) - {CABLE}"
        ),
        flap,
        machine=L40S,
    ),
    CounterCase(
        "set to zero meanwhile",
        "counters.nic",
        ERROR,
        (
            f"{PORT1}: could not read symbol_error under load: failed: it dropped from 9 to 0: it was "
            f"reset in between - {SEE}"
        ),
        port("symbol_error", "0"),
        before=port("symbol_error", "9"),
    ),
    CounterCase(
        "no counters at all",
        "counters.nic",
        ERROR,
        f"{PORT1}: could not read link_downed: the port does not report it - "
        "check /sys/class/infiniband/*/ports/*/counters on the node; update the NIC's driver (and 1 more)",
        before=no_port_counters,
    ),
)
TABLES = (DEVICES, MEMORY, LINKS, NIC)


@pytest.mark.parametrize("case", [case for table in TABLES for case in table], ids=str)
def test_case(case: CounterCase) -> None:
    record = judged(case)
    assert record.message == case.message
    assert record.verdict is case.verdict
    for finding in record.findings:
        if finding.verdict in (WARN, FAIL, ERROR):
            assert finding.message.endswith(f" - {finding.action}")
            assert finding.action


def test_each_check_has_a_case_that_passes_one_that_is_bad_and_one_that_cannot_be_judged() -> None:
    for check in checks():
        tried = {case.verdict for table in TABLES for case in table if case.check == check}
        assert {PASS, ERROR} <= tried, check
        assert tried & {WARN, FAIL}, check


def test_a_full_counter_hides_no_error_of_another_counter() -> None:
    (case,) = [case for case in NIC if case.name == "full since before the load: a link that goes down cannot be seen"]
    found = judged(replace(case, during=port("port_rcv_errors", "60000"))).findings
    seen = {finding.quantity: finding.verdict for finding in found if finding.part.is_called(PORT1)}
    assert (seen["link_downed under load"], seen["port_rcv_errors under load"]) == (NOT_JUDGED, WARN)
