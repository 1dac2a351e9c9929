"""What the fabric manager's log says of the node: what counts now, what is settled, and what only looks bad."""

from fleet.machine import Machine
from support.cases import ERROR, FAIL, PASS, SKIP, WARN, asserting, of, unread
from support.corpus import corpus
from support.judging import Case, judge_one, plant

from nodegate.profile import Profile

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
CASES = of(CHECK)(
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


test_the_check_says = asserting(CASES)


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
