"""What the PCIe checks say of one machine with one fault, word for word, and of the machines that only look faulty."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from fleet.machine import Machine
from support.judging import Case, assert_case

from nodegate.profile import Profile
from nodegate.records.finding import Limit
from nodegate.records.verdict import Verdict

if TYPE_CHECKING:
    from collections.abc import Callable

PASS, WARN, FAIL, ERROR, SKIP = Verdict.PASS, Verdict.WARN, Verdict.FAIL, Verdict.ERROR, Verdict.SKIP
NOT_JUDGED = Verdict.NOT_JUDGED
L40S = Machine.pcie_l40s
BCM5720 = "0000:01:00.0"
PORT, UPLINK, ROOT = "0000:17:01.0", "0000:16:00.0", "0000:15:01.0"  # above GPU 0 of an HGX H100
BETWEEN = (
    "bridge 0000:17:00.0, bridge 0000:17:01.0, bridge 0000:17:02.0, bridge 0000:17:03.0, "
    "bridge 0000:39:00.0, bridge 0000:39:01.0, bridge 0000:39:02.0, bridge 0000:39:03.0 and 8 more"
)
ABOVE = (
    "bridge 0000:17:01.0, bridge 0000:16:00.0, bridge 0000:15:01.0, bridge 0000:17:03.0, "
    "bridge 0000:38:00.0, bridge 0000:37:01.0, bridge 0000:39:03.0, bridge 0000:99:01.0 and 15 more"
)
ABOVE_GPUS = (
    "bridge 0000:17:01.0, bridge 0000:16:00.0, bridge 0000:15:01.0, bridge 0000:17:03.0, "
    "bridge 0000:39:01.0, bridge 0000:38:00.0, bridge 0000:37:01.0, bridge 0000:39:03.0 and 8 more"
)
ANSWERED = "see the evidence file for what the node answered"


def acs_everywhere(machine: Machine) -> None:
    for device in machine.sections["pci"]:
        if device["class"] == "0x060400":
            device["acs"] = "001d"


def every_bridge_at(machine: Machine, speed: str) -> None:
    for device in machine.sections["pci"]:
        if device["class"] == "0x060400":
            device["current_link_speed"] = f"{speed} GT/s PCIe"


def uplinks_above_idle_gpus_alone(machine: Machine) -> None:
    """No NIC is below the switches, and every GPU is idle."""
    below = {device["address"] for device in machine.sections["pci"] if device["class"].startswith("0x02")}
    machine.sections["pci"] = [device for device in machine.sections["pci"] if device["address"] not in below]
    for index in range(8):
        machine.set_gpu(index, "utilization_percent", 0)
        machine.set_gpu(index, "sm_clock_mhz", 345)
    every_bridge_at(machine, "2.5")


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


def no_gpu_counts(machine: Machine) -> None:
    for index in range(8):
        for kind in ("correctable", "nonfatal", "fatal"):
            machine.set_pci(machine.gpu_address(index), f"aer_dev_{kind}", {"why": "missing", "detail": "no such file"})


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
    Case("bridges at full speed", "pcie.bridge_speed", PASS, f"23 alike: {ABOVE}: link speed 32 GT/s"),
    Case(
        "every bridge at half its generation",
        "pcie.bridge_speed",
        FAIL,
        f"bridge {UPLINK}: link speed 8 GT/s, expected at least 32 GT/s (what both ends support) - power-cycle the "
        "node; if it stays, reseat the board or riser (and 16 more)",
        change=lambda machine: every_bridge_at(machine, "8.0"),
    ),
    Case(
        "one uplink at Gen1",
        "pcie.bridge_speed",
        FAIL,
        f"bridge {UPLINK}: link speed 2.5 GT/s, expected at least 32 GT/s (what both ends support) - power-cycle the "
        "node; if it stays, reseat the board or riser",
        change=lambda machine: machine.set_pci(UPLINK, "current_link_speed", "2.5 GT/s PCIe"),
    ),
    Case(
        "healthy: a switch of an older generation below a newer root port",
        "pcie.bridge_speed",
        PASS,
        "4 alike: bridge 0000:17:01.0, bridge 0000:17:03.0, bridge 0000:17:00.0, bridge 0000:17:02.0: link speed 32 "
        "GT/s",
        change=lambda machine: [
            (
                machine.set_pci(address, "current_link_speed", "16.0 GT/s PCIe"),
                machine.set_pci(UPLINK, "max_link_speed", "16.0 GT/s PCIe"),
            )
            for address in (UPLINK, ROOT)
        ],
    ),
    Case(
        "healthy: idle GPUs alone below the switches",
        "pcie.bridge_speed",
        SKIP,
        f"16 alike: {ABOVE_GPUS}: link speed 2.5 GT/s; judged only while a GPU below is busy",
        change=uplinks_above_idle_gpus_alone,
    ),
    Case(
        "a bridge whose speed was not read",
        "pcie.bridge_speed",
        ERROR,
        f"bridge {UPLINK}: could not read link speed: denied: current_link_speed - {ANSWERED}",
        change=lambda machine: machine.set_pci(
            UPLINK, "current_link_speed", {"why": "denied", "detail": "current_link_speed"}
        ),
    ),
    Case("ACS off", "pcie.acs", PASS, f"16 alike: {BETWEEN}: ACS redirects nothing"),
    Case(
        "healthy: bridges without ACS",
        "pcie.acs",
        PASS,
        f"16 alike: {BETWEEN}: ACS redirects nothing",
        change=lambda machine: machine.set_pci(PORT, "acs", {"why": "not supported", "detail": "no ACS capability"}),
    ),
    Case(
        "healthy: ACS at a root port, which all traffic of its switch stays below",
        "pcie.acs",
        PASS,
        f"16 alike: {BETWEEN}: ACS redirects nothing",
        change=lambda machine: machine.set_pci(ROOT, "acs", "001d"),
    ),
    Case(
        "ACS on everywhere",
        "pcie.acs",
        FAIL,
        "bridge 0000:17:00.0: ACS sends traffic between its GPUs and NICs to the CPU - turn ACS off in the BIOS, or at "
        "boot: setpci -s BRIDGE ECAP_ACS+6.w=0000 (and 15 more)",
        change=acs_everywhere,
    ),
    Case(
        "ACS on everywhere, before a job",
        "pcie.acs",
        WARN,
        "bridge 0000:17:00.0: ACS sends traffic between its GPUs and NICs to the CPU - turn ACS off in the BIOS, or at "
        "boot: setpci -s BRIDGE ECAP_ACS+6.w=0000 (and 15 more)",
        change=acs_everywhere,
        profile=Profile.BOOTCHECK,
    ),
    Case(
        "ACS in a virtual machine",
        "pcie.acs",
        SKIP,
        "node: a virtual machine: the host's bridges are not visible here",
        change=lambda machine: (acs_everywhere(machine), in_a_virtual_machine(machine)),
    ),
    Case(
        "ACS that needs root",
        "pcie.acs",
        ERROR,
        f"bridge {PORT}: could not read ACS control word: denied: extended configuration space - {ANSWERED}",
        change=lambda machine: machine.set_pci(
            PORT, "acs", {"why": "denied", "detail": "extended configuration space"}
        ),
    ),
    Case(
        "every device answers",
        "pcie.devices_answer",
        PASS,
        ("22 alike: GPU 0, GPU 1, GPU 2, GPU 3, GPU 4, GPU 5, GPU 6, GPU 7 and 14 more: responds on PCIe"),
    ),
    Case(
        "a GPU is lost",
        "pcie.devices_answer",
        FAIL,
        (
            "GPU 3 (0000:3d:00.0): does not respond on PCIe: its configuration space reads all ff - "
            "power-cycle the node; if it stays, reseat or replace the device"
        ),
        change=lambda machine: machine.lose_gpu(3),
    ),
    Case(
        "a NIC reads all ff",
        "pcie.devices_answer",
        FAIL,
        (
            "mlx5_2 (0000:3a:00.0, ibs2): does not respond on PCIe: its configuration space reads "
            "all ff - power-cycle the node; if it stays, reseat or replace the device"
        ),
        change=lambda machine: machine.set_pci(machine.nic_address(2), "config", "ff" * 64),
    ),
    Case(
        "config space was not read",
        "pcie.devices_answer",
        ERROR,
        (
            "{gpu0}: could not read PCIe configuration space: denied: config - see the evidence file "
            "for what the node answered"
        ),
        change=lambda machine: machine.set_pci(machine.gpu_address(0), "config", {"why": "denied", "detail": "config"}),
    ),
    Case(
        "there is nothing to judge",
        "pcie.devices_answer",
        SKIP,
        "node: no GPU and no RDMA NIC is visible on PCIe",
        change=lambda machine: machine.sections.update(pci=[]),
    ),
    Case(
        "every link is full",
        "pcie.link_width",
        PASS,
        "8 alike: GPU 0, GPU 1, GPU 2, GPU 3, GPU 4, GPU 5, GPU 6, GPU 7: link width 16 lanes",
    ),
    Case(
        "one GPU at x8",
        "pcie.link_width",
        FAIL,
        (
            "{gpu3}: link width 8 lanes, expected at least 16 lanes (the device's maximum) - "
            "power-cycle the node; if it stays, reseat the board or riser"
        ),
        change=lambda machine: machine.set_link(machine.gpu_address(3), width=8),
    ),
    Case(
        "one NIC at x8",
        "pcie.link_width",
        FAIL,
        (
            "mlx5_2 (0000:3a:00.0, ibs2): link width 8 lanes, expected at least 16 lanes (the "
            "device's maximum) - power-cycle the node; if it stays, reseat the board or riser"
        ),
        change=lambda machine: machine.set_link(machine.nic_address(2), width=8),
    ),
    Case(
        "a NIC without a link",
        "pcie.link_width",
        FAIL,
        (
            "mlx5_0 (0000:18:00.0, ibs0): link width 0 lanes, expected at least 16 lanes (the "
            "device's maximum) - power-cycle the node; if it stays, reseat the board or riser"
        ),
        change=lambda machine: machine.set_pci(machine.nic_address(0), "current_link_width", "0"),
    ),
    Case(
        "a width that no link has",
        "pcie.link_width",
        ERROR,
        "{gpu3}: could not read link width: failed: expected lanes of a PCIe link, the node sent 999999 - " + ANSWERED,
        change=lambda machine: machine.set_pci(machine.gpu_address(3), "current_link_width", "999999"),
    ),
    Case(
        "a GPU that states no highest width",
        "pcie.link_width",
        ERROR,
        f"{{gpu3}}: could not read the limit for link width: failed: its max_link_width names no lanes - {ANSWERED}",
        change=lambda machine: machine.set_pci(machine.gpu_address(3), "max_link_width", "0"),
    ),
    Case(
        "all GPUs at x8 on bare metal",
        "pcie.link_width",
        FAIL,
        (
            "{gpu0}: link width 8 lanes, expected at least 16 lanes (the device's maximum); all 8 "
            "GPUs are alike - set pcie.gpu_width if this is by design, else power-cycle the node; if "
            "it stays, reseat the board or riser (and 7 more)"
        ),
        change=all_narrow_on_metal,
        machine=L40S,
    ),
    Case(
        "all GPUs at x8 in a virtual machine",
        "pcie.link_width",
        WARN,
        (
            "{gpu0}: link width 8 lanes, expected at least 16 lanes (the device's maximum); all 8 "
            "GPUs are alike - set pcie.gpu_width if this is by design, else power-cycle the node; if "
            "it stays, reseat the board or riser (and 7 more)"
        ),
        change=all_narrow_in_a_virtual_machine,
        machine=L40S,
    ),
    Case(
        "only one GPU at x8 in a virtual machine",
        "pcie.link_width",
        FAIL,
        (
            "{gpu1}: link width 8 lanes, expected at least 16 lanes (the device's maximum) - "
            "power-cycle the node; if it stays, reseat the board or riser"
        ),
        change=some_narrow_in_a_virtual_machine,
        machine=L40S,
    ),
    Case(
        "all GPUs at x8 as the baseline says",
        "pcie.link_width",
        PASS,
        "8 alike: GPU 0, GPU 1, GPU 2, GPU 3, GPU 4, GPU 5, GPU 6, GPU 7: link width 8 lanes",
        change=lambda machine: every_gpu_at(machine, 8),
        machine=L40S,
        limits={"pcie.gpu_width": Limit(8, "lanes", "AWS g6e")},
    ),
    Case(
        "a GPU at x4 where the baseline says x8",
        "pcie.link_width",
        FAIL,
        (
            "{gpu1}: link width 4 lanes, expected at least 8 lanes (AWS g6e) - power-cycle the node; "
            "if it stays, reseat the board or riser"
        ),
        change=lambda machine: machine.set_link(machine.gpu_address(1), width=4),
        machine=L40S,
        limits={"pcie.gpu_width": Limit(8, "lanes", "AWS g6e")},
    ),
    Case(
        "healthy: a management NIC at x1 of x2",
        "pcie.link_width",
        PASS,
        "8 alike: GPU 0, GPU 1, GPU 2, GPU 3, GPU 4, GPU 5, GPU 6, GPU 7: link width 16 lanes",
        change=management_nic_at_x1,
    ),
    Case(
        "healthy: a virtual function has no link of its own",
        "pcie.link_width",
        PASS,
        "8 alike: GPU 0, GPU 1, GPU 2, GPU 3, GPU 4, GPU 5, GPU 6, GPU 7: link width 16 lanes",
        change=virtual_function,
    ),
    Case(
        "the width was not read",
        "pcie.link_width",
        ERROR,
        ("{gpu0}: could not read link width: denied: EACCES - see the evidence file for what the node answered"),
        change=lambda machine: machine.set_pci(
            machine.gpu_address(0), "current_link_width", {"why": "denied", "detail": "EACCES"}
        ),
    ),
    Case(
        "PCIe was not read",
        "pcie.link_width",
        ERROR,
        (
            "node: pci could not be read: timeout: 10 s - the node is slow: check its load and "
            "kernel log, then run again"
        ),
        change=lambda machine: machine.section_fails("pci", "timeout", "10 s"),
    ),
    Case(
        "every bridge is wide enough",
        "pcie.bridge_width",
        PASS,
        (
            "25 alike: bridge 0000:17:01.0, bridge 0000:16:00.0, bridge 0000:15:01.0, bridge "
            "0000:17:03.0, bridge 0000:39:01.0, bridge 0000:38:00.0, bridge 0000:37:01.0, bridge "
            "0000:39:03.0 and 17 more: link width 16 lanes"
        ),
    ),
    Case(
        "the uplink of a switch at x4",
        "pcie.bridge_width",
        FAIL,
        (
            "bridge 0000:16:00.0: link width 4 lanes, expected at least 16 lanes (what the bridge "
            "and the device below it support); on the path to GPU 0000:19:00.0 - power-cycle the "
            "node; if it stays, reseat the board or riser"
        ),
        change=uplink_at_x4,
    ),
    Case(
        "healthy: root port wider than its management NIC",
        "pcie.bridge_width",
        PASS,
        (
            "25 alike: bridge 0000:17:01.0, bridge 0000:16:00.0, bridge 0000:15:01.0, bridge "
            "0000:17:03.0, bridge 0000:39:01.0, bridge 0000:38:00.0, bridge 0000:37:01.0, bridge "
            "0000:39:03.0 and 17 more: link width 16 lanes"
        ),
        change=management_nic_at_x1,
    ),
    Case(
        "a narrow GPU is not the bridge's fault",
        "pcie.bridge_width",
        PASS,
        (
            "24 alike: bridge 0000:17:01.0, bridge 0000:16:00.0, bridge 0000:15:01.0, bridge "
            "0000:17:03.0, bridge 0000:39:01.0, bridge 0000:38:00.0, bridge 0000:37:01.0, bridge "
            "0000:99:01.0 and 16 more: link width 16 lanes"
        ),
        change=lambda machine: machine.set_link(machine.gpu_address(3), width=8),
    ),
    Case(
        "a bridge was not read",
        "pcie.bridge_width",
        ERROR,
        (
            "bridge 0000:17:01.0: could not read link width: denied: EACCES - see the evidence file "
            "for what the node answered"
        ),
        change=lambda machine: machine.set_pci(
            "0000:17:01.0", "current_link_width", {"why": "denied", "detail": "EACCES"}
        ),
    ),
    Case(
        "no bridge is visible",
        "pcie.bridge_width",
        SKIP,
        "node: no bridge with a PCIe link is visible above a GPU or RDMA NIC",
        change=without_bridges,
    ),
    Case(
        "the highest speed of an idle GPU was not read",
        "pcie.link_speed",
        ERROR,
        (
            "{gpu3}: could not read the limit for link speed: failed: expected a speed in GT/s, the node sent "
            "garbage - " + ANSWERED
        ),
        change=lambda machine: machine.set_pci(machine.gpu_address(3), "max_link_speed", "garbage"),
    ),
    Case(
        "a kernel that has no name for the device's speed (64 GT/s)",
        "pcie.link_speed",
        ERROR,
        ("{gpu3}: could not read the limit for link speed: failed: its max_link_speed names no speed - " + ANSWERED),
        change=lambda machine: machine.set_pci(machine.gpu_address(3), "max_link_speed", "Unknown"),
    ),
    Case(
        "every link at full speed",
        "pcie.link_speed",
        PASS,
        ("16 alike: GPU 0, GPU 1, GPU 3, GPU 4, GPU 6, GPU 7, mlx5_0, mlx5_1 and 8 more: link speed 32 GT/s"),
    ),
    Case(
        "healthy: idle GPUs at 2.5 GT/s",
        "pcie.link_speed",
        PASS,
        ("6 alike: mlx5_0, NIC 0000:2a:00.0, NIC 0000:2a:00.1, mlx5_1, mlx5_2, mlx5_3: link speed 32 GT/s"),
        change=every_gpu_idle,
        machine=L40S,
    ),
    Case(
        "a GPU at work at 2.5 GT/s",
        "pcie.link_speed",
        FAIL,
        (
            "{gpu1}: link speed 2.5 GT/s, expected at least 32 GT/s (the device's maximum) - "
            "power-cycle the node; if it stays, reseat the board or riser"
        ),
        change=working_at_gen1,
    ),
    Case(
        "a GPU at its highest clock at 2.5 GT/s",
        "pcie.link_speed",
        FAIL,
        (
            "{gpu1}: link speed 2.5 GT/s, expected at least 32 GT/s (the device's maximum) - "
            "power-cycle the node; if it stays, reseat the board or riser"
        ),
        change=at_full_clock_at_gen1,
    ),
    Case(
        "a NIC at 8 GT/s",
        "pcie.link_speed",
        FAIL,
        (
            "mlx5_1 (0000:1a:00.0, ibs1): link speed 8 GT/s, expected at least 32 GT/s (the device's "
            "maximum) - power-cycle the node; if it stays, reseat the board or riser"
        ),
        change=lambda machine: machine.set_link(machine.nic_address(1), speed_gts="8.0"),
    ),
    Case(
        "a Gen5 NIC in a Gen4 slot",
        "pcie.link_speed",
        WARN,
        (
            "mlx5_1 (0000:1a:00.0, ibs1): link speed 16 GT/s, expected at least 32 GT/s (the "
            "device's maximum); the slot supports no more - move the device if the platform has "
            "faster slots"
        ),
        change=nic_in_a_gen4_slot,
    ),
    Case(
        "the speed was not read",
        "pcie.link_speed",
        ERROR,
        (
            "mlx5_0 (0000:18:00.0, ibs0): could not read link speed: failed: EIO - see the evidence "
            "file for what the node answered"
        ),
        change=lambda machine: machine.set_pci(
            machine.nic_address(0), "current_link_speed", {"why": "failed", "detail": "EIO"}
        ),
    ),
    Case(
        "none",
        "pcie.uncorrectable_errors",
        PASS,
        (
            "53 alike: GPU 0, bridge 0000:17:01.0, bridge 0000:16:00.0, bridge 0000:15:01.0, GPU 1, "
            "bridge 0000:17:03.0, GPU 2, bridge 0000:39:01.0 and 45 more: fatal PCIe errors since boot 0"
        ),
    ),
    Case(
        "one fatal error",
        "pcie.uncorrectable_errors",
        FAIL,
        (
            "{gpu2}: fatal PCIe errors since boot 1, expected at most 0 (AER) - reseat the board or "
            "riser; replace it when the count grows"
        ),
        change=uncorrectable("fatal", 1),
    ),
    Case(
        "two non-fatal errors",
        "pcie.uncorrectable_errors",
        WARN,
        (
            "{gpu2}: non-fatal PCIe errors since boot 2, expected at most 0 (AER) - reseat the board "
            "or riser; replace it when the count grows"
        ),
        change=uncorrectable("nonfatal", 2),
    ),
    Case(
        "the firmware keeps the counters",
        "pcie.uncorrectable_errors",
        SKIP,
        "node: the firmware does not share the PCIe error counters with the OS",
        change=counters_kept_by_firmware,
    ),
    Case(
        "one GPU of eight has no counter",
        "pcie.uncorrectable_errors",
        ERROR,
        (
            "{gpu0}: could not read fatal PCIe errors since boot: failed: it has no such counter, and another device "
            "of its model has - see the evidence file for what the node answered"
        ),
        change=lambda machine: machine.set_pci(
            machine.gpu_address(0), "aer_dev_fatal", {"why": "missing", "detail": "no such file"}
        ),
    ),
    Case(
        "one GPU of eight has no counter",
        "pcie.correctable_errors",
        ERROR,
        (
            "{gpu0}: could not read correctable PCIe errors since boot: failed: it has no such counter, and another "
            "device of its model has - see the evidence file for what the node answered"
        ),
        change=lambda machine: machine.set_pci(
            machine.gpu_address(0), "aer_dev_correctable", {"why": "missing", "detail": "no such file"}
        ),
        limits={"pcie.aer_correctable_max": 480},
    ),
    Case(
        "no GPU has a counter, the NICs have: by design",
        "pcie.uncorrectable_errors",
        PASS,
        (
            "45 alike: bridge 0000:17:01.0, bridge 0000:16:00.0, bridge 0000:15:01.0, bridge 0000:17:03.0, bridge "
            "0000:39:01.0, bridge 0000:38:00.0, bridge 0000:37:01.0, bridge 0000:39:03.0 and 37 more: fatal PCIe "
            "errors since boot 0"
        ),
        change=no_gpu_counts,
    ),
    Case(
        "a counter was not read",
        "pcie.uncorrectable_errors",
        ERROR,
        (
            "{gpu0}: could not read fatal PCIe errors since boot: denied: EACCES - see the evidence "
            "file for what the node answered"
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
            "mlx5_0 (0000:18:00.0, ibs0): correctable PCIe errors since boot 481 events, expected at "
            "most 480 events (the site's own) - read them before and after load; "
            "reseat the board or riser if they grow"
        ),
        change=lambda machine: machine.count_correctable_errors(machine.nic_address(0), 481),
        limits={"pcie.aer_correctable_max": 480},
    ),
    Case(
        "as many as the limit",
        "pcie.correctable_errors",
        PASS,
        (
            "52 alike: GPU 0, bridge 0000:17:01.0, bridge 0000:16:00.0, bridge 0000:15:01.0, GPU 1, "
            "bridge 0000:17:03.0, GPU 2, bridge 0000:39:01.0 and 44 more: correctable PCIe errors since boot 0 events"
        ),
        change=lambda machine: machine.count_correctable_errors(machine.nic_address(0), 480),
        limits={"pcie.aer_correctable_max": 480},
    ),
    Case(
        "without a limit",
        "pcie.correctable_errors",
        NOT_JUDGED,
        "node: no limit pcie.aer_correctable_max for platform hgx-h100-8",
        limits={"pcie.aer_correctable_max": None},
    ),
    Case(
        "a counter was not read",
        "pcie.correctable_errors",
        ERROR,
        (
            "{gpu0}: could not read correctable PCIe errors since boot: denied: EACCES - see the "
            "evidence file for what the node answered"
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
        ("8 alike: GPU 0, GPU 1, GPU 2, GPU 3, GPU 4, GPU 5, GPU 6, GPU 7: PCIe replays since boot 0 events"),
        limits={"pcie.replays_max": 80},
    ),
    Case(
        "more than the limit",
        "pcie.replays",
        WARN,
        (
            "{gpu5}: PCIe replays since boot 4000 events, expected at most 80 events (the site's "
            "own) - read them before and after load; reseat the board or riser if they grow"
        ),
        change=lambda machine: machine.set_gpu(5, "pcie_replays", 4000),
        limits={"pcie.replays_max": 80},
    ),
    Case(
        "the counter was not read",
        "pcie.replays",
        ERROR,
        (
            "{gpu5}: could not read PCIe replays since boot: failed: NVML 999 - see the evidence "
            "file for what the node answered"
        ),
        change=lambda machine: machine.set_gpu(5, "pcie_replays", {"why": "failed", "detail": "NVML 999"}),
        limits={"pcie.replays_max": 80},
    ),
    Case(
        "without a limit",
        "pcie.replays",
        NOT_JUDGED,
        "node: no limit pcie.replays_max for platform hgx-h100-8",
        limits={"pcie.replays_max": None},
    ),
    Case("it passes through", "pcie.iommu", PASS, "IOMMU: pass-through"),
    Case("it is off", "pcie.iommu", PASS, "IOMMU: off", change=iommu_off),
    Case(
        "it translates",
        "pcie.iommu",
        WARN,
        (
            "IOMMU: translates addresses in 268 groups: the kernel command line has no iommu=pt - "
            "add iommu=pt to the kernel command line, or turn the IOMMU off in the BIOS"
        ),
        change=lambda machine: machine.set("system", "cmdline", "ro quiet intel_iommu=on"),
    ),
    Case(
        "in a virtual machine",
        "pcie.iommu",
        SKIP,
        "node: a virtual machine: the host's IOMMU is not visible here",
        change=in_a_virtual_machine,
    ),
    Case(
        "it was not read",
        "pcie.iommu",
        ERROR,
        ("IOMMU: could not read mode: denied: EACCES - see the evidence file for what the node answered"),
        change=lambda machine: machine.set("system", "iommu_groups", {"why": "denied", "detail": "EACCES"}),
    ),
)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_check_says(case: Case) -> None:
    assert_case(case)
