"""What the fleet says of one node's kernel log: an error that only it has, and a switch event that many nodes saw."""

from collections.abc import Callable
from dataclasses import dataclass

import pytest
from fleet.machine import Machine
from fleet.machine import Machine as OneMachine
from support.cases import ERROR, FAIL, NOT_JUDGED, PASS, WARN, asserting, of
from support.judging import Case, both, fails, fleet_of, judge_one, plant

from nodegate.node import Node
from nodegate.profile import Profile

CHECK = "fleet_log.unknown_errors"
ODD = "nvidia-modeset: ERROR: GPU:3: Idling display engine timed out: 0x0000c67d:0:0:417"
MUTE = "acme_fpga 0000:81:00.0: watchdog expired, engine 3"
NOT_STARTED = "acme_fpga 0000:81:00.0: probe with driver acme_fpga failed with error -22"
GSP_TIMEOUT = "NVRM: Xid (PCI:0000:3d:00): 119, pid=1, name=x, Timeout after 6s of waiting"
NO_ERRORS = (
    "nvidia-uvm: Loaded the UVM driver, 0 errors",
    "pcieport 0000:64:01.0: AER: error handling enabled",
    "EDAC MC0: Giving out device to module skx_edac",
    "nvme nvme0: Shutdown timeout set to 10 seconds",
    "ACPI BIOS Error (bug): Could not resolve symbol [_SB.PMTT], AE_NOT_FOUND",
    "audit: type=1400 apparmor=DENIED operation=failed name=nvidia",
)
EVERYDAY = (
    (3, "ACPI Error: AE_NOT_EXIST, Returned by Handler for [IPMI] (20230628/evregion-300)"),
    (3, "ACPI: SPCR: Unexpected SPCR Access Width. Defaulting to byte size"),
    (1, "acpi PNP0A08:00: [Firmware Bug]: ECAM area not reserved in ACPI namespace"),
    (1, "[Firmware Bug]: TSC ADJUST: CPU0: -612 force to 0"),
    (3, "NVRM: loading NVIDIA UNIX x86_64 Kernel Module  550.90.07  Fri May 31 09:35:42 UTC 2024"),
    (3, "NVRM: Persistence mode is deprecated and will be removed in a future release."),
    (3, "x86/cpu: SGX disabled by BIOS."),
    (3, "sd 0:0:0:0: [sda] No Caching mode page found"),
    (3, "Error: Driver 'pcspkr' is already registered, aborting..."),
    (3, "integrity: Problem loading X.509 certificate -65"),
    (3, "systemd[1]: Failed to start Load Kernel Modules."),
    (4, "ENERGY_PERF_BIAS: Set to 'normal', was 'performance'"),
    (4, "[UFW BLOCK] IN=eth0 OUT= MAC=02:00 SRC=10.0.0.1 DST=10.0.0.2 LEN=40"),
    (4, "nvidia: loading out-of-tree module taints kernel."),
    (4, "overlayfs: missing 'lowerdir'"),
    (4, "audit: backlog limit exceeded"),
    (4, "pmd_set_huge: Cannot satisfy [mem 0x20000000000-0x20000200000] with a huge-page mapping"),
)
DAY_S = 86400.0


def machines_of(count):
    return {f"gpu{number:02}": Machine.hgx_h100(f"gpu{number:02}", number) for number in range(1, count + 1)}


def says(line, ago_s=600.0):
    return plant.kernel(line, ago_s=ago_s)


def at_level(level, line):
    return plant.kernel_at_level(level, line, ago_s=600)


def log_is(**known):
    return lambda machine: machine.sections["kernel_log"].update(known)


def most_say(machine, number):
    """Five of the eight say the same, of another GPU and address."""
    if number <= 4:
        machine.kernel(ODD.replace("GPU:3", f"GPU:{number}").replace("c67d", f"c6{number}0"), ago_s=900)


def quiet(machine, number):
    """This node says nothing unusual."""


def one_more_says(machine, number):
    if number == 1:
        machine.kernel(ODD, ago_s=900)


@dataclass(frozen=True)
class FleetCase(Case):
    """A case of one node of eight; `others` is what each of the seven others says, by its number."""

    others: Callable[[OneMachine, int], object] = quiet

    def record(self):
        machines = machines_of(8)
        self.change(machines["gpu01"])
        for number, name in enumerate(list(machines)[1:], 1):
            self.others(machines[name], number)
        return judge_one(self.check, machines["gpu01"], profile=self.profile, fleet=fleet_of(machines))


GSP_DETAIL = both(says(GSP_TIMEOUT), says("NVRM: GPU0 GSP RPC buffer contains error 0x17 in entry 4", 599))
EVERY_DAY = both(*(at_level(*each) for each in EVERYDAY))
CASES = of(CHECK)(
    FleetCase("nothing unusual", PASS),
    FleetCase("an error that only this node has", WARN, says(ODD)),
    FleetCase("an error that two nodes have", WARN, says(ODD), others=one_more_says),
    FleetCase("healthy: an error that most nodes have is the platform's habit", PASS, says(ODD), others=most_say),
    FleetCase("healthy: what a known fault brings with it is its detail", PASS, GSP_DETAIL),
    FleetCase("healthy: an error of an earlier boot", PASS, says(ODD, ago_s=20 * DAY_S)),
    FleetCase("healthy: lines that say that there was no error, and firmware slips", PASS, both(*map(says, NO_ERRORS))),
    FleetCase("a line without a word of trouble that its driver calls an error", WARN, at_level(3, MUTE)),
    FleetCase("a driver of its own whose probe failed", WARN, at_level(4, NOT_STARTED)),
    FleetCase("healthy: what kernels print as errors and warnings on every second machine", PASS, EVERY_DAY),
    FleetCase("a log file, which names no level", NOT_JUDGED, log_is(source="file:/var/log/messages", levels=False)),
    FleetCase("healthy: a journal, whose levels were read", PASS, log_is(levels=True)),
    FleetCase("the log cannot be read", ERROR, fails("kernel_log", "denied", "no")),
)


test_the_check_says = asserting(CASES)


# A node that is not compared: what is said, of which part, how many seconds after its boot began, and the verdict.
ALONE = (
    (ODD, "GPU 3 (0000:3d:00.0, S/N 1650001000003)", 60.0, WARN),
    ("NVRM: GPU3 gpuFoo_IMPL: something is broken", "GPU 3 (0000:3d:00.0, S/N 1650001000003)", 60.0, WARN),
    ("mlx5_core 0000:1a:00.0: mlx5_foo:9:(pid 0): bad thing failed: -5", "mlx5_1 (0000:1a:00.0, ibs1)", 60.0, WARN),
    ("nvme nvme0: a thing failed", "disk nvme0", 60.0, WARN),
    (NOT_STARTED, "PCIe device 0000:81:00.0", 600.0, WARN),
    ("acme: cannot reach the moon", "kernel log", 600.0, WARN),
    ("acme: cannot reach the moon", "kernel log", 60.0, PASS),
    (NOT_STARTED, "kernel log", 60.0, PASS),
    ("mlx5_core 0000:1a:00.0 ibp26s0: Link up", "kernel log", 600.0, PASS),
)


@pytest.mark.parametrize("nodes", [0, 1, 2])
@pytest.mark.parametrize(("line", "whose", "after_s", "verdict"), ALONE)
def test_a_node_that_is_not_compared(line, whose, after_s, verdict, nodes):
    machine = Machine.hgx_h100()
    machine.set("system", "uptime_s", 3600.0)
    machine.kernel(line, ago_s=3600.0 - after_s)
    fleet = fleet_of({**machines_of(nodes), "gpu01": machine})
    record = judge_one(CHECK, machine, profile=Profile.BOOTCHECK, fleet=fleet)
    assert [(finding.verdict, finding.part.label) for finding in record.findings] == [(verdict, whose)]


def test_many_kinds_of_unknown_errors_are_counted():
    machine = Machine.hgx_h100()
    for number in range(20):
        machine.kernel(f"acme: cannot reach moon {chr(ord('a') + number)}", ago_s=600)
    record = judge_one(CHECK, machine, fleet=fleet_of({"gpu01": machine}))
    assert len(record.findings) == 9
    assert record.findings[-1].message.endswith("12 more kinds of unknown errors - read the log on the node")


# Links that fall together


def flapping(count, alone=0):
    """What is said of gpu01, whose rail fell 3 times with that of all `count` nodes, and `alone` times by itself."""
    machines = machines_of(count)
    for number, machine in enumerate(machines.values()):
        for time in range(3):
            down(machine, 7200.0 - 600 * time - number / 100)
    for time in range(alone):
        down(machines["gpu01"], 3600.0 - 300 * time)
    limits = {"kernel.nic_flap_window_h": 24, "kernel.nic_flap_max": 2}
    node = Node("gpu01", origin="hosts.yaml:3")
    record = judge_one("kernel_log.nic_flaps", machines["gpu01"], baseline=limits, node=node, fleet=fleet_of(machines))
    return list(record.findings)


def down(machine, ago_s):
    machine.kernel(f"mlx5_core {machine.nic_address(2)} ibp58s0: Link down", ago_s=ago_s)
    machine.kernel(f"mlx5_core {machine.nic_address(2)} ibp58s0: Link up", ago_s=ago_s - 2)


SWITCH = "3 of them with 31 other nodes within 1 s: 3 switch events (rail mlx5_2); up to 2 in 24 h"


@pytest.mark.parametrize(
    ("count", "alone", "verdict", "words"),
    [
        (32, 0, WARN, "with 31 other nodes within 1 s: 3 switch events (rail mlx5_2) - look at the switch that these"),
        (32, 2, WARN, SWITCH),  # what the switch did does not count against the node
        (32, 3, FAIL, " - clean or replace the cable or transceiver"),  # nor excuse a bad cable
        (2, 0, FAIL, ""),
    ],
)
def test_links_that_fall_with_those_of_many_other_nodes_are_the_switchs_doing(count, alone, verdict, words):
    (finding,) = flapping(count, alone)
    assert finding.verdict is verdict
    assert words in finding.message
    assert ("other node" in finding.message) is (count > 2)
