"""A warning and a reading that failed on one part are told side by side, in bootcheck's line and in the causes."""

import re
from collections.abc import Iterable
from functools import cache

import pytest
from fleet.machine import Machine

from bench.silent_values import checks_of, records_of
from nodegate.causes.fleet import fleet_causes
from nodegate.knowledge.tables import lines
from nodegate.profile import Profile
from nodegate.records.cause import Cause
from nodegate.records.finding import Record
from nodegate.records.verdict import NodeVerdict, Verdict
from nodegate.run.bootcheck import Exit, outcome_of
from nodegate.run.decision import decide

UNREAD = {"why": "failed", "detail": "[Errno 5] Input/output error"}
ADDRESS = re.compile(r"\b(?:[0-9a-f]{4}:)?[0-9a-f]{2}:[0-9a-f]{2}(?:\.[0-7])?\b")
WARNINGS = {rule.id: rule for rule in lines() if rule.bootcheck is Verdict.WARN}
NIC, GPU = "mlx5_2", "GPU 3"
LEFT_TO_THE_MACHINE = {"ports", "counters", "hw_counters", "gids", "gid_types", "index", "bus_id", "pci"}


def without(part: str, reading: str) -> Machine:
    made = Machine.hgx_h100("gpu01")
    if part == GPU:
        made.set_gpu(3, reading, UNREAD)
        return made
    adapter = made.sections["infiniband"][NIC]
    (adapter if reading in adapter else adapter["ports"]["1"])[reading] = UNREAD
    return made


CHECKS = checks_of(Profile.BOOTCHECK)
OF_THE_LOG = [check for check in CHECKS if "kernel_log" in check.asks_for]  # a line changes nothing of the others


def unread(causes: Iterable[Cause]) -> set[tuple[str, str, str]]:
    """What could not be read: by check, part and reading."""
    found = [each.decisive for each in causes if each.verdict is Verdict.ERROR]
    return {(each.check, each.finding.part.short, each.finding.quantity) for each in found}


@cache
def readings(part: str) -> dict[str, tuple[dict[str, Record], set[tuple[str, str, str]], str]]:
    """The readings that a bootcheck cannot do without: its records where one fails, what it lacks then, its line."""
    made = Machine.hgx_h100("gpu01")
    adapter = made.sections["infiniband"][NIC]
    names = made.sections["nvml"]["gpus"][3] if part == GPU else {**adapter, **adapter["ports"]["1"]}
    found = {}
    for name in sorted(names.keys() - LEFT_TO_THE_MACHINE):
        records = records_of(without(part, name), Profile.BOOTCHECK, CHECKS)
        said = tuple(records.values())
        if missed := unread(decide("gpu01", said).causes):
            found[name] = records, missed, outcome_of(said).line
    return found


def test_there_are_such_readings_of_both_parts() -> None:
    assert readings(NIC).keys() >= {"rate", "phys_state", "state", "link_layer"}
    assert readings(GPU).keys() >= {"serial", "uuid", "persistence_mode", "nvlinks", "ecc"}


@pytest.mark.parametrize("rule", WARNINGS)
def test_a_warning_changes_nothing_of_what_is_said_of_a_reading_that_failed(rule: str) -> None:
    part = NIC if WARNINGS[rule].part.startswith("NIC") else GPU
    for reading, (before, missed, line) in readings(part).items():
        made = without(part, reading)
        address = made.nic_address(2) if part == NIC else made.gpu_address(3)
        made.kernel(ADDRESS.sub(address, WARNINGS[rule].example), ago_s=600)
        said = tuple({**before, **records_of(made, Profile.BOOTCHECK, OF_THE_LOG)}.values())
        decided = decide("gpu01", said)
        assert unread(decided.causes) == missed, reading
        assert {each.decisive.check.partition(".")[0] for each in decided.causes if each.verdict is Verdict.WARN}, (
            reading
        )
        assert decided.verdict is NodeVerdict.INCOMPLETE
        told = outcome_of(said)
        assert (told.exit, told.line) == (Exit.UNKNOWN, line), reading
        of_the_run = fleet_causes({"gpu01": decided.causes}, {})
        assert {each.verdict for each in of_the_run} >= {Verdict.WARN, Verdict.ERROR}
        assert unread(of_the_run) == missed
