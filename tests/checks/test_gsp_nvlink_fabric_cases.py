"""What the checks of GSP firmware, NVLink and the fabric say, word for word; each GPU counts, not only the first."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.judging import Case, assert_case, baseline_of, fleet_of, judge_one

from nodegate import suite
from nodegate.demo.machine import Machine, facts_of
from nodegate.judge.judge import judge
from nodegate.node import Node
from nodegate.unknown import Unknown, Why
from nodegate.verdict import Verdict

PASS, WARN, FAIL, ERROR, SKIP = Verdict.PASS, Verdict.WARN, Verdict.FAIL, Verdict.ERROR, Verdict.SKIP
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


def fabric(machine: Machine, index: int, **readings: object) -> None:
    for key, value in readings.items():
        machine.set_gpu(index, f"fabric.{key}", value)


GSP = (
    Case("on everywhere", "gsp.state", PASS, "{gpu0}: GSP firmware on (and 7 more)"),
    Case(
        "off everywhere, and no policy: a site's choice",
        "gsp.state",
        PASS,
        "{gpu0}: GSP firmware off (and 7 more)",
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
        "{gpu0}: GSP firmware off (and 7 more)",
        old_driver,
    ),
    Case(
        "not told for one",
        "gsp.state",
        ERROR,
        f"{{gpu3}}: GSP firmware is unknown (failed: NVML 999) - {_SEE}",
        lambda machine: [machine.set_gpu(3, key, FAILED) for key in ("gsp_mode", "gsp_firmware")],
    ),
    Case("both agree", "gsp.agreement", PASS, "{gpu0}: GSP firmware by NVML on (and 7 more)"),
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
        "{gpu0}: the driver's file does not tell of GSP firmware (and 7 more)",
        old_driver,
    ),
    Case(
        "the driver's files cannot be read",
        "gsp.agreement",
        ERROR,
        "gpu01: /proc/driver/nvidia/gpus is unknown (missing: no such folder) - see gpu.bound",
        lambda machine: machine.set("driver", "gpus", {"why": "missing", "detail": "no such folder"}),
    ),
    Case("the driver's own", "gsp.version", PASS, "{gpu0}: GSP firmware version 550.163.01 (and 7 more)"),
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
        "{gpu0}: GSP firmware is off (and 7 more)",
        lambda machine: gsp_off(machine, *range(8)),
    ),
    Case(
        "alone in the run",
        "gsp.fleet",
        SKIP,
        "not judged: 1 of platform hgx-h100-8 in this run, 3 are needed",
    ),
)

LINKS = (
    Case("all up", "nvlink.links", PASS, "{gpu0}: NVLinks up 18 links (and 7 more)"),
    Case(
        "one down",
        "nvlink.links",
        FAIL,
        "{gpu3}: NVLinks up 17 links, expected 18 links (hgx-h100-8.yaml nvlink.count: NVIDIA H100 data sheet: 18 "
        f"NVLinks of the fourth generation) - NVLink 7 down: {_LINK}",
        lambda machine: machine.set_nvlink(3, 7, "state", 0),
    ),
    Case(
        "the driver lists fewer",
        "nvlink.links",
        FAIL,
        "{gpu3}: NVLinks up 12 links, expected 18 links (hgx-h100-8.yaml nvlink.count: NVIDIA H100 data sheet: 18 "
        f"NVLinks of the fourth generation) - {_LINK}",
        lambda machine: machine.set_gpu(3, "nvlinks", machine.sections["nvml"]["gpus"][3]["nvlinks"][:12]),
    ),
    Case(
        "one down on a platform without a number",
        "nvlink.links",
        FAIL,
        "{gpu3}: NVLinks up 16 links, expected 18 links (the links that this GPU has) - NVLink 7, 8 down: " + _LINK,
        lambda machine: (machine.set_nvlink(3, 7, "state", 0), machine.set_nvlink(3, 8, "state", 0)),
        limits={"nvlink.count": None},
    ),
    Case(
        "the state of one cannot be read",
        "nvlink.links",
        ERROR,
        f"{{gpu3}}: the state of NVLink 7 is unknown (failed: NVML 999) - {_SEE}",
        lambda machine: machine.set_nvlink(3, 7, "state", FAILED),
    ),
    Case(
        "no NVLink told where the platform has some",
        "nvlink.links",
        ERROR,
        f"{{gpu3}}: the state of its NVLinks is unknown (not supported) - {_SEE}",
        lambda machine: machine.set_gpu(3, "nvlinks", UNSUPPORTED),
    ),
    Case(
        "a PCIe card",
        "nvlink.links",
        SKIP,
        "this platform has no NVLink (l40s.yaml nvlink.count: NVIDIA L40S data sheet: no NVLink)",
        machine=Machine.pcie_l40s,
    ),
    Case(
        "a PCIe card of an unknown platform",
        "nvlink.links",
        SKIP,
        "{gpu0}: has no NVLink (and 7 more)",
        machine=Machine.pcie_l40s,
        limits={"nvlink.count": None},
    ),
    Case(
        "MIG on",
        "nvlink.links",
        SKIP,
        "{gpu0}: MIG is on: its instances do not use NVLink (and 7 more)",
        lambda machine: every(machine, "mig_mode", [1, 1]),
    ),
    Case("full speed", "nvlink.speed", PASS, "{gpu0}: 18 NVLinks at 26000 MB/s or more (and 7 more)"),
    Case(
        "one slow",
        "nvlink.speed",
        FAIL,
        "{gpu3} NVLink 7: speed 13281 MB/s, expected at least 26000 MB/s (hgx-h100-8.yaml nvlink.speed_mbps: "
        f"nvidia-smi nvlink -s of an H100: 26.562 GB/s; OCI health checks expect at least 26) - {_LINK}",
        lambda machine: machine.set_nvlink(3, 7, "speed_mbps", 13281),
    ),
    Case(
        "one slow on a platform without a speed",
        "nvlink.speed",
        FAIL,
        "{gpu3} NVLink 7: speed 13281 MB/s, expected at least 26562 MB/s (the fastest NVLink of this node) - " + _LINK,
        lambda machine: machine.set_nvlink(3, 7, "speed_mbps", 13281),
        limits={"nvlink.speed_mbps": None},
    ),
    Case(
        "a speed that cannot be read",
        "nvlink.speed",
        ERROR,
        f"{{gpu3}} NVLink 7: speed is unknown (failed: NVML 999) - {_SEE}",
        lambda machine: machine.set_nvlink(3, 7, "speed_mbps", FAILED),
    ),
    Case(
        "a link that is down is not judged for its speed",
        "nvlink.speed",
        PASS,
        "{gpu0}: 18 NVLinks at 26000 MB/s or more (and 7 more)",
        lambda machine: (machine.set_nvlink(3, 7, "state", 0), machine.set_nvlink(3, 7, "speed_mbps", 0)),
    ),
    Case(
        "no errors",
        "nvlink.errors",
        PASS,
        "{gpu0}: no replay and no recovery on 18 NVLinks, 0 CRC errors corrected (and 7 more)",
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
        "{gpu0}: no replay and no recovery on 18 NVLinks, 12 CRC errors corrected (and 7 more)",
        lambda machine: machine.set_nvlink(0, 7, "crc", 12),
    ),
    Case(
        "a counter at its end says nothing",
        "nvlink.errors",
        PASS,
        "{gpu0}: no replay and no recovery on 18 NVLinks, 0 CRC errors corrected (and 7 more)",
        lambda machine: machine.set_nvlink(3, 7, "replay", 0xFFFFFFFF),
    ),
    Case(
        "a driver that tells no errors",
        "nvlink.errors",
        SKIP,
        "{gpu0}: this driver does not tell NVLink errors (and 7 more)",
        lambda machine: [
            machine.set_nvlink(index, link, key, UNSUPPORTED)
            for index in range(8)
            for link in range(18)
            for key in ("replay", "recovery", "crc")
        ],
    ),
    Case(
        "the errors of one cannot be read",
        "nvlink.errors",
        ERROR,
        f"{{gpu3}}: an error counter of NVLink 7 is unknown (failed: NVML 999) - {_SEE}",
        lambda machine: machine.set_nvlink(3, 7, "recovery", FAILED),
    ),
)

_REQUIRED = "l40s.yaml fabric.required: no NVSwitch on this platform"
MANAGER = (
    Case("all there", "fabric.nvswitches", PASS, "NVSwitches: on PCIe 4 switches (and 4 more)"),
    Case(
        "one missing",
        "fabric.nvswitches",
        FAIL,
        "NVSwitches: on PCIe 3 switches, expected 4 switches (hgx-h100-8.yaml fabric.nvswitch_count: NVIDIA HGX H100 "
        "8-GPU board: 4 NVSwitches) - power-cycle the node; if it stays, replace the GPU baseboard",
        lambda machine: machine.sections["pci"].remove(
            next(device for device in machine.sections["pci"] if device["class"] == "0x068000")
        ),
    ),
    Case(
        "all missing on a node that is said to be an HGX",
        "fabric.nvswitches",
        FAIL,
        "NVSwitches: on PCIe 0 switches, expected 4 switches (the site's own) - power-cycle the node; if it stays, "
        "replace the GPU baseboard",
        no_switches,
        limits={"fabric.nvswitch_count": 4},
    ),
    Case(
        "one does not answer",
        "fabric.nvswitches",
        FAIL,
        "NVSwitch at {switch}: answer on PCIe no, expected yes - power-cycle the node; if it stays, replace the GPU "
        "baseboard",
        lambda machine: next(device for device in machine.sections["pci"] if device["class"] == "0x068000").update(
            config="ff" * 64
        ),
    ),
    Case(
        "a PCIe platform",
        "fabric.nvswitches",
        SKIP,
        "this platform has no NVSwitch (l40s.yaml fabric.nvswitch_count: no NVSwitch on this platform)",
        machine=Machine.pcie_l40s,
    ),
    Case("active", "fabric.manager", PASS, "nvidia-fabricmanager: service active (and 1 more)"),
    Case(
        "failed",
        "fabric.manager",
        FAIL,
        f"nvidia-fabricmanager: service failed (failed, result exit-code), expected active - {_RESTART}",
        lambda machine: machine.stop_service("nvidia-fabricmanager"),
    ),
    Case(
        "stopped by hand",
        "fabric.manager",
        FAIL,
        f"nvidia-fabricmanager: service inactive (dead, result success), expected active - {_RESTART}",
        lambda machine: [
            machine.set_unit("nvidia-fabricmanager", key, value)
            for key, value in (("ActiveState", "inactive"), ("SubState", "dead"))
        ],
    ),
    Case(
        "active and exited: nothing runs",
        "fabric.manager",
        FAIL,
        f"nvidia-fabricmanager: service active (exited, result success), expected active - {_RESTART}",
        lambda machine: machine.set_unit("nvidia-fabricmanager", "SubState", "exited"),
    ),
    Case(
        "starting again and again",
        "fabric.manager",
        FAIL,
        "nvidia-fabricmanager: service activating (auto-restart, result exit-code), expected active - " + _RESTART,
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
        "nvidia-fabricmanager: restarts 2, expected at most 0 (since it was started) - read /var/log/fabricmanager.log "
        "for why it ended",
        lambda machine: machine.set_unit("nvidia-fabricmanager", "NRestarts", "2"),
    ),
    Case(
        "the node's services cannot be had",
        "fabric.manager",
        ERROR,
        "gpu01: services could not be read: timeout: 5 s - the node answers slowly: look at its load and kernel log, "
        "then run again",
        lambda machine: machine.section_fails("services", "timeout", "5 s"),
    ),
    Case(
        "a PCIe platform needs none",
        "fabric.manager",
        SKIP,
        f"this platform runs no fabric manager ({_REQUIRED})",
        machine=Machine.pcie_l40s,
    ),
    Case(
        "an unknown platform without NVSwitches needs none",
        "fabric.manager",
        SKIP,
        "PCIe lists no NVSwitch: no fabric manager is needed",
        machine=Machine.pcie_l40s,
        limits={"fabric.required": None},
    ),
    Case(
        "an unknown platform with NVSwitches needs it",
        "fabric.manager",
        FAIL,
        f"nvidia-fabricmanager: service failed (failed, result exit-code), expected active - {_RESTART}",
        lambda machine: machine.stop_service("nvidia-fabricmanager"),
        limits={"fabric.required": None},
    ),
    Case(
        "a platform that needs it although its NVSwitches are all gone",
        "fabric.manager",
        FAIL,
        f"nvidia-fabricmanager: service failed (failed, result exit-code), expected active - {_RESTART}",
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
        f"nvidia-fabricmanager: version is unknown (missing: nv-fabricmanager) - {_SEE}",
        lambda machine: machine.set(
            "services", "fabric_manager_version", {"why": "missing", "detail": "nv-fabricmanager"}
        ),
    ),
)

MEMBERS = (
    Case("all completed", "fabric.state", PASS, "{gpu0}: fabric state completed (and 15 more)"),
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
        f"{{gpu4}}: fabric state is unknown (failed: NVML 999) - {_SEE}",
        lambda machine: machine.set_gpu(4, "fabric", FAILED),
    ),
    Case(
        "A100 and PCIe cards tell none",
        "fabric.state",
        SKIP,
        "no GPU of this node tells a fabric state",
        lambda machine: [fabric(machine, index, state=0) for index in range(8)],
    ),
    Case(
        "healthy H100: 426",
        "fabric.health",
        PASS,
        "{gpu0}: fabric health mask 0x1aa, 5 of its fields told, none bad (and 7 more)",
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
        "{gpu0}: fabric health mask 0x0, 0 of its fields told, none bad (and 7 more)",
        lambda machine: [fabric(machine, index, health_mask=0) for index in range(8)],
    ),
    Case(
        "a driver that tells a summary",
        "fabric.summary",
        PASS,
        "{gpu0}: fabric healthy (and 7 more)",
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
        "{gpu0}: the fabric's summary is not told here (not supported: NVML 3: Not Supported) (and 7 more)",
    ),
    Case(
        "the summary of one could not be read",
        "fabric.summary",
        ERROR,
        f"{{gpu6}}: the fabric's summary is unknown (failed: NVML 999) - {_SEE}",
        lambda machine: fabric(machine, 6, health_summary=FAILED),
    ),
    Case(
        "a summary that a later driver has",
        "fabric.summary",
        ERROR,
        "{gpu6}: fabric unknown (7) - see fabric.health for what is wrong",
        lambda machine: fabric(machine, 6, health_summary=7),
    ),
    Case(
        "the health of one could not be read",
        "fabric.health",
        ERROR,
        f"{{gpu6}}: fabric health is unknown (failed: NVML 999) - {_SEE}",
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
    assert record.message == (f"GSP firmware: off, 3 of 4 nodes have on (550.163.01) - {_SET}")
    assert judge_one("gsp.fleet", fleet["gpu0002"], node=Node("gpu0002"), fleet=whole).verdict is PASS


def test_a_systemd_that_does_not_answer_is_an_error_and_never_a_dead_service() -> None:
    facts = facts_of(Machine.hgx_h100())
    silent = replace(facts.services, units=Unknown(Why.FAILED, "Failed to connect to bus: Host is down"))
    arguments = {"pci": facts.pci, "services": silent, "baseline": baseline_of(facts, Node("gpu01"))}
    record = judge(suite.check("fabric.manager"), arguments.__getitem__, "gpu01")
    assert record.verdict is ERROR
    assert record.message == (
        "gpu01: systemd does not answer (failed: Failed to connect to bus: Host is down) - run systemctl status on the "
        "node"
    )
