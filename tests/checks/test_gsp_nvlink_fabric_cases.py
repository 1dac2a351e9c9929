"""What the checks of GSP firmware, NVLink and the fabric say, word for word; each GPU counts, not only the first."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from fleet.machine import Machine, facts_of
from support.judging import Case, assert_case, baseline_of, fleet_of, judge_one

from nodegate import suite
from nodegate.judge.judge import judge
from nodegate.node import Node
from nodegate.records.verdict import Verdict
from nodegate.unknown import Unknown, Why

if TYPE_CHECKING:
    from collections.abc import Callable

PASS, WARN, FAIL, ERROR, SKIP = Verdict.PASS, Verdict.WARN, Verdict.FAIL, Verdict.ERROR, Verdict.SKIP
NOT_JUDGED = Verdict.NOT_JUDGED
UNSUPPORTED = {"why": "not supported", "detail": ""}
FAILED = {"why": "failed", "detail": "NVML 999"}
_SEE = "see the evidence file for what the node answered"
_SET = "set NVreg_EnableGpuFirmware in the driver's module options as on the other nodes, then reboot"
_LINK = "read the kernel log for SXid and Xid 74 of this link; power-cycle the node; if it stays, call the vendor"
_RESTART = "systemctl restart nvidia-fabricmanager; if it stops again, read /var/log/fabricmanager.log"
_HEALTH = "restart nvidia-fabricmanager and reset the GPUs; if it stays, read the kernel log for SXid lines"


def every(machine: Machine, path: str, value: object) -> None:
    for index in range(8):
        machine.set_gpu(index, path, value)


def gsp_off(machine: Machine, *indices: int) -> None:
    """As NVML and the driver's file tell it."""
    for index in indices:
        machine.set_gpu(index, "gsp_mode", [0, 1])
        machine.set_gpu(index, "gsp_firmware", UNSUPPORTED)
        information = machine.sections["driver"]["gpus"]
        address = machine.gpu_address(index)
        information[address] = information[address].replace("550.163.01", "N/A")


def old_driver(machine: Machine) -> None:
    """A driver before GSP: neither NVML nor the driver's file knows the word."""
    every(machine, "gsp_mode", {"why": "missing", "detail": ""})
    every(machine, "gsp_firmware", {"why": "missing", "detail": ""})
    for address, text in machine.sections["driver"]["gpus"].items():
        lines = [line for line in text.splitlines() if not line.startswith("GPU Firmware")]
        machine.sections["driver"]["gpus"][address] = "\n".join(lines)


def no_switches(machine: Machine) -> None:
    machine.sections["pci"] = [device for device in machine.sections["pci"] if device["class"] != "0x068000"]


def in_a_virtual_machine(machine: Machine) -> None:
    no_switches(machine)
    machine.set("system", "dmi.sys_vendor", "Microsoft Corporation")
    machine.set("system", "dmi.product_name", "Virtual Machine")


def peers(*rows: tuple[int, ...]) -> Callable[[Machine], object]:
    """What the driver says of the peer access of these GPUs; of all others it is good."""

    def change(machine: Machine) -> None:
        said = {tuple(row[:2]): list(row) for row in rows}
        listed = machine.sections["nvml"]["peers"]
        machine.set("nvml", "peers", [said.get((row[0], row[1]), row) for row in listed])

    return change


def fabric(machine: Machine, index: int, **readings: object) -> None:
    for key, value in readings.items():
        machine.set_gpu(index, f"fabric.{key}", value)


GSP = (
    Case(
        "on everywhere",
        "gsp.state",
        PASS,
        "{gpus}: GSP firmware on",
    ),
    Case(
        "off everywhere, and no policy: a site's choice",
        "gsp.state",
        PASS,
        "{gpus}: GSP firmware off",
        lambda machine: gsp_off(machine, *range(8)),
    ),
    Case(
        "off on one",
        "gsp.state",
        FAIL,
        f"{{gpu3}}: GSP firmware off, expected on (most GPUs of this node) - {_SET}",
        lambda machine: gsp_off(machine, 3),
    ),
    Case(
        "on where the inventory wants it off",
        "gsp.state",
        FAIL,
        f"{{gpu0}}: GSP firmware on, expected off (inventory hosts.yaml:3) - {_SET} (and 7 more)",
        expected={"gsp": "off"},
    ),
    Case(
        "a driver before GSP runs without it",
        "gsp.state",
        PASS,
        "{gpus}: GSP firmware off",
        old_driver,
    ),
    Case(
        "not told for one",
        "gsp.state",
        ERROR,
        f"{{gpu3}}: could not read GSP firmware: failed: NVML 999 - {_SEE}",
        lambda machine: [machine.set_gpu(3, key, FAILED) for key in ("gsp_mode", "gsp_firmware")],
    ),
    Case(
        "both agree",
        "gsp.agreement",
        PASS,
        "{gpus}: GSP firmware by NVML on",
    ),
    Case(
        "NVML and the driver's file differ",
        "gsp.agreement",
        FAIL,
        "{gpu3}: GSP firmware by NVML off, expected on (/proc/driver/nvidia/gpus) - load the driver again or reboot, "
        "then read both again",
        lambda machine: (
            machine.set_gpu(3, "gsp_mode", [0, 1]),
            machine.set_gpu(3, "gsp_firmware", UNSUPPORTED),
        ),
    ),
    Case(
        "a driver before GSP",
        "gsp.agreement",
        SKIP,
        "{gpus}: the driver's file does not report GSP firmware",
        old_driver,
    ),
    Case(
        "the driver's files cannot be read",
        "gsp.agreement",
        ERROR,
        "node: could not read /proc/driver/nvidia/gpus: missing: no such folder - see the findings of gpu.bound",
        lambda machine: machine.set("driver", "gpus", {"why": "missing", "detail": "no such folder"}),
    ),
    Case(
        "the driver's own",
        "gsp.version",
        PASS,
        "{gpus}: GSP firmware version 550.163.01",
    ),
    Case(
        "of another driver",
        "gsp.version",
        FAIL,
        "{gpu3}: GSP firmware version 550.54.15, expected 550.163.01 (the driver's version) - install driver and "
        "firmware from one package, then reboot",
        lambda machine: machine.set_gpu(3, "gsp_firmware", "550.54.15"),
    ),
    Case(
        "off",
        "gsp.version",
        SKIP,
        "{gpus}: GSP firmware is off",
        lambda machine: gsp_off(machine, *range(8)),
    ),
    Case(
        "alone in the run",
        "gsp.fleet",
        NOT_JUDGED,
        "node: only 1 of platform hgx-h100-8 in this run, 3 are needed",
    ),
)


def bridged(machine: Machine, index: int, up: int) -> None:
    """The first links of a GPU are up, the others not connected."""
    for link in range(18):
        machine.set_nvlink(index, link, "state", int(link < up))


LINKS = (
    Case(
        "all up",
        "nvlink.links",
        PASS,
        "{gpus}: 18 active NVLinks",
    ),
    Case(
        "one down",
        "nvlink.links",
        FAIL,
        "{gpu3}: 17 active NVLinks, expected 18 links (hgx-h100-8.yaml nvlink.count: NVIDIA H100 data "
        f"sheet: 18 NVLinks of the fourth generation); down: NVLink 7 - {_LINK}",
        lambda machine: machine.set_nvlink(3, 7, "state", 0),
    ),
    Case(
        "the driver lists fewer",
        "nvlink.links",
        FAIL,
        "{gpu3}: 12 active NVLinks, expected 18 links (hgx-h100-8.yaml nvlink.count: NVIDIA H100 data "
        f"sheet: 18 NVLinks of the fourth generation) - {_LINK}",
        lambda machine: machine.set_gpu(3, "nvlinks", machine.sections["nvml"]["gpus"][3]["nvlinks"][:12]),
    ),
    Case(
        "one down on a platform without a number",
        "nvlink.links",
        FAIL,
        f"{{gpu3}}: 16 active NVLinks, expected 18 links (the links that this GPU has); down: NVLink 7, 8 - {_LINK}",
        lambda machine: (machine.set_nvlink(3, 7, "state", 0), machine.set_nvlink(3, 8, "state", 0)),
        limits={"nvlink.count": None},
    ),
    Case(
        "PCIe cards without bridges: every link is listed, none is up",
        "nvlink.links",
        SKIP,
        "{gpus}: no NVLink is up: no bridge",
        lambda machine: [bridged(machine, index, 0) for index in range(8)],
        limits={"nvlink.count": None},
    ),
    Case(
        "PCIe cards with one bridge of three",
        "nvlink.links",
        PASS,
        "{gpus}: 4 active NVLinks",
        lambda machine: [bridged(machine, index, 4) for index in range(8)],
        limits={"nvlink.count": None, "nvlink.per_bridge": 4},
    ),
    Case(
        "a part of a bridge",
        "nvlink.links",
        FAIL,
        "{gpu3}: 3 active NVLinks, expected 4 links (4 of each bridge; the site's own); down: NVLink "
        f"{', '.join(map(str, range(3, 18)))} - {_LINK}",
        lambda machine: [bridged(machine, index, 3 if index == 3 else 4) for index in range(8)],
        limits={"nvlink.count": None, "nvlink.per_bridge": 4},
    ),
    Case(
        "one card without the bridge that the others have",
        "nvlink.links",
        WARN,
        "{gpu3}: no NVLink is up, 4 on another GPU of this node - look whether this card should have a bridge; seat "
        "it, or set nvlink.count for the platform",
        lambda machine: [bridged(machine, index, 0 if index == 3 else 4) for index in range(8)],
        limits={"nvlink.count": None, "nvlink.per_bridge": 4},
    ),
    Case(
        "the state of one cannot be read",
        "nvlink.links",
        ERROR,
        f"GPU 3 NVLink 7 ({{adr3}}, S/N {{ser3}}): could not read its state: failed: NVML 999 - {_SEE}",
        lambda machine: machine.set_nvlink(3, 7, "state", FAILED),
    ),
    Case(
        "no NVLink told where the platform has some",
        "nvlink.links",
        ERROR,
        f"{{gpu3}}: could not read the state of its NVLinks: not supported - {_SEE}",
        lambda machine: machine.set_gpu(3, "nvlinks", UNSUPPORTED),
    ),
    Case(
        "a PCIe card",
        "nvlink.links",
        SKIP,
        "node: this platform has no NVLink (l40s.yaml nvlink.count: NVIDIA L40S data sheet: no NVLink)",
        machine=Machine.pcie_l40s,
    ),
    Case(
        "a PCIe card of an unknown platform",
        "nvlink.links",
        SKIP,
        "{gpus}: has no NVLink",
        machine=Machine.pcie_l40s,
        limits={"nvlink.count": None},
    ),
    Case(
        "MIG on",
        "nvlink.links",
        SKIP,
        "{gpus}: MIG is on: its instances do not use NVLink",
        lambda machine: every(machine, "mig_mode", [1, 1]),
    ),
    Case("all", "nvlink.peer_access", PASS, "{gpus}: peer access to every other GPU"),
    Case(
        "disabled for two",
        "nvlink.peer_access",
        FAIL,
        (
            "{gpu3}: no peer access to GPU 5: disabled by a setting of the driver - look at fabric.manager and "
            "nvlink.links, and at the driver's options (NVreg_RegistryDwords); then reboot (and 1 more)"
        ),
        change=peers((3, 5, 4, 0, 0)),
    ),
    Case(
        "refused",
        "nvlink.peer_access",
        ERROR,
        f"node: could not read peer access: denied: NVML 4: No Permission - {_SEE}",
        change=lambda machine: machine.set("nvml", "peers", {"why": "denied", "detail": "NVML 4: No Permission"}),
    ),
    Case(
        "no numbers",
        "nvlink.peer_access",
        ERROR,
        f"node: could not read peer access: failed: expected 4 whole numbers, the node sent [0, 1, 'yes'] - {_SEE}",
        change=lambda machine: machine.set("nvml", "peers", [[0, 1, "yes"]]),
    ),
    Case(
        "healthy: an older release, or an older driver",
        "nvlink.peer_access",
        SKIP,
        "node: does not report peer access (missing: the node sent no peers)",
        change=lambda machine: machine.sections["nvml"].pop("peers"),
    ),
    Case(
        "healthy: PCIe cards",
        "nvlink.peer_access",
        SKIP,
        "node: NVLink does not join all GPUs of this platform: peer access is up to the host",
        change=peers((3, 5, 1, 1, 5)),
        machine=Machine.pcie_l40s,
    ),
    Case(
        "healthy: MIG",
        "nvlink.peer_access",
        SKIP,
        "node: one GPU alone, or MIG, has no peers",
        change=lambda machine: every(machine, "mig_mode", [1, 1]),
    ),
    Case(
        "a lost GPU",
        "nvlink.peer_access",
        ERROR,
        "GPU 3 (0000:3d:00.0): could not read its state: lost: NVML 15: GPU is lost - see the findings of gpu.lost",
        change=lambda machine: machine.lose_gpu(3),
    ),
    Case(
        "full speed",
        "nvlink.speed",
        PASS,
        "{gpus}: 18 NVLinks at 26000 MB/s or more",
    ),
    Case(
        "one slow",
        "nvlink.speed",
        FAIL,
        "GPU 3 NVLink 7 ({adr3}, S/N {ser3}): link speed 13281 MB/s, expected at least 26000 "
        "MB/s (hgx-h100-8.yaml nvlink.speed_mbps: nvidia-smi nvlink -s of an H100: 26.562 GB/s; OCI "
        f"health checks expect at least 26) - {_LINK}",
        lambda machine: machine.set_nvlink(3, 7, "speed_mbps", 13281),
    ),
    Case(
        "one slow on a platform without a speed",
        "nvlink.speed",
        FAIL,
        "GPU 3 NVLink 7 ({adr3}, S/N {ser3}): link speed 13281 MB/s, expected at least 26562 "
        f"MB/s (the fastest NVLink of this node) - {_LINK}",
        lambda machine: machine.set_nvlink(3, 7, "speed_mbps", 13281),
        limits={"nvlink.speed_mbps": None},
    ),
    Case(
        "a speed that cannot be read",
        "nvlink.speed",
        ERROR,
        f"GPU 3 NVLink 7 ({{adr3}}, S/N {{ser3}}): could not read link speed: failed: NVML 999 - {_SEE}",
        lambda machine: machine.set_nvlink(3, 7, "speed_mbps", FAILED),
    ),
    Case(
        "a link that is down is not judged for its speed",
        "nvlink.speed",
        PASS,
        "7 alike: GPU 0, GPU 1, GPU 2, GPU 4, GPU 5, GPU 6, GPU 7: 18 NVLinks at 26000 MB/s or more",
        lambda machine: (machine.set_nvlink(3, 7, "state", 0), machine.set_nvlink(3, 7, "speed_mbps", 0)),
    ),
    Case(
        "no errors",
        "nvlink.errors",
        PASS,
        "{gpus}: no replay and no recovery on 18 NVLinks, 0 CRC errors corrected",
    ),
    Case(
        "replays on two links, recoveries on one",
        "nvlink.errors",
        WARN,
        f"{{gpu3}}: NVLink replays since driver load: 4 on link 7, 1 on link 9 - {_LINK} (and 1 more)",
        lambda machine: (
            machine.set_nvlink(3, 7, "replay", 4),
            machine.set_nvlink(3, 9, "replay", 1),
            machine.set_nvlink(3, 9, "recovery", 2),
        ),
    ),
    Case(
        "CRC errors that were corrected",
        "nvlink.errors",
        PASS,
        "{gpu0}: no replay and no recovery on 18 NVLinks, 12 CRC errors corrected",
        lambda machine: machine.set_nvlink(0, 7, "crc", 12),
    ),
    Case(
        "a counter at its end says nothing",
        "nvlink.errors",
        PASS,
        "{gpus}: no replay and no recovery on 18 NVLinks, 0 CRC errors corrected",
        lambda machine: machine.set_nvlink(3, 7, "replay", 0xFFFFFFFF),
    ),
    Case(
        "a driver that tells no errors",
        "nvlink.errors",
        SKIP,
        "{gpus}: this driver does not report NVLink errors",
        lambda machine: [
            machine.set_nvlink(index, link, key, UNSUPPORTED)
            for index in range(8)
            for link in range(18)
            for key in ("replay", "recovery", "crc")
        ],
    ),
    Case(
        "one link of eighteen does not report its errors",
        "nvlink.errors",
        ERROR,
        f"GPU 3 NVLink 7 ({{adr3}}, S/N {{ser3}}): could not read an error counter: not supported - {_SEE}",
        lambda machine: machine.set_nvlink(3, 7, "replay", UNSUPPORTED),
    ),
    Case(
        "healthy: a link that is down does not report its errors",
        "nvlink.errors",
        PASS,
        "7 alike: GPU 0, GPU 1, GPU 2, GPU 4, GPU 5, GPU 6, GPU 7: no replay and no recovery on 18 NVLinks, 0 CRC "
        "errors corrected",
        lambda machine: [
            machine.set_nvlink(3, 7, key, value)
            for key, value in (("state", 0), ("replay", UNSUPPORTED), ("recovery", UNSUPPORTED), ("crc", UNSUPPORTED))
        ],
    ),
    Case(
        "the errors of one cannot be read",
        "nvlink.errors",
        ERROR,
        f"GPU 3 NVLink 7 ({{adr3}}, S/N {{ser3}}): could not read an error counter: failed: NVML 999 - {_SEE}",
        lambda machine: machine.set_nvlink(3, 7, "recovery", FAILED),
    ),
)

_REQUIRED = "l40s.yaml fabric.required: no NVSwitch on this platform"
MANAGER = (
    Case("all there", "fabric.nvswitches", PASS, "node: 4 NVSwitches on PCIe"),
    Case(
        "a virtual machine whose host keeps the switches",
        "fabric.nvswitches",
        SKIP,
        "node: a virtual machine without NVSwitches",
        in_a_virtual_machine,
    ),
    Case(
        "a virtual machine whose host runs the fabric manager",
        "fabric.manager",
        SKIP,
        "node: a virtual machine without NVSwitches: the fabric manager runs on its host",
        in_a_virtual_machine,
    ),
    Case(
        "one missing",
        "fabric.nvswitches",
        FAIL,
        "node: 3 NVSwitches on PCIe, expected 4 switches (hgx-h100-8.yaml fabric.nvswitch_count: NVIDIA "
        "HGX H100 8-GPU board: 4 NVSwitches) - power-cycle the node; if it stays, replace the GPU "
        "baseboard",
        lambda machine: machine.sections["pci"].remove(
            next(device for device in machine.sections["pci"] if device["class"] == "0x068000")
        ),
    ),
    Case(
        "all missing on a node that is said to be an HGX",
        "fabric.nvswitches",
        FAIL,
        "node: 0 NVSwitches on PCIe, expected 4 switches (the site's own) - power-cycle the node; if it "
        "stays, replace the GPU baseboard",
        no_switches,
        limits={"fabric.nvswitch_count": 4},
    ),
    Case(
        "one does not answer",
        "fabric.nvswitches",
        FAIL,
        "NVSwitch {switch}: does not respond on PCIe - power-cycle the node; if it stays, replace the GPU baseboard",
        lambda machine: next(device for device in machine.sections["pci"] if device["class"] == "0x068000").update(
            config="ff" * 64
        ),
    ),
    Case(
        "a PCIe platform",
        "fabric.nvswitches",
        SKIP,
        "node: this platform has no NVSwitch on PCIe (l40s.yaml fabric.nvswitch_count: no NVSwitch on this platform)",
        machine=Machine.pcie_l40s,
    ),
    Case("active", "fabric.manager", PASS, "nvidia-fabricmanager: running"),
    Case(
        "failed",
        "fabric.manager",
        FAIL,
        f"nvidia-fabricmanager: not running: failed (failed, result exit-code) - {_RESTART}",
        lambda machine: machine.stop_service("nvidia-fabricmanager"),
    ),
    Case(
        "stopped by hand",
        "fabric.manager",
        FAIL,
        f"nvidia-fabricmanager: not running: inactive (dead, result success) - {_RESTART}",
        lambda machine: [
            machine.set_unit("nvidia-fabricmanager", key, value)
            for key, value in (("ActiveState", "inactive"), ("SubState", "dead"))
        ],
    ),
    Case(
        "active and exited: nothing runs",
        "fabric.manager",
        FAIL,
        f"nvidia-fabricmanager: not running: active (exited, result success) - {_RESTART}",
        lambda machine: machine.set_unit("nvidia-fabricmanager", "SubState", "exited"),
    ),
    Case(
        "starting again and again",
        "fabric.manager",
        FAIL,
        f"nvidia-fabricmanager: not running: activating (auto-restart, result exit-code) - {_RESTART}",
        lambda machine: [
            machine.set_unit("nvidia-fabricmanager", key, value)
            for key, value in (
                ("ActiveState", "activating"),
                ("SubState", "auto-restart"),
                ("Result", "exit-code"),
                ("NRestarts", "5"),
            )
        ],
    ),
    Case(
        "not installed",
        "fabric.manager",
        FAIL,
        "nvidia-fabricmanager: not installed - install the nvidia-fabricmanager package of the driver's own version",
        lambda machine: machine.set_unit("nvidia-fabricmanager", "LoadState", "not-found"),
    ),
    Case(
        "was restarted",
        "fabric.manager",
        WARN,
        "nvidia-fabricmanager: 2 automatic restarts, expected at most 0 restarts (none for a healthy "
        "service) - read /var/log/fabricmanager.log for why it ended",
        lambda machine: machine.set_unit("nvidia-fabricmanager", "NRestarts", "2"),
    ),
    Case(
        "the node's services cannot be had",
        "fabric.manager",
        ERROR,
        "node: services could not be read: timeout: 5 s - the node is slow: check its load and kernel "
        "log, then run again",
        lambda machine: machine.section_fails("services", "timeout", "5 s"),
    ),
    Case(
        "a PCIe platform needs none",
        "fabric.manager",
        SKIP,
        f"node: this platform runs no fabric manager ({_REQUIRED})",
        machine=Machine.pcie_l40s,
    ),
    Case(
        "an unknown platform without NVSwitches needs none",
        "fabric.manager",
        SKIP,
        "node: PCIe lists no NVSwitch: no fabric manager is needed",
        machine=Machine.pcie_l40s,
        limits={"fabric.required": None},
    ),
    Case(
        "an unknown platform with NVSwitches needs it",
        "fabric.manager",
        FAIL,
        f"nvidia-fabricmanager: not running: failed (failed, result exit-code) - {_RESTART}",
        lambda machine: machine.stop_service("nvidia-fabricmanager"),
        limits={"fabric.required": None},
    ),
    Case(
        "a platform that needs it although its NVSwitches are all gone",
        "fabric.manager",
        FAIL,
        f"nvidia-fabricmanager: not running: failed (failed, result exit-code) - {_RESTART}",
        lambda machine: (machine.stop_service("nvidia-fabricmanager"), no_switches(machine)),
        limits={"fabric.required": True},
    ),
    Case("the driver's own", "fabric.version", PASS, "nvidia-fabricmanager: version 550.163.01"),
    Case(
        "of another driver",
        "fabric.version",
        FAIL,
        "nvidia-fabricmanager: version 550.54.15, expected 550.163.01 (the driver's version) - install both from one "
        "release and hold the packages (apt-mark hold, dnf versionlock)",
        lambda machine: machine.set("services", "fabric_manager_version", "Fabric Manager version is : 550.54.15"),
    ),
    Case(
        "the program is not there",
        "fabric.version",
        ERROR,
        f"nvidia-fabricmanager: could not read version: missing: nv-fabricmanager - {_SEE}",
        lambda machine: machine.set(
            "services", "fabric_manager_version", {"why": "missing", "detail": "nv-fabricmanager"}
        ),
    ),
)

MEMBERS = (
    Case(
        "all completed",
        "fabric.state",
        PASS,
        "{gpus}: fabric state completed",
    ),
    Case(
        "the last one has not started",
        "fabric.state",
        FAIL,
        f"{{gpu7}}: fabric state not started, expected completed - {_RESTART}",
        lambda machine: fabric(machine, 7, state=1),
    ),
    Case(
        "none has started",
        "fabric.state",
        FAIL,
        f"{{gpu0}}: fabric state not started, expected completed - {_RESTART} (and 7 more)",
        lambda machine: [fabric(machine, index, state=1) for index in range(8)],
    ),
    Case(
        "one is in progress",
        "fabric.state",
        FAIL,
        f"{{gpu4}}: fabric state in progress, expected completed - {_RESTART}",
        lambda machine: fabric(machine, 4, state=2),
    ),
    Case(
        "one completed with an error",
        "fabric.state",
        FAIL,
        "{gpu4}: fabric status 999, expected 0 - reset the GPU after the fabric manager runs; nvmlReturn_t in nvml.h "
        "names the status",
        lambda machine: fabric(machine, 4, status=999),
    ),
    Case(
        "one alone does not know the fabric",
        "fabric.state",
        FAIL,
        f"{{gpu4}}: fabric state not supported, expected completed - {_RESTART}",
        lambda machine: fabric(machine, 4, state=0),
    ),
    Case(
        "one could not be asked",
        "fabric.state",
        ERROR,
        f"{{gpu4}}: could not read fabric state: failed: NVML 999 - {_SEE}",
        lambda machine: machine.set_gpu(4, "fabric", FAILED),
    ),
    Case(
        "A100 and PCIe cards tell none",
        "fabric.state",
        SKIP,
        "node: no GPU of this node reports a fabric state",
        lambda machine: [fabric(machine, index, state=0) for index in range(8)],
        limits={"gpu.reports": None},
    ),
    Case(
        "healthy H100: 426",
        "fabric.health",
        PASS,
        "{gpus}: fabric health mask 0x1aa: 5 fields reported, none bad",
        lambda machine: [fabric(machine, index, health_mask=426) for index in range(8)],
    ),
    Case(
        "bandwidth is degraded",
        "fabric.health",
        FAIL,
        f"{{gpu6}}: fabric bandwidth is degraded - {_HEALTH}",
        lambda machine: fabric(machine, 6, health_mask=0x1A9),
    ),
    Case(
        "a route recovers",
        "fabric.health",
        WARN,
        f"{{gpu6}}: fabric route recovery in progress - {_HEALTH}",
        lambda machine: fabric(machine, 6, health_mask=0x1A6),
    ),
    Case(
        "too few NVLinks",
        "fabric.health",
        FAIL,
        f"{{gpu6}}: fabric configuration: too few NVLinks - {_HEALTH}",
        lambda machine: fabric(machine, 6, health_mask=0x5AA),
    ),
    Case(
        "a value that a later driver has",
        "fabric.health",
        ERROR,
        f"{{gpu6}}: fabric configuration has the unknown value 12 - {_HEALTH}",
        lambda machine: fabric(machine, 6, health_mask=0xCAA),
    ),
    Case(
        "no field told",
        "fabric.health",
        SKIP,
        "{gpus}: does not report fabric health (not supported: mask 0x0: no field reported)",
        lambda machine: [fabric(machine, index, health_mask=0) for index in range(8)],
        limits={"gpu.reports": None},
    ),
    Case(
        "a driver that tells a summary",
        "fabric.summary",
        PASS,
        "{gpus}: fabric healthy",
        lambda machine: [fabric(machine, index, health_summary=1) for index in range(8)],
    ),
    Case(
        "unhealthy",
        "fabric.summary",
        FAIL,
        "{gpu6}: fabric unhealthy - see fabric.health for what is wrong",
        lambda machine: fabric(machine, 6, health_summary=2),
    ),
    Case(
        "limited capacity",
        "fabric.summary",
        FAIL,
        "{gpu6}: fabric limited capacity - see fabric.health for what is wrong",
        lambda machine: fabric(machine, 6, health_summary=3),
    ),
    Case(
        "a driver that tells none",
        "fabric.summary",
        SKIP,
        "{gpus}: does not report fabric summary (not supported: NVML 3: Not Supported)",
    ),
    Case(
        "the summary of one could not be read",
        "fabric.summary",
        ERROR,
        f"{{gpu6}}: could not read fabric summary: failed: NVML 999 - {_SEE}",
        lambda machine: fabric(machine, 6, health_summary=FAILED),
    ),
    Case(
        "a summary that a later driver has",
        "fabric.summary",
        ERROR,
        "{gpu0}: fabric unknown (7) - see fabric.health for what is wrong (and 7 more)",
        lambda machine: [fabric(machine, index, health_summary=7) for index in range(8)],
    ),
    Case(
        "the health of one could not be read",
        "fabric.health",
        ERROR,
        f"{{gpu6}}: could not read fabric health: failed: NVML 999 - {_SEE}",
        lambda machine: fabric(machine, 6, health_mask=FAILED),
    ),
)


@pytest.mark.parametrize("case", [*GSP, *LINKS, *MANAGER, *MEMBERS], ids=str)
def test_case(case: Case) -> None:
    assert_case(case)


def test_a_node_without_gsp_among_nodes_with_it_is_warned_of() -> None:
    odd, fleet = Machine.hgx_h100("gpu0001"), {f"gpu000{number}": Machine.hgx_h100() for number in (2, 3, 4)}
    gsp_off(odd, *range(8))
    whole = fleet_of({"gpu0001": odd, **fleet})
    record = judge_one("gsp.fleet", odd, node=Node("gpu0001"), fleet=whole)
    assert record.verdict is WARN
    assert record.message == f"GSP firmware: off, expected on (550.163.01) (3 of 4 nodes) - {_SET}"
    assert judge_one("gsp.fleet", fleet["gpu0002"], node=Node("gpu0002"), fleet=whole).verdict is PASS


def test_a_systemd_that_does_not_answer_is_an_error_and_never_a_dead_service() -> None:
    facts = facts_of(Machine.hgx_h100())
    silent = replace(facts.services, units=Unknown(Why.FAILED, "Failed to connect to bus: Host is down"))
    arguments = {"pci": facts.pci, "host": facts.host, "services": silent}
    arguments["baseline"] = baseline_of(facts, Node("gpu01"))
    record = judge(suite.check("fabric.manager"), arguments.__getitem__, "gpu01")
    assert record.verdict is ERROR
    assert record.message == (
        "node: could not read the state of nvidia-fabricmanager: failed: Failed to connect to bus: Host is down - "
        "run systemctl status on the node"
    )
