"""A warning and a reading that failed on one part are told side by side, in bootcheck's line and in the causes."""

from __future__ import annotations

import re

import pytest
from fleet.machine import Machine

from bench.silent_values import checks_of, records_of
from nodegate.knowledge.tables import lines
from nodegate.profile import Profile
from nodegate.records.verdict import NodeVerdict, Verdict
from nodegate.run.bootcheck import Exit, outcome_of
from nodegate.run.decision import decide

UNREAD = {"why": "failed", "detail": "[Errno 5] Input/output error"}
ADDRESS = re.compile(r"\b(?:[0-9a-f]{4}:)?[0-9a-f]{2}:[0-9a-f]{2}(?:\.[0-7])?\b")
WARNINGS = [rule for rule in lines() if rule.bootcheck is Verdict.WARN]
OF_A_NIC = ("rate", "phys_state", "state", "link_layer")
OF_A_GPU = ("serial", "power_limit_enforced_mw", "persistence_mode", "nvlinks")


def node(example: str, reading: str, *, is_nic: bool) -> Machine:
    """A healthy node whose kernel warned of its part, and of which one reading of that part fails."""
    made = Machine.hgx_h100("gpu01")
    address = made.nic_address(2) if is_nic else made.gpu_address(3)
    made.kernel(ADDRESS.sub(address, example), ago_s=600)
    if is_nic:
        made.set_port("mlx5_2", 1, reading, UNREAD)
    else:
        made.set_gpu(3, reading, UNREAD)
    return made


def cases() -> list[object]:
    return [
        pytest.param(rule.example, reading, is_nic, id=f"{rule.name} and {reading}")
        for rule in WARNINGS
        for is_nic, readings in ((True, OF_A_NIC), (False, OF_A_GPU))
        if is_nic == rule.part.startswith("NIC")
        for reading in readings
    ]


@pytest.mark.parametrize(("example", "reading", "is_nic"), cases())
def test_both_are_told(example: str, reading: str, is_nic: bool) -> None:
    made = node(example, reading, is_nic=is_nic)
    records = tuple(records_of(made, Profile.BOOTCHECK, checks_of(Profile.BOOTCHECK)).values())
    decided = decide("gpu01", records)
    warned = [each for each in decided.causes if each.verdict is Verdict.WARN]
    unread = [each for each in decided.causes if each.verdict is Verdict.ERROR]
    assert warned
    assert unread
    assert decided.verdict is NodeVerdict.INCOMPLETE
    told = outcome_of(records)
    assert told.exit is Exit.UNKNOWN
    assert "could not read" in told.line
    assert ("mlx5_2" if is_nic else "GPU 3") in told.line
