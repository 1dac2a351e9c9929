"""What ecc.corrected and fabric.imex say of one machine, word for word."""

from __future__ import annotations

from typing import TYPE_CHECKING

from support.cases import ERROR, PASS, SKIP, WARN, asserting, of
from support.judging import Case, both, changes, plant

if TYPE_CHECKING:
    from fleet.machine import Machine

RACK = "6f7a1c00-59a3-4f3e-8b1f-2d1c5e0a9b77"
UNSUPPORTED = {"why": "not supported", "detail": "NVML 3: Not Supported", "nvml": 3}
FAILED = {"why": "failed", "detail": "NVML 999"}


@changes
def in_a_rack(machine: Machine, *, imex: str = "active") -> None:
    for index in range(8):
        machine.set_gpu(index, "fabric.cluster_uuid", RACK)
        machine.set_gpu(index, "fabric.clique", 32766)
    machine.set_unit("nvidia-imex", "LoadState", "loaded")
    machine.set_unit("nvidia-imex", "ActiveState", imex)


CASES = (
    *of(
        "ecc.corrected",
        Case("none", PASS),
        Case("healthy: a few are the work of ECC", PASS, plant.set_gpu(3, "ecc.volatile_corrected", 5000)),
        Case("thousands an hour", WARN, plant.set_gpu(3, "ecc.volatile_corrected", 10_000_000)),
        Case("a count that was not read", ERROR, plant.set_gpu(3, "ecc.volatile_corrected", FAILED)),
        Case(
            "a count that one GPU of eight does not report",
            ERROR,
            plant.set_gpu(3, "ecc.volatile_corrected", UNSUPPORTED),
        ),
    ),
    *of(
        "fabric.imex",
        Case("no rack", SKIP),
        Case("IMEX runs", PASS, in_a_rack()),
        Case("IMEX does not run", WARN, in_a_rack(imex="failed")),
        Case(
            "systemd does not answer", ERROR, both(in_a_rack(), plant.section_fails("services", "timeout", "systemctl"))
        ),
    ),
)


test_the_check_says = asserting(CASES)
