"""What ecc.corrected and fabric.imex say of one machine, word for word."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.cases import assert_case
from support.judging import Case

from nodegate.records.verdict import Verdict

if TYPE_CHECKING:
    from fleet.machine import Machine

PASS, WARN, ERROR, SKIP = Verdict.PASS, Verdict.WARN, Verdict.ERROR, Verdict.SKIP
RACK = "6f7a1c00-59a3-4f3e-8b1f-2d1c5e0a9b77"
UNSUPPORTED = {"why": "not supported", "detail": "NVML 3: Not Supported", "nvml": 3}
FAILED = {"why": "failed", "detail": "NVML 999"}


def in_a_rack(machine: Machine, *, imex: str = "active") -> None:
    for index in range(8):
        machine.set_gpu(index, "fabric.cluster_uuid", RACK)
        machine.set_gpu(index, "fabric.clique", 32766)
    machine.set_unit("nvidia-imex", "LoadState", "loaded")
    machine.set_unit("nvidia-imex", "ActiveState", imex)


CASES = (
    Case("none", "ecc.corrected", PASS),
    Case(
        "healthy: a few are the work of ECC",
        "ecc.corrected",
        PASS,
        change=lambda machine: machine.set_gpu(3, "ecc.volatile_corrected", 5000),
    ),
    Case(
        "thousands an hour",
        "ecc.corrected",
        WARN,
        change=lambda machine: machine.set_gpu(3, "ecc.volatile_corrected", 10_000_000),
    ),
    Case(
        "a count that was not read",
        "ecc.corrected",
        ERROR,
        change=lambda machine: machine.set_gpu(3, "ecc.volatile_corrected", FAILED),
    ),
    Case(
        "a count that one GPU of eight does not report",
        "ecc.corrected",
        ERROR,
        change=lambda machine: machine.set_gpu(3, "ecc.volatile_corrected", UNSUPPORTED),
    ),
    Case("no rack", "fabric.imex", SKIP),
    Case("IMEX runs", "fabric.imex", PASS, change=in_a_rack),
    Case("IMEX does not run", "fabric.imex", WARN, change=lambda machine: in_a_rack(machine, imex="failed")),
    Case(
        "systemd does not answer",
        "fabric.imex",
        ERROR,
        change=lambda machine: (in_a_rack(machine), machine.section_fails("services", "timeout", "systemctl")),
    ),
)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_check_says(case: Case) -> None:
    assert_case(case)
