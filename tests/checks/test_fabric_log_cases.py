"""What the fabric manager's log says of the node: what counts now, what is settled, and what only looks bad."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from fleet.machine import Machine
from support.corpus import corpus
from support.judging import Case, assert_case, judge_one

from nodegate.profile import Profile
from nodegate.records.verdict import Verdict

if TYPE_CHECKING:
    from collections.abc import Callable

    from nodegate.records.finding import Record

PASS, WARN, FAIL, ERROR, SKIP = Verdict.PASS, Verdict.WARN, Verdict.FAIL, Verdict.ERROR, Verdict.SKIP
CHECK, BOOTCHECK = "fabric.manager_log", Profile.BOOTCHECK
UNIT = "nvidia-fabricmanager"
LOG_LOST = "check whether nvidia-fabricmanager runs, and LOG_FILE_NAME in fabricmanager.cfg"
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
LINK = (
    "NVSwitch 0000:86:00.0 NVLink 33: fatal error (SXid 20034) at the physical side of an NVLink (signal, connector or "
    "far end)"
)
MISSING = f"{UNIT}: an NVSwitch is missing, and nvidia-fabricmanager ended"
COUNT = "count the switches (lspci); power-cycle the node; replace the GPU baseboard if it stays"
RESET = (
    "reset the GPUs and switches of the node; look at the link: connector, board, cable, and the GPU at its other end"
)


def logs(*entries: tuple[str, str]) -> Callable[[Machine], None]:
    """The log holds these entries: form and time."""
    text = "\n".join(form.format(when=when, number=number) for number, (form, when) in enumerate(entries))
    return lambda machine: machine.set("services", "fabric_manager_log", text)


def quoted(form: str) -> str:
    return form.rsplit("] ", maxsplit=1)[-1]


CASES = (
    Case(
        "it has run without an error",
        CHECK,
        PASS,
        f"{UNIT}: no error in its log since {BOOT} (4 entries, local time)",
    ),
    Case(
        "groups for multicast come and go",
        CHECK,
        PASS,
        f"{UNIT}: no error in its log since {BOOT} (3 entries, local time)",
        logs(
            (START, BOOT),
            ("[{when}] [INFO] [tid 1808] multicast group 0 is allocated.", LATER),
            ("[{when}] [INFO] [tid 1808] multicast group 0 is freed.", LATER),
        ),
    ),
    Case(
        "a fatal NVSwitch error",
        CHECK,
        FAIL,
        f'{LINK}, once at {LATER} local time: "{quoted(FATAL)}" - {RESET}',
        logs((START, BOOT), (FATAL, LATER)),
        profile=BOOTCHECK,
    ),
    Case(
        "a non-fatal one, three times",
        CHECK,
        WARN,
        "NVSwitch 0000:86:00.0 NVLink 61: non-fatal error (SXid 12028) at the output of an NVSwitch "
        f'port, 3 times from {LATER} to {LAST} local time: "{quoted(NON_FATAL)}" - watch it: the switch '
        "continued",
        logs((START, BOOT), (NON_FATAL, LATER), (NON_FATAL, LATER), (NON_FATAL, LAST)),
    ),
    Case(
        "a fatal one, and the service was started again: that alone settles nothing",
        CHECK,
        WARN,
        f'{LINK}, once at {LATER} local time: "{quoted(FATAL)}"; the service was started again since, '
        f"which alone does not settle it; see kernel_log.sxid - {RESET}",
        logs((START, BOOT), (FATAL, LATER), (START, LAST)),
    ),
    Case(
        "a fatal one of an earlier boot",
        CHECK,
        PASS,
        f'{LINK}, once at {LONG_AGO} local time: "{quoted(FATAL)}"; settled by the reboot since',
        logs((FATAL, LONG_AGO), (START, BOOT)),
    ),
    Case(
        "a switch is missing",
        CHECK,
        FAIL,
        f'{MISSING}, once at {LATER} local time: "{quoted(TOPOLOGY)}" - {COUNT}',
        logs((START, LATER), (TOPOLOGY, LATER)),
        profile=BOOTCHECK,
    ),
    Case(
        "a switch was missing until the service was started again",
        CHECK,
        PASS,
        f'{MISSING}, once at {LATER} local time: "{quoted(TOPOLOGY)}"; settled: the service was restarted since',
        logs((TOPOLOGY, LATER), (START, LAST)),
    ),
    Case(
        "it fails again and again: the newest start failed too",
        CHECK,
        FAIL,
        f'{MISSING}, once at {LAST} local time: "{quoted(TOPOLOGY)}" - {COUNT}',
        logs((START, LATER), (TOPOLOGY, LATER), (START, LAST), (TOPOLOGY, LAST)),
    ),
    Case(
        "another version than the driver",
        CHECK,
        FAIL,
        f"{UNIT}: nvidia-fabricmanager has another version than the driver, and ended, once at {LATER} local "
        f'time: "{quoted(VERSION)}" - install both from one release and hold the packages (apt-mark hold, dnf '
        "versionlock)",
        logs((START, LATER), (VERSION, LATER)),
    ),
    Case(
        "a GPU that it does not know any more",
        CHECK,
        FAIL,
        f"{UNIT}: a GPU was reset and nvidia-fabricmanager does not know it any more: NVLink SHARP (NVLS) cannot "
        f'be set up, once at {LATER} local time: "{quoted(MULTICAST)}" - restart nvidia-fabricmanager when the '
        "node is idle",
        logs((START, BOOT), (MULTICAST, LATER)),
    ),
    Case(
        "an error that nobody knows",
        CHECK,
        WARN,
        f"{UNIT}: an error that this version of nodegate does not know, 2 times from {LATER} to {LAST} "
        'local time: "Some other error message 0." - read /var/log/fabricmanager.log around it',
        logs((OTHER, LATER), (OTHER, LAST)),
    ),
    Case(
        "without a zone, an error shortly before the boot may be one of this boot",
        CHECK,
        FAIL,
        f'{MISSING}, once at {SOON_BEFORE_BOOT} local time: "{quoted(TOPOLOGY)}" - {COUNT}',
        logs((TOPOLOGY, SOON_BEFORE_BOOT)),
    ),
    Case(
        "there is no log",
        CHECK,
        ERROR,
        f"{UNIT}: could not read its log: missing: /var/log/fabricmanager.log - {LOG_LOST}",
        lambda machine: machine.set(
            "services", "fabric_manager_log", {"why": "missing", "detail": "/var/log/fabricmanager.log"}
        ),
    ),
    Case(
        "there is something else in it",
        CHECK,
        ERROR,
        "node: the fabric manager's log has no entry: binary junk - read /var/log/fabricmanager.log on the node",
        lambda machine: machine.set("services", "fabric_manager_log", "binary junk\n"),
    ),
    Case(
        "cards without NVSwitches need none",
        CHECK,
        SKIP,
        "node: this platform runs no fabric manager (l40s.yaml fabric.required: no NVSwitch on this platform)",
        machine=Machine.pcie_l40s,
    ),
)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_check_says(case: Case) -> None:
    assert_case(case)


def test_a_thousand_kinds_of_errors_are_not_a_thousand_findings() -> None:
    machine = Machine.hgx_h100()
    words = [f"{letter}{other}{last}" for letter in "abcdefghij" for other in "abcdefghij" for last in "abcdefghij"]
    entries = [(f"[{{when}}] [ERROR] [tid 1] strange {word}", LATER) for word in words]
    logs(*entries)(machine)
    record = judge_one(CHECK, machine)
    assert len(record.findings) <= 51
    assert "950 more kinds of errors" in record.findings[-1].message


# Real logs


def judged(file: str) -> Record:
    machine = Machine.hgx_h100(epoch_s=1_789_000_000.0)  # September 2026
    machine.set("system", "uptime_s", 3 * 365 * 86400.0)
    machine.set("services", "fabric_manager_log", corpus(f"fabricmanager/{file}"))
    return judge_one(CHECK, machine)


def test_one_non_fatal_error_in_a_real_log() -> None:
    record = judged("gpud_fabricmanager.log")
    assert record.verdict is WARN
    assert [(finding.part.short, finding.code, finding.observed) for finding in record.findings] == [
        ("NVSwitch 0000:86:00.0 NVLink 61", "12028", 1)
    ]


def test_every_kind_of_line_that_a_log_matcher_knows() -> None:
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
