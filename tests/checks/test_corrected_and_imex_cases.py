"""What ecc.corrected and fabric.imex say of one machine, word for word."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.judging import Case, assert_case

from nodegate.records.verdict import Verdict

if TYPE_CHECKING:
    from fleet.machine import Machine

PASS, WARN, ERROR, SKIP = Verdict.PASS, Verdict.WARN, Verdict.ERROR, Verdict.SKIP
RACK = "6f7a1c00-59a3-4f3e-8b1f-2d1c5e0a9b77"
UNSUPPORTED = {"why": "not supported", "detail": "NVML 3: Not Supported", "nvml": 3}
FAILED = {"why": "failed", "detail": "NVML 999"}
SEE = "see the evidence file for what the node answered"
WATCH = "watch it under load (counters.ecc); replace the board if errors continue"


def in_a_rack(machine: Machine, *, imex: str = "active") -> None:
    for index in range(8):
        machine.set_gpu(index, "fabric.cluster_uuid", RACK)
        machine.set_gpu(index, "fabric.clique", 32766)
    machine.set_unit("nvidia-imex", "LoadState", "loaded")
    machine.set_unit("nvidia-imex", "ActiveState", imex)


CASES = (
    Case(
        "none",
        "ecc.corrected",
        PASS,
        "{gpus}: 0 corrected memory errors since the driver was loaded",
    ),
    Case(
        "healthy: a few are the work of ECC",
        "ecc.corrected",
        PASS,
        "7 alike: GPU 0, GPU 1, GPU 2, GPU 4, GPU 5, GPU 6, GPU 7: 0 corrected memory errors since the driver was "
        "loaded",
        change=lambda machine: machine.set_gpu(3, "ecc.volatile_corrected", 5000),
    ),
    Case(
        "thousands an hour",
        "ecc.corrected",
        WARN,
        "{gpu3}: 10000000 corrected memory errors since the driver was loaded, expected at most 300003 errors (1000 an "
        "hour over 300 h since boot; common.yaml counters.ecc_corrected_per_h: choice: OCI replaces a board at 1000 "
        "corrected SRAM errors over its life (oci-dr-hpc-v2), Azure NHC at 10000; this is an hour's) - " + WATCH,
        change=lambda machine: machine.set_gpu(3, "ecc.volatile_corrected", 10_000_000),
    ),
    Case(
        "a count that was not read",
        "ecc.corrected",
        ERROR,
        f"{{gpu3}}: could not read corrected memory errors since the driver was loaded: failed: NVML 999 - {SEE}",
        change=lambda machine: machine.set_gpu(3, "ecc.volatile_corrected", FAILED),
    ),
    Case(
        "a count that one GPU of eight does not report",
        "ecc.corrected",
        ERROR,
        f"{{gpu3}}: could not read corrected memory errors since the driver was loaded: not supported: NVML 3: Not "
        f"Supported - {SEE}",
        change=lambda machine: machine.set_gpu(3, "ecc.volatile_corrected", UNSUPPORTED),
    ),
    Case("no rack", "fabric.imex", SKIP, "node: no GPU is in an NVLink domain of several nodes"),
    Case("IMEX runs", "fabric.imex", PASS, "nvidia-imex: service state active", change=in_a_rack),
    Case(
        "IMEX does not run",
        "fabric.imex",
        WARN,
        "nvidia-imex: service state failed, expected active - systemctl enable --now nvidia-imex, unless the scheduler "
        "starts it with each job",
        change=lambda machine: in_a_rack(machine, imex="failed"),
    ),
    Case(
        "systemd does not answer",
        "fabric.imex",
        ERROR,
        "node: services could not be read: timeout: systemctl - the node is slow: check its load and kernel log, then "
        "run again",
        change=lambda machine: (in_a_rack(machine), machine.section_fails("services", "timeout", "systemctl")),
    ),
)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_check_says(case: Case) -> None:
    assert_case(case)
