"""What the PCIe checks say of one machine with one fault, word for word, and of the machines that only look faulty."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.judging import Case, assert_case

from nodegate.demo.machine import Machine
from nodegate.finding import Limit
from nodegate.verdict import Verdict

if TYPE_CHECKING:
    from collections.abc import Callable

PASS, WARN, FAIL, ERROR, SKIP = Verdict.PASS, Verdict.WARN, Verdict.FAIL, Verdict.ERROR, Verdict.SKIP
L40S = Machine.pcie_l40s
BCM5720 = "0000:01:00.0"


def every_gpu_at(machine: Machine, width: int) -> None:
    for address in machine.gpu_addresses:
        machine.set_link(address, width=width)


def every_gpu_idle(machine: Machine) -> None:
    for address in machine.gpu_addresses:
        machine.set_link(address, speed_gts="2.5")


def in_a_virtual_machine(machine: Machine) -> None:
    machine.set("system", "dmi.sys_vendor", "Amazon EC2")
    machine.set("system", "dmi.product_name", "g6e.48xlarge")


def on_metal_of_a_cloud(machine: Machine) -> None:
    machine.set("system", "dmi.sys_vendor", "Amazon EC2")
    machine.set("system", "dmi.product_name", "g4dn.metal")


def all_narrow_in_a_virtual_machine(machine: Machine) -> None:
    in_a_virtual_machine(machine)
    every_gpu_at(machine, 8)


def some_narrow_in_a_virtual_machine(machine: Machine) -> None:
    in_a_virtual_machine(machine)
    machine.set_link(machine.gpu_address(1), width=8)


def all_narrow_on_metal(machine: Machine) -> None:
    on_metal_of_a_cloud(machine)
    every_gpu_at(machine, 8)


def management_nic_at_x1(machine: Machine) -> None:
    """A BCM5720 that could use two lanes and uses one, below a root port that could use sixteen."""
    nic = dict(machine.pci(machine.nic_address(0)), address=BCM5720, vendor="0x14e4", device="0x165f", driver="tg3")
    nic |= {"class": "0x020000", "current_link_width": "1", "max_link_width": "2", "parent": "0000:00:1c.0"}
    port = dict(machine.pci("0000:15:01.0"), address="0000:00:1c.0", current_link_width="1")
    machine.sections["pci"] += [nic, port]


def uplink_at_x4(machine: Machine) -> None:
    port = machine.pci(machine.gpu_address(0))["parent"]
    machine.set_pci(machine.pci(port)["parent"], "current_link_width", "4")


def without_bridges(machine: Machine) -> None:
    machine.sections["pci"] = [device for device in machine.sections["pci"] if device["class"] != "0x060400"]


def working_at_gen1(machine: Machine) -> None:
    machine.set_link(machine.gpu_address(1), speed_gts="2.5")
    machine.set_gpu(1, "utilization_percent", 97)


def at_full_clock_at_gen1(machine: Machine) -> None:
    machine.set_link(machine.gpu_address(1), speed_gts="2.5")
    machine.set_gpu(1, "sm_clock_mhz", 1980)
    machine.set_gpu(1, "sm_clock_max_mhz", 1980)


def nic_in_a_gen4_slot(machine: Machine) -> None:
    address = machine.nic_address(1)
    machine.set_link(address, speed_gts="16.0")
    machine.set_pci(machine.pci(address)["parent"], "max_link_speed", "16.0 GT/s PCIe")


def uncorrectable(kind: str, count: int) -> Callable[[Machine], None]:
    return lambda machine: machine.set_pci(
        machine.gpu_address(2), f"aer_dev_{kind}", f"Undefined 0\nTOTAL_ERR_{kind.upper()} {count}"
    )


def counters_kept_by_firmware(machine: Machine) -> None:
    for device in machine.sections["pci"]:
        for kind in ("correctable", "nonfatal", "fatal"):
            device[f"aer_dev_{kind}"] = {"why": "missing", "detail": "no such file"}


def virtual_function(machine: Machine) -> None:
    for key in ("current_link_width", "max_link_width"):
        machine.set_pci(machine.nic_address(0), key, "0")


def iommu_off(machine: Machine) -> None:
    machine.set("system", "cmdline", "ro")
    machine.set("system", "iommu_groups", 0)


CASES = (
    Case("every device answers", "pcie.devices_answer", PASS, "GPU 0000:19:00.0: answers on PCIe (and 21 more)"),
    Case(
        "a GPU is lost",
        "pcie.devices_answer",
        FAIL,
        (
            "GPU 0000:3d:00.0: does not answer on PCIe: its configuration space reads all ff - "
            "power-cycle the node; if it stays, reseat or replace the device"
        ),
        change=lambda machine: machine.lose_gpu(3),
    ),
    Case(
        "a NIC reads all ff",
        "pcie.devices_answer",
        FAIL,
        (
            "NIC 0000:3a:00.0: does not answer on PCIe: its configuration space reads all ff - "
            "power-cycle the node; if it stays, reseat or replace the device"
        ),
        change=lambda machine: machine.set_pci(machine.nic_address(2), "config", "ff" * 64),
    ),
    Case(
        "config space was not read",
        "pcie.devices_answer",
        ERROR,
        (
            "GPU 0000:19:00.0: answers on PCIe is unknown (denied: config) - see the evidence file "
            "for what the node answered"
        ),
        change=lambda machine: machine.set_pci(machine.gpu_address(0), "config", {"why": "denied", "detail": "config"}),
    ),
    Case(
        "there is nothing to judge",
        "pcie.devices_answer",
        SKIP,
        "no GPU and no RDMA NIC is visible on PCIe",
        change=lambda machine: machine.sections.update(pci=[]),
    ),
    Case("every link is full", "pcie.link_width", PASS, "GPU 0000:19:00.0: link width 16 lanes (and 17 more)"),
    Case(
        "one GPU at x8",
        "pcie.link_width",
        FAIL,
        (
            "GPU 0000:3d:00.0: link width 8 lanes, expected at least 16 lanes (its own maximum) - "
            "power-cycle the node; if it stays, reseat the board or riser"
        ),
        change=lambda machine: machine.set_link(machine.gpu_address(3), width=8),
    ),
    Case(
        "one NIC at x8",
        "pcie.link_width",
        FAIL,
        (
            "NIC 0000:3a:00.0: link width 8 lanes, expected at least 16 lanes (its own maximum) - "
            "power-cycle the node; if it stays, reseat the board or riser"
        ),
        change=lambda machine: machine.set_link(machine.nic_address(2), width=8),
    ),
    Case(
        "a NIC without a link",
        "pcie.link_width",
        FAIL,
        (
            "NIC 0000:18:00.0: link width 0 lanes, expected at least 16 lanes (its own maximum) - "
            "power-cycle the node; if it stays, reseat the board or riser"
        ),
        change=lambda machine: machine.set_pci(machine.nic_address(0), "current_link_width", "0"),
    ),
    Case(
        "all GPUs at x8 on bare metal",
        "pcie.link_width",
        FAIL,
        (
            "GPU 0000:18:00.0: link width 8 lanes, expected at least 16 lanes (its own maximum) - "
            "all 8 are alike: set pcie.gpu_width where that is by design (and 7 more)"
        ),
        change=all_narrow_on_metal,
        machine=L40S,
    ),
    Case(
        "all GPUs at x8 in a virtual machine",
        "pcie.link_width",
        WARN,
        (
            "GPU 0000:18:00.0: link width 8 lanes, expected at least 16 lanes (its own maximum) - "
            "all 8 are alike: set pcie.gpu_width where that is by design (and 7 more)"
        ),
        change=all_narrow_in_a_virtual_machine,
        machine=L40S,
    ),
    Case(
        "only one GPU at x8 in a virtual machine",
        "pcie.link_width",
        FAIL,
        (
            "GPU 0000:19:00.0: link width 8 lanes, expected at least 16 lanes (its own maximum) - "
            "power-cycle the node; if it stays, reseat the board or riser"
        ),
        change=some_narrow_in_a_virtual_machine,
        machine=L40S,
    ),
    Case(
        "all GPUs at x8 as the baseline says",
        "pcie.link_width",
        PASS,
        "GPU 0000:18:00.0: link width 8 lanes (and 13 more)",
        change=lambda machine: every_gpu_at(machine, 8),
        machine=L40S,
        limits={"pcie.gpu_width": Limit(8, "lanes", "AWS g6e")},
    ),
    Case(
        "a GPU at x4 where the baseline says x8",
        "pcie.link_width",
        FAIL,
        (
            "GPU 0000:19:00.0: link width 4 lanes, expected at least 8 lanes (AWS g6e) - power-cycle "
            "the node; if it stays, reseat the board or riser"
        ),
        change=lambda machine: machine.set_link(machine.gpu_address(1), width=4),
        machine=L40S,
        limits={"pcie.gpu_width": Limit(8, "lanes", "AWS g6e")},
    ),
    Case(
        "healthy: a management NIC at x1 of x2",
        "pcie.link_width",
        PASS,
        "GPU 0000:19:00.0: link width 16 lanes (and 17 more)",
        change=management_nic_at_x1,
    ),
    Case(
        "healthy: a virtual function has no link of its own",
        "pcie.link_width",
        PASS,
        "GPU 0000:19:00.0: link width 16 lanes (and 16 more)",
        change=virtual_function,
    ),
    Case(
        "the width was not read",
        "pcie.link_width",
        ERROR,
        ("GPU 0000:19:00.0: link width is unknown (denied: EACCES) - see the evidence file for what the node answered"),
        change=lambda machine: machine.set_pci(
            machine.gpu_address(0), "current_link_width", {"why": "denied", "detail": "EACCES"}
        ),
    ),
    Case(
        "PCIe was not read",
        "pcie.link_width",
        ERROR,
        (
            "gpu01: pci could not be read: timeout: 10 s - the node answers slowly: look at its load "
            "and kernel log, then run again"
        ),
        change=lambda machine: machine.section_fails("pci", "timeout", "10 s"),
    ),
    Case(
        "every bridge is wide enough",
        "pcie.bridge_width",
        PASS,
        "bridge 0000:17:01.0: link width on the way to GPU 0000:19:00.0 16 lanes (and 24 more)",
    ),
    Case(
        "the uplink of a switch at x4",
        "pcie.bridge_width",
        FAIL,
        (
            "bridge 0000:16:00.0: link width on the way to GPU 0000:19:00.0 4 lanes, expected at "
            "least 16 lanes (what the bridge and the device have) - power-cycle the node; if it "
            "stays, reseat the board or riser"
        ),
        change=uplink_at_x4,
    ),
    Case(
        "healthy: root port wider than its management NIC",
        "pcie.bridge_width",
        PASS,
        "bridge 0000:17:01.0: link width on the way to GPU 0000:19:00.0 16 lanes (and 24 more)",
        change=management_nic_at_x1,
    ),
    Case(
        "a narrow GPU is not the bridge's fault",
        "pcie.bridge_width",
        PASS,
        "bridge 0000:17:01.0: link width on the way to GPU 0000:19:00.0 16 lanes (and 24 more)",
        change=lambda machine: machine.set_link(machine.gpu_address(3), width=8),
    ),
    Case(
        "a bridge was not read",
        "pcie.bridge_width",
        ERROR,
        (
            "bridge 0000:17:01.0: link width on the way to GPU 0000:19:00.0 is unknown (denied: "
            "EACCES) - see the evidence file for what the node answered"
        ),
        change=lambda machine: machine.set_pci(
            "0000:17:01.0", "current_link_width", {"why": "denied", "detail": "EACCES"}
        ),
    ),
    Case(
        "no bridge is visible",
        "pcie.bridge_width",
        SKIP,
        "no bridge with a PCIe link is visible above a GPU or RDMA NIC",
        change=without_bridges,
    ),
    Case("every link at full speed", "pcie.link_speed", PASS, "GPU 0000:19:00.0: link speed 32 GT/s (and 15 more)"),
    Case(
        "healthy: idle GPUs at 2.5 GT/s",
        "pcie.link_speed",
        PASS,
        "NIC 0000:1a:00.0: link speed 32 GT/s (and 5 more)",
        change=every_gpu_idle,
        machine=L40S,
    ),
    Case(
        "a GPU at work at 2.5 GT/s",
        "pcie.link_speed",
        FAIL,
        (
            "GPU 0000:1b:00.0: link speed 2.5 GT/s, expected at least 32 GT/s (its own maximum) - "
            "power-cycle the node; if it stays, reseat the board or riser"
        ),
        change=working_at_gen1,
    ),
    Case(
        "a GPU at its highest clock at 2.5 GT/s",
        "pcie.link_speed",
        FAIL,
        (
            "GPU 0000:1b:00.0: link speed 2.5 GT/s, expected at least 32 GT/s (its own maximum) - "
            "power-cycle the node; if it stays, reseat the board or riser"
        ),
        change=at_full_clock_at_gen1,
    ),
    Case(
        "a NIC at 8 GT/s",
        "pcie.link_speed",
        FAIL,
        (
            "NIC 0000:1a:00.0: link speed 8 GT/s, expected at least 32 GT/s (its own maximum) - "
            "power-cycle the node; if it stays, reseat the board or riser"
        ),
        change=lambda machine: machine.set_link(machine.nic_address(1), speed_gts="8.0"),
    ),
    Case(
        "a Gen5 NIC in a Gen4 slot",
        "pcie.link_speed",
        WARN,
        (
            "NIC 0000:1a:00.0: link speed 16 GT/s, expected at least 32 GT/s (its own maximum) - the "
            "slot has no more: move the device if the platform has faster slots"
        ),
        change=nic_in_a_gen4_slot,
    ),
    Case(
        "the speed was not read",
        "pcie.link_speed",
        ERROR,
        ("NIC 0000:18:00.0: link speed is unknown (failed: EIO) - see the evidence file for what the node answered"),
        change=lambda machine: machine.set_pci(
            machine.nic_address(0), "current_link_speed", {"why": "failed", "detail": "EIO"}
        ),
    ),
    Case("none", "pcie.uncorrectable_errors", PASS, "GPU 0000:19:00.0: fatal PCIe errors since boot 0 (and 105 more)"),
    Case(
        "one fatal error",
        "pcie.uncorrectable_errors",
        FAIL,
        (
            "GPU 0000:3b:00.0: fatal PCIe errors since boot 1, expected at most 0 (AER) - reseat the "
            "board or riser; replace it when the count grows"
        ),
        change=uncorrectable("fatal", 1),
    ),
    Case(
        "two non-fatal errors",
        "pcie.uncorrectable_errors",
        WARN,
        (
            "GPU 0000:3b:00.0: non-fatal PCIe errors since boot 2, expected at most 0 (AER) - reseat "
            "the board or riser; replace it when the count grows"
        ),
        change=uncorrectable("nonfatal", 2),
    ),
    Case(
        "the firmware keeps the counters",
        "pcie.uncorrectable_errors",
        SKIP,
        "the firmware keeps the PCIe error counters for itself",
        change=counters_kept_by_firmware,
    ),
    Case(
        "a counter was not read",
        "pcie.uncorrectable_errors",
        ERROR,
        (
            "GPU 0000:19:00.0: fatal PCIe errors since boot is unknown (denied: EACCES) - see the "
            "evidence file for what the node answered"
        ),
        change=lambda machine: machine.set_pci(
            machine.gpu_address(0), "aer_dev_fatal", {"why": "denied", "detail": "EACCES"}
        ),
    ),
    Case(
        "more than the limit",
        "pcie.correctable_errors",
        WARN,
        (
            "NIC 0000:18:00.0: correctable PCIe errors since boot 481 events, expected at most 480 "
            "events (the site's own) - read them before and after load; reseat the board or riser "
            "when they grow"
        ),
        change=lambda machine: machine.count_correctable_errors(machine.nic_address(0), 481),
        limits={"pcie.aer_correctable_max": 480},
    ),
    Case(
        "as many as the limit",
        "pcie.correctable_errors",
        PASS,
        "GPU 0000:19:00.0: correctable PCIe errors since boot 0 events (and 52 more)",
        change=lambda machine: machine.count_correctable_errors(machine.nic_address(0), 480),
        limits={"pcie.aer_correctable_max": 480},
    ),
    Case(
        "without a limit",
        "pcie.correctable_errors",
        SKIP,
        "not judged: no limit pcie.aer_correctable_max for platform hgx-h100-8",
        limits={"pcie.aer_correctable_max": None},
    ),
    Case(
        "a counter was not read",
        "pcie.correctable_errors",
        ERROR,
        (
            "GPU 0000:19:00.0: correctable PCIe errors since boot is unknown (denied: EACCES) - see "
            "the evidence file for what the node answered"
        ),
        change=lambda machine: machine.set_pci(
            machine.gpu_address(0), "aer_dev_correctable", {"why": "denied", "detail": "EACCES"}
        ),
        limits={"pcie.aer_correctable_max": 480},
    ),
    Case(
        "no replays",
        "pcie.replays",
        PASS,
        ("GPU 0 (0000:19:00.0, serial 1650001000000): PCIe replays since boot 0 events (and 7 more)"),
        limits={"pcie.replays_max": 80},
    ),
    Case(
        "more than the limit",
        "pcie.replays",
        WARN,
        (
            "GPU 5 (0000:9d:00.0, serial 1650001000005): PCIe replays since boot 4000 events, "
            "expected at most 80 events (the site's own) - read them before and after load; reseat "
            "the board or riser when they grow"
        ),
        change=lambda machine: machine.set_gpu(5, "pcie_replays", 4000),
        limits={"pcie.replays_max": 80},
    ),
    Case(
        "the counter was not read",
        "pcie.replays",
        ERROR,
        (
            "GPU 5 (0000:9d:00.0, serial 1650001000005): PCIe replays since boot is unknown (failed: "
            "NVML 999) - see the evidence file for what the node answered"
        ),
        change=lambda machine: machine.set_gpu(5, "pcie_replays", {"why": "failed", "detail": "NVML 999"}),
        limits={"pcie.replays_max": 80},
    ),
    Case(
        "without a limit",
        "pcie.replays",
        SKIP,
        "not judged: no limit pcie.replays_max for platform hgx-h100-8",
        limits={"pcie.replays_max": None},
    ),
    Case("it passes through", "pcie.iommu", PASS, "IOMMU: passes through"),
    Case("it is off", "pcie.iommu", PASS, "IOMMU: off", change=iommu_off),
    Case(
        "it translates",
        "pcie.iommu",
        WARN,
        (
            "IOMMU: translates for 268 groups: the kernel command line has no iommu=pt - add "
            "iommu=pt to the kernel command line, or turn the IOMMU off in the BIOS"
        ),
        change=lambda machine: machine.set("system", "cmdline", "ro quiet intel_iommu=on"),
    ),
    Case(
        "in a virtual machine",
        "pcie.iommu",
        SKIP,
        "a virtual machine: the host's IOMMU is not visible here",
        change=in_a_virtual_machine,
    ),
    Case(
        "it was not read",
        "pcie.iommu",
        ERROR,
        ("IOMMU: its state is unknown (denied: EACCES) - see the evidence file for what the node answered"),
        change=lambda machine: machine.set("system", "iommu_groups", {"why": "denied", "detail": "EACCES"}),
    ),
)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_check_says(case: Case) -> None:
    assert_case(case)
