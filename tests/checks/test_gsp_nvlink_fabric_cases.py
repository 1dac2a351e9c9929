"""What the checks of GSP, NVLink, the fabric and IMEX say, word for word; each GPU counts, not only the first."""

import json
from dataclasses import replace

import pytest
from fleet.changes import changes
from fleet.machine import Machine, facts_of
from support.cases import ERROR, FAIL, FAILED, PASS, SKIP, UNSUPPORTED, WARN, asserting, of, unread
from support.corpus import corpus
from support.judging import UNNAMED, Case, baseline_of, both, every_gpu, fails, gpu, judge_one, nvlink, plant

from nodegate import suite
from nodegate.judge.judge import judge
from nodegate.node import Node
from nodegate.profile import Profile
from nodegate.subjects.fabric import decode
from nodegate.unknown import Unknown, Why


@changes
def gsp_off(machine, *indices):
    """As NVML and the driver's file tell it."""
    for index in indices:
        machine.set_gpu(index, "gsp_mode", [0, 1])
        machine.set_gpu(index, "gsp_firmware", UNSUPPORTED)
        information = machine.sections["driver"]["gpus"]
        address = machine.gpu_address(index)
        information[address] = information[address].replace("550.163.01", "N/A")


STOPPED, OF_NONE = plant.stop_service("nvidia-fabricmanager"), {"fabric.required": None}
ALL_LINKS = Machine.hgx_h100().sections["nvml"]["gpus"][3]["nvlinks"]
ANY_LINKS = {"nvlink.count": None}
UNCOUNTED = dict.fromkeys(("replay", "recovery", "crc"), UNSUPPORTED)


def old_driver(machine):
    """A driver before GSP: neither NVML nor the driver's file knows the word."""
    every_gpu("gsp_mode", unread("missing", ""))(machine)
    every_gpu("gsp_firmware", unread("missing", ""))(machine)
    for address, text in machine.sections["driver"]["gpus"].items():
        lines = [line for line in text.splitlines() if not line.startswith("GPU Firmware")]
        machine.sections["driver"]["gpus"][address] = "\n".join(lines)


def no_switches(machine):
    machine.sections["pci"] = [device for device in machine.sections["pci"] if device["class"] != "0x068000"]


IN_VM = both(
    no_switches,
    plant.set("system", "dmi.sys_vendor", "Microsoft Corporation"),
    plant.set("system", "dmi.product_name", "Virtual Machine"),
)


@changes
def peers(machine, *rows):
    """What the driver says of the peer access of these GPUs; of all others it is good."""
    said = {tuple(row[:2]): list(row) for row in rows}
    listed = machine.sections["nvml"]["peers"]
    machine.set("nvml", "peers", [said.get((row[0], row[1]), row) for row in listed])


@changes
def links_of_gpu_3(machine, *links, **readings):
    for link in links:
        for key, value in readings.items():
            machine.set_nvlink(3, link, key, value)


def silent_links(machine):
    for entry in machine.sections["nvml"]["gpus"]:
        for link in entry["nvlinks"]:
            link.update(UNCOUNTED)


@changes
def manager(machine, **properties):
    for key, value in properties.items():
        machine.set_unit("nvidia-fabricmanager", key, value)


def said_by_manager(said):
    return plant.set("services", "fabric_manager_version", said)


def a_switch(machine):
    return next(device for device in machine.sections["pci"] if device["class"] == "0x068000")


@changes
def fabric(machine, index, **readings):
    for key, value in readings.items():
        machine.set_gpu(index, f"fabric.{key}", value)


def every_fabric(**readings):
    return both(*(fabric(index, **readings) for index in range(8)))


DISAGREE = both(gpu(3, "gsp_mode", [0, 1]), gpu(3, "gsp_firmware", UNSUPPORTED))
SLOW_LINK = nvlink(3, 7, "speed_mbps", 13281)
REPLAYS = both(links_of_gpu_3(7, replay=4), links_of_gpu_3(9, replay=1, recovery=2))
AGAIN = manager(ActiveState="activating", SubState="auto-restart", Result="exit-code", NRestarts="5")
NONE_LEFT = both(STOPPED, no_switches)
REQUIRED = {"fabric.required": True}
CASES = of("gsp.state")(
    Case("off everywhere, and no policy: a site's choice", PASS, gsp_off(*range(8))),
    Case("off on one", FAIL, gsp_off(3)),
    Case("on where the inventory wants it off", FAIL, expected={"gsp": "off"}),
    Case("a driver before GSP runs without it", PASS, old_driver),
    Case("not told for one", ERROR, both(*(gpu(3, key, FAILED) for key in ("gsp_mode", "gsp_firmware")))),
)
CASES += of("gsp.agreement")(
    Case("NVML and the driver's file differ", FAIL, DISAGREE),
    Case("a driver before GSP", SKIP, old_driver),
    Case("the driver's files cannot be read", ERROR, plant.set("driver", "gpus", unread("missing", "no such folder"))),
)
CASES += of("gsp.version")(
    Case("of another driver", FAIL, gpu(3, "gsp_firmware", "550.54.15")), Case("off", SKIP, gsp_off(*range(8)))
)


@changes
def bridges(machine, up, of_gpu_3=None):
    """The first links of each GPU are up, the others not connected."""
    for index in range(8):
        those = of_gpu_3 if index == 3 and of_gpu_3 is not None else up
        for link in range(18):
            machine.set_nvlink(index, link, "state", int(link < those))


CASES += of("nvlink.links")(
    Case("one down", FAIL, nvlink(3, 7, "state", 0)),
    Case("the driver lists fewer", FAIL, gpu(3, "nvlinks", ALL_LINKS[:12])),
    Case("one down on a platform without a number", FAIL, links_of_gpu_3(7, 8, state=0), limits=ANY_LINKS),
    Case("PCIe cards without bridges: every link is listed, none is up", SKIP, bridges(0), limits=ANY_LINKS),
    Case("the state of one cannot be read", ERROR, nvlink(3, 7, "state", FAILED)),
    Case("no NVLink told where the platform has some", ERROR, gpu(3, "nvlinks", UNSUPPORTED)),
    Case("a PCIe card", SKIP, machine=Machine.pcie_l40s),
    Case("a PCIe card of an unknown platform", SKIP, machine=Machine.pcie_l40s, limits=ANY_LINKS),
    Case("MIG on", SKIP, every_gpu("mig_mode", [1, 1])),
)
CASES += of("nvlink.links", limits={"nvlink.count": None, "nvlink.per_bridge": 4})(
    Case("PCIe cards with one bridge of three", PASS, bridges(4)),
    Case("a part of a bridge", FAIL, bridges(4, of_gpu_3=3)),
    Case("one card without the bridge that the others have", WARN, bridges(4, of_gpu_3=0)),
)
CASES += of("nvlink.peer_access")(
    Case("disabled for two", FAIL, peers((3, 5, 4, 0, 0))),
    Case("refused", ERROR, plant.set("nvml", "peers", unread("denied", "NVML 4: No Permission"))),
    Case("no numbers", ERROR, plant.set("nvml", "peers", [[0, 1, "yes"]])),
    Case("healthy: an older release, or an older driver", SKIP, lambda machine: machine.sections["nvml"].pop("peers")),
    Case("healthy: PCIe cards", SKIP, peers((3, 5, 1, 1, 5)), machine=Machine.pcie_l40s),
    Case("healthy: MIG", SKIP, every_gpu("mig_mode", [1, 1])),
    Case("a lost GPU", ERROR, plant.lose_gpu(3)),
)
CASES += of("nvlink.speed")(
    Case("one slow", FAIL, SLOW_LINK),
    Case("one slow on a platform without a speed", FAIL, SLOW_LINK, limits={"nvlink.speed_mbps": None}),
    Case("a speed that cannot be read", ERROR, nvlink(3, 7, "speed_mbps", FAILED)),
    Case("a link that is down is not judged for its speed", PASS, links_of_gpu_3(7, state=0, speed_mbps=0)),
)
CASES += of("nvlink.errors")(
    Case("replays on two links, recoveries on one", WARN, REPLAYS),
    Case("CRC errors that were corrected", PASS, nvlink(0, 7, "crc", 12)),
    Case("a counter at its end says nothing", PASS, nvlink(3, 7, "replay", 0xFFFFFFFF)),
    Case("a driver that tells no errors", SKIP, silent_links),
    Case("one link of eighteen does not report its errors", ERROR, nvlink(3, 7, "replay", UNSUPPORTED)),
    Case("healthy: a link that is down does not report its errors", PASS, links_of_gpu_3(7, state=0, **UNCOUNTED)),
    Case("the errors of one cannot be read", ERROR, nvlink(3, 7, "recovery", FAILED)),
)

CASES += of("fabric.nvswitches")(
    Case("a virtual machine whose host keeps the switches", SKIP, IN_VM),
    Case("one missing", FAIL, lambda machine: machine.sections["pci"].remove(a_switch(machine))),
    Case("all missing on a node that is said to be an HGX", FAIL, no_switches, limits={"fabric.nvswitch_count": 4}),
    Case("one does not answer", FAIL, lambda machine: a_switch(machine).update(config="ff" * 64)),
    Case("a PCIe platform", SKIP, machine=Machine.pcie_l40s),
)
CASES += of("fabric.manager")(
    Case("a virtual machine whose host runs the fabric manager", SKIP, IN_VM),
    Case("failed", FAIL, STOPPED),
    Case("stopped by hand", FAIL, manager(ActiveState="inactive", SubState="dead")),
    Case("active and exited: nothing runs", FAIL, manager(SubState="exited")),
    Case("starting again and again", FAIL, AGAIN),
    Case("not installed", FAIL, manager(LoadState="not-found")),
    Case("was restarted", WARN, manager(NRestarts="2")),
    Case("the node's services cannot be had", ERROR, fails("services", "timeout", "5 s")),
    Case("a PCIe platform needs none", SKIP, machine=Machine.pcie_l40s),
    Case("an unknown platform without NVSwitches needs none", SKIP, machine=Machine.pcie_l40s, limits=OF_NONE),
    Case("an unknown platform with NVSwitches needs it", FAIL, STOPPED, limits=OF_NONE),
    Case("a platform that needs it although its NVSwitches are all gone", FAIL, NONE_LEFT, limits=REQUIRED),
)
CASES += of("fabric.version")(
    Case("of another driver", FAIL, said_by_manager("Fabric Manager version is : 550.54.15")),
    Case("the program is not there", ERROR, said_by_manager(unread("missing", "nv-fabricmanager"))),
)

CASES += of("fabric.state")(
    Case("the last one has not started", FAIL, fabric(7, state=1)),
    Case("none has started", FAIL, every_fabric(state=1)),
    Case("one is in progress", FAIL, fabric(4, state=2)),
    Case("one completed with an error", FAIL, fabric(4, status=999)),
    Case("one alone does not know the fabric", FAIL, fabric(4, state=0)),
    Case("one could not be asked", ERROR, gpu(4, "fabric", FAILED)),
    Case("A100 and PCIe cards tell none", SKIP, every_fabric(state=0), limits=UNNAMED),
)
CASES += of("fabric.health")(
    Case("healthy H100: 426", PASS, every_fabric(health_mask=426)),
    Case("bandwidth is degraded", FAIL, fabric(6, health_mask=0x1A9)),
    Case("a route recovers", WARN, fabric(6, health_mask=0x1A6)),
    Case("too few NVLinks", FAIL, fabric(6, health_mask=0x5AA)),
    Case("a value that a later driver has", ERROR, fabric(6, health_mask=0xCAA)),
    Case("no field told", SKIP, every_fabric(health_mask=0), limits=UNNAMED),
    Case("the health of one could not be read", ERROR, fabric(6, health_mask=FAILED)),
)
CASES += of("fabric.summary")(
    Case("a driver that tells a summary", PASS, every_fabric(health_summary=1)),
    Case("unhealthy", FAIL, fabric(6, health_summary=2)),
    Case("limited capacity", FAIL, fabric(6, health_summary=3)),
    Case("the summary of one could not be read", ERROR, fabric(6, health_summary=FAILED)),
    Case("a summary that a later driver has", ERROR, every_fabric(health_summary=7)),
)

ABSENT = unread("not supported", "NVML 3: Not Supported", nvml=3)
RACK = "6f7a1c00-59a3-4f3e-8b1f-2d1c5e0a9b77"


@changes
def in_a_rack(machine, *, imex="active"):
    for index in range(8):
        machine.set_gpu(index, "fabric.cluster_uuid", RACK)
        machine.set_gpu(index, "fabric.clique", 32766)
    machine.set_unit("nvidia-imex", "LoadState", "loaded")
    machine.set_unit("nvidia-imex", "ActiveState", imex)


@changes
def imex(machine, text=None, status="UP", own=None):
    """Four nodes of a rack as this one (gpu0001) sees them; `own` changes its own entry."""
    in_a_rack()(machine)
    hosts = {str(number): f"10.0.0.{number + 1}" for number in range(4)}
    connected = {number: {"host": host, "status": "CONNECTED", "changed": True} for number, host in hosts.items()}
    nodes = {
        number: {"status": "UNAVAILABLE", "host": host, "connections": {"0": {"host": host, "status": "INVALID"}}}
        for number, host in hosts.items()
    }
    name, version = machine.sections["system"]["hostname"], machine.sections["nvml"]["driver_version"]
    itself = {"status": "READY", "host": "10.0.0.1", "hostName": name, "version": version, "changed": True}
    nodes["0"] = {**itself, "connections": connected, **(own or {})}
    said = json.dumps({"nodes": nodes, "timestamp": "9/4/2026 00:37:39.905", "status": status})
    machine.set("services", "imex", said if text is None else text)


@changes
def older_probe(machine):
    in_a_rack()(machine)
    del machine.sections["services"]["imex"]


def apart(*numbers, state="DISCONNECTED"):
    states = {number: state if number in numbers else "CONNECTED" for number in range(4)}
    return {str(number): {"host": f"10.0.0.{number + 1}", "status": said} for number, said in states.items()}


CASES += of("fabric.imex_domain")(
    Case("IMEX does not run on the host", SKIP, in_a_rack(imex="inactive")),
    Case("up, and connected to all", PASS, imex()),
    Case("healthy: another node is being serviced", PASS, imex(status="DEGRADED")),
    Case("down", FAIL, imex(status="DOWN")),
    Case("a word that is not known", ERROR, imex(status="SIDEWAYS")),
    Case("still waiting", FAIL, imex(own={"status": "WAITING_FOR_PEERS"})),
    Case("another version than the driver", FAIL, imex(own={"version": "535.1"})),
    Case("one of four not connected", WARN, imex(own={"connections": apart(2)})),
    Case("three of four not connected", FAIL, imex(own={"connections": apart(1, 2, 3)})),
    Case("no connection is listed", ERROR, imex(own={"connections": {}})),
    Case("a connection without a state", ERROR, imex(own={"connections": apart(1, state=FAILED)})),
    Case("the node is not in its domain", ERROR, imex(own={"hostName": "other"})),
    Case("not JSON", ERROR, imex(text="NvGpu Library version is not matching")),
    Case("the service cannot be asked", ERROR, imex(text=FAILED)),
    Case("no program", ERROR, in_a_rack()),
    Case("a probe that did not ask", SKIP, older_probe()),
)
CASES += of("ecc.corrected")(
    Case("healthy: a few are the work of ECC", PASS, gpu(3, "ecc.volatile_corrected", 5000)),
    Case("thousands an hour", WARN, gpu(3, "ecc.volatile_corrected", 10_000_000)),
    Case("a count that was not read", ERROR, gpu(3, "ecc.volatile_corrected", FAILED)),
    Case("a count that one GPU of eight does not report", ERROR, gpu(3, "ecc.volatile_corrected", ABSENT)),
)
CASES += of("fabric.imex")(
    Case("IMEX runs", PASS, in_a_rack()),
    Case("IMEX does not run", WARN, in_a_rack(imex="failed")),
    Case("systemd does not answer", ERROR, both(in_a_rack(), fails("services", "timeout", "systemctl"))),
)
# The fabric manager's log: what counts now, what is settled, and what only looks bad
CHECK = "fabric.manager_log"
BOOTCHECK = Profile.BOOTCHECK
UNIT = "nvidia-fabricmanager"
START = (
    "[{when}] [INFO] [tid 2204] Fabric Manager version 550.163.01 is running with the following configuration options"
)
FATAL = (
    "[{when}] [ERROR] [tid 841] detected NVSwitch fatal error 20034 on fid 0 on NVSwitch pci bus id 00000000:86:00.0 "
    "physical id 3 port 33"
)
NON_FATAL = FATAL.replace("fatal error 20034", "non-fatal error 12028").replace("port 33", "port 61")
TOPOLOGY = (
    "[{when}] [ERROR] detected number of NVSwitches don't match with any supported system topology, "
    "aborting fabric manager"
)
VERSION = (
    "[{when}] [ERROR] [tid 841] fabric manager NVIDIA GPU driver interface version 550.127.08 don't match with driver "
    "version 550.163.01. Please update with matching NVIDIA driver package."
)
MULTICAST = "[{when}] [ERROR] [tid 841] failed to find the GPU handle 541 in the multicast team request setup 613."
OTHER = "[{when}] [ERROR] [tid 5678] Some other error message {number}."
BOOT, LATER, LAST = "Nov 08 2026 20:15:31", "Nov 20 2026 03:12:09", "Nov 20 2026 09:00:00"
LONG_AGO = "Oct 30 2026 03:12:09"
SOON_BEFORE_BOOT = "Nov 08 2026 19:50:00"


def logs(*entries):
    """The log holds these entries: form and time."""
    text = "\n".join(form.format(when=when, number=number) for number, (form, when) in enumerate(entries))
    return plant.set("services", "fabric_manager_log", text)


ALLOCATED = "[{when}] [INFO] [tid 1808] multicast group 0 is allocated."
FREED = "[{when}] [INFO] [tid 1808] multicast group 0 is freed."
THREE_TIMES = logs((START, BOOT), (NON_FATAL, LATER), (NON_FATAL, LATER), (NON_FATAL, LAST))
STARTED_AGAIN = logs((START, BOOT), (FATAL, LATER), (START, LAST))
FAILED_AGAIN = logs((START, LATER), (TOPOLOGY, LATER), (START, LAST), (TOPOLOGY, LAST))
BEFORE_BOOT = logs((TOPOLOGY, SOON_BEFORE_BOOT))
NO_LOG = plant.set("services", "fabric_manager_log", unread("missing", "/var/log/fabricmanager.log"))
CASES += of(CHECK)(
    Case("groups for multicast come and go", PASS, logs((START, BOOT), (ALLOCATED, LATER), (FREED, LATER))),
    Case("a fatal NVSwitch error", FAIL, logs((START, BOOT), (FATAL, LATER)), profile=BOOTCHECK),
    Case("a non-fatal one, three times", WARN, THREE_TIMES),
    Case("a fatal one, and the service was started again: that alone settles nothing", WARN, STARTED_AGAIN),
    Case("a fatal one of an earlier boot", PASS, logs((FATAL, LONG_AGO), (START, BOOT))),
    Case("a switch is missing", FAIL, logs((START, LATER), (TOPOLOGY, LATER)), profile=BOOTCHECK),
    Case("a switch was missing until the service was started again", PASS, logs((TOPOLOGY, LATER), (START, LAST))),
    Case("it fails again and again: the newest start failed too", FAIL, FAILED_AGAIN),
    Case("another version than the driver", FAIL, logs((START, LATER), (VERSION, LATER))),
    Case("a GPU that it does not know any more", FAIL, logs((START, BOOT), (MULTICAST, LATER))),
    Case("an error that nobody knows", WARN, logs((OTHER, LATER), (OTHER, LAST))),
    Case("without a zone, an error shortly before the boot may be one of this boot", FAIL, BEFORE_BOOT),
    Case("there is no log", ERROR, NO_LOG),
    Case("there is something else in it", ERROR, plant.set("services", "fabric_manager_log", "binary junk\n")),
    Case("cards without NVSwitches need none", SKIP, machine=Machine.pcie_l40s),
)


test_case = asserting(CASES)


def test_a_systemd_that_does_not_answer_is_an_error_and_never_a_dead_service():
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


# The fabric health mask, bit by bit, as nvml.h lays it out
HEALTHY = 426  # of a healthy H100


@pytest.mark.parametrize(
    ("shift", "width", "value", "verdict", "words"),
    [
        (0, 2, 1, FAIL, "bandwidth is degraded"),
        (2, 2, 1, WARN, "route recovery in progress"),
        (4, 2, 1, FAIL, "route is unhealthy"),
        (6, 2, 1, FAIL, "access timeout recovery pending"),
        (8, 4, 2, FAIL, "configuration: system GUID is wrong"),
        (8, 4, 3, FAIL, "configuration: chassis serial number is wrong"),
        (8, 4, 4, FAIL, "configuration: no partition"),
        (8, 4, 5, FAIL, "configuration: too few NVLinks"),
        (8, 4, 6, FAIL, "configuration: GPU firmware does not fit"),
        (8, 4, 7, FAIL, "configuration: invalid location"),
        (8, 4, 8, FAIL, "configuration: GPU state is invalid"),
        (8, 4, 9, ERROR, "configuration has the unknown value 9"),
        (12, 2, 2, FAIL, "no partition assigned"),
        (14, 2, 2, FAIL, "fabric manager disconnected"),
        (0, 2, 3, ERROR, "bandwidth has the unknown value 3"),
    ],
)
def test_each_bad_field_is_named(shift, width, value, verdict, words):
    mask = HEALTHY & ~(((1 << width) - 1) << shift) | value << shift
    (bad,) = decode(mask).wrong
    assert (bad.verdict, bad.text) == (verdict, words)


def test_several_bad_fields_are_all_named():
    assert [bad.text for bad in decode(0x91A9).wrong] == ["bandwidth is degraded", "fabric manager disconnected"]


def test_a_thousand_kinds_of_errors_are_not_a_thousand_findings():
    machine = Machine.hgx_h100()
    words = [f"{letter}{other}{last}" for letter in "abcdefghij" for other in "abcdefghij" for last in "abcdefghij"]
    entries = [(f"[{{when}}] [ERROR] [tid 1] strange {word}", LATER) for word in words]
    logs(*entries)(machine)
    record = judge_one(CHECK, machine)
    assert len(record.findings) <= 51
    assert "950 more kinds of errors" in record.findings[-1].message


# Real logs


def judged(file):
    machine = Machine.hgx_h100(epoch_s=1_789_000_000.0)  # September 2026
    machine.set("system", "uptime_s", 3 * 365 * 86400.0)
    machine.set("services", "fabric_manager_log", corpus(f"fabricmanager/{file}"))
    return judge_one(CHECK, machine)


def test_one_non_fatal_error_in_a_real_log():
    record = judged("gpud_fabricmanager.log")
    assert record.verdict is WARN
    assert [(finding.part.short, finding.code, finding.observed) for finding in record.findings] == [
        ("NVSwitch 0000:86:00.0 NVLink 61", "12028", 1)
    ]


def test_every_kind_of_line_that_a_log_matcher_knows():
    record = judged("gpud_log_matcher_lines.txt")
    found = sorted((finding.verdict.value, finding.part.short, finding.code) for finding in record.findings)
    assert found == [
        ("fail", "NVSwitch 0000:47:00.0 NVLink 21", "98765"),
        ("fail", "NVSwitch 0000:86:00.0 NVLink 33", "20034"),
        ("fail", UNIT, "multicast unknown gpu"),
        ("fail", UNIT, "no switch seen"),
        ("fail", UNIT, "topology mismatch"),
        ("warn", "NVSwitch 0000:47:00.0 NVLink 15", "54321"),
        ("warn", "NVSwitch 0000:86:00.0 NVLink 61", "12028"),
        ("warn", UNIT, "unknown error"),
    ]
