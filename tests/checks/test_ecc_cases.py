"""What the checks of device memory say, word for word: 600 remapped rows never pass, MIG and old boards may."""

from __future__ import annotations

import pytest
from support.judging import Case, assert_case

from nodegate.demo.machine import Machine
from nodegate.verdict import Verdict

PASS, WARN, FAIL, ERROR, SKIP = Verdict.PASS, Verdict.WARN, Verdict.FAIL, Verdict.ERROR, Verdict.SKIP
UNSUPPORTED = {"why": "not supported", "detail": ""}
FAILED = {"why": "failed", "detail": "NVML 999"}
_RESET = "drain the node and reset the GPU; if it comes back, run field diagnostics and replace the board"
_RMA = "replace the board (RMA), with a field diagnostics log"
_NEW = "ask the vendor whether the board is new; watch it during the first weeks"
_SEE = "see the evidence file for what the node answered"


def every(machine: Machine, path: str, value: object) -> None:
    for index in range(8):
        machine.set_gpu(index, path, value)


def without_ecc(machine: Machine) -> None:
    """A gaming card: neither ECC nor row remapping."""
    for key in ("ecc_mode", "ecc", "sram_threshold_exceeded", "remapped_rows", "remap_histogram"):
        every(machine, key, UNSUPPORTED)


def before_ampere(machine: Machine, *, single: int = 0, double: int = 0, pending: object = False) -> None:
    """Retired pages instead of remapped rows; the faulty one is GPU 2."""
    for key in ("remapped_rows", "remap_histogram", "sram_threshold_exceeded"):
        every(machine, key, UNSUPPORTED)
    every(machine, "retired_pages", [0, 0])
    every(machine, "retired_pending", False)
    machine.set_gpu(2, "retired_pages", [single, double])
    machine.set_gpu(2, "retired_pending", pending)


MODE = (
    Case("on", "ecc.enabled", PASS, "{gpu0}: ECC on (and 15 more)"),
    Case(
        "off on one",
        "ecc.enabled",
        FAIL,
        "{gpu1}: ECC off, expected on (hgx-h100-8.yaml gpu.ecc: NVIDIA data sheet: memory with ECC, on as shipped) - "
        "run nvidia-smi -e 1 (or 0), then reset the GPU while it is idle",
        lambda machine: machine.set_gpu(1, "ecc_mode", [0, 0]),
    ),
    Case(
        "a change waits for a reset",
        "ecc.enabled",
        WARN,
        "{gpu1}: ECC after the next reset off, expected on (the mode in force) - reset the GPU while it is idle, or "
        "take the change back",
        lambda machine: machine.set_gpu(1, "ecc_mode", [1, 0]),
    ),
    Case(
        "a platform with ECC whose GPU does not tell",
        "ecc.enabled",
        ERROR,
        f"{{gpu1}}: ECC is unknown (not supported) - {_SEE} (and 1 more)",
        lambda machine: machine.set_gpu(1, "ecc_mode", UNSUPPORTED),
    ),
    Case(
        "a gaming card, of which nothing says that it should have ECC",
        "ecc.enabled",
        SKIP,
        "{gpu0}: ECC mode is not told here (not supported) (and 7 more)",
        without_ecc,
        limits={"gpu.ecc": None},
    ),
    Case(
        "a gaming card with ECC off, of which nothing says that it should be on",
        "ecc.enabled",
        PASS,
        "{gpu0}: ECC after the next reset off (and 7 more)",
        lambda machine: every(machine, "ecc_mode", [0, 0]),
        limits={"gpu.ecc": None},
    ),
)

ERRORS = (
    Case("none", "ecc.volatile", PASS, "{gpu0}: uncorrectable since driver load 0 errors (and 7 more)"),
    Case(
        "one",
        "ecc.volatile",
        FAIL,
        "{gpu4}: uncorrectable since driver load 1 errors, expected at most 0 errors (none on a healthy GPU) - "
        + _RESET,
        lambda machine: machine.set_gpu(4, "ecc.volatile_uncorrected", 1),
    ),
    Case(
        "fewer than the 20,000,000 that another suite lets pass",
        "ecc.volatile",
        FAIL,
        "{gpu4}: uncorrectable since driver load 19999999 errors, expected at most 0 errors (none on a healthy GPU) - "
        + _RESET,
        lambda machine: machine.set_gpu(4, "ecc.volatile_uncorrected", 19_999_999),
    ),
    Case(
        "corrected errors are the work of ECC",
        "ecc.volatile",
        PASS,
        "{gpu0}: uncorrectable since driver load 0 errors (and 7 more)",
        lambda machine: every(machine, "ecc.volatile_corrected", 4_000),
    ),
    Case(
        "ECC on and no counter",
        "ecc.volatile",
        ERROR,
        f"{{gpu4}}: uncorrectable since driver load is unknown (not supported) - {_SEE}",
        lambda machine: machine.set_gpu(4, "ecc.volatile_uncorrected", UNSUPPORTED),
    ),
    Case(
        "MIG on: the whole GPU has no counter",
        "ecc.volatile",
        SKIP,
        "{gpu0}: the ECC counter is not told here (not supported) (and 7 more)",
        lambda machine: (
            every(machine, "mig_mode", [1, 1]),
            every(machine, "ecc.volatile_uncorrected", UNSUPPORTED),
        ),
    ),
    Case(
        "a gaming card",
        "ecc.volatile",
        SKIP,
        "{gpu0}: the ECC counter is not told here (not supported) (and 7 more)",
        without_ecc,
    ),
    Case("none ever", "ecc.lifetime", PASS, "{gpu0}: uncorrectable over the board's life 0 errors (and 7 more)"),
    Case(
        "some, long ago",
        "ecc.lifetime",
        WARN,
        "{gpu4}: uncorrectable over the board's life 3 errors, expected at most 0 errors (none on a healthy GPU) - "
        + _NEW,
        lambda machine: machine.set_gpu(4, "ecc.aggregate_uncorrected", 3),
    ),
    Case(
        "the counter could not be read",
        "ecc.lifetime",
        ERROR,
        f"{{gpu4}}: uncorrectable over the board's life is unknown (failed: NVML 999) - {_SEE}",
        lambda machine: machine.set_gpu(4, "ecc.aggregate_uncorrected", FAILED),
    ),
)

_SRAM = "common.yaml gpu.sram_uncorrectable_max: stas00/ml-engineering: above 4 run the field diagnostics"
SRAM = (
    Case("flag down", "ecc.sram_threshold", PASS, "{gpu0}: SRAM threshold exceeded no (and 7 more)"),
    Case(
        "flag up",
        "ecc.sram_threshold",
        FAIL,
        f"{{gpu4}}: SRAM threshold exceeded yes, expected no - {_RMA}",
        lambda machine: machine.set_gpu(4, "sram_threshold_exceeded", True),
    ),
    Case(
        "a driver without the flag",
        "ecc.sram_threshold",
        SKIP,
        "{gpu0}: SRAM threshold is not told here (missing: function not found) (and 7 more)",
        lambda machine: every(machine, "sram_threshold_exceeded", {"why": "missing", "detail": "function not found"}),
    ),
    Case(
        "the flag could not be read",
        "ecc.sram_threshold",
        ERROR,
        f"{{gpu4}}: SRAM threshold exceeded is unknown (failed: NVML 999) - {_SEE}",
        lambda machine: machine.set_gpu(4, "sram_threshold_exceeded", FAILED),
    ),
    Case(
        "as many as are allowed",
        "ecc.sram",
        PASS,
        "{gpu0}: uncorrectable in SRAM over the board's life 0 errors (and 7 more)",
        lambda machine: machine.set_gpu(4, "ecc.aggregate_sram_uncorrected", 4),
    ),
    Case(
        "one more",
        "ecc.sram",
        FAIL,
        f"{{gpu4}}: uncorrectable in SRAM over the board's life 5 errors, expected at most 4 errors ({_SRAM}) - {_RMA}",
        lambda machine: machine.set_gpu(4, "ecc.aggregate_sram_uncorrected", 5),
    ),
    Case(
        "a board before Turing does not count SRAM by itself",
        "ecc.sram",
        SKIP,
        "{gpu0}: the SRAM counter is not told here (not supported) (and 7 more)",
        lambda machine: every(machine, "ecc.aggregate_sram_uncorrected", UNSUPPORTED),
    ),
    Case(
        "the SRAM counter could not be read",
        "ecc.sram",
        ERROR,
        f"{{gpu4}}: uncorrectable in SRAM over the board's life is unknown (failed: NVML 999) - {_SEE}",
        lambda machine: machine.set_gpu(4, "ecc.aggregate_sram_uncorrected", FAILED),
    ),
)

_ROWS = "common.yaml gpu.remapped_rows_uncorrectable_max: DCGM, Azure NHC and OCI act at 512"
ROWS = (
    Case("nothing waits", "ecc.remap_pending", PASS, "{gpu0}: row remap failure no (and 15 more)"),
    Case(
        "a remap waits for a reset",
        "ecc.remap_pending",
        FAIL,
        f"{{gpu5}}: pending row remap yes, expected no - {_RESET}",
        lambda machine: machine.set_gpu(5, "remapped_rows", [0, 1, 1, 0]),
    ),
    Case(
        "a remap failed",
        "ecc.remap_pending",
        FAIL,
        f"{{gpu5}}: row remap failure yes, expected no - {_RMA}",
        lambda machine: machine.set_gpu(5, "remapped_rows", [0, 12, 0, 1]),
    ),
    Case(
        "a card without row remapping",
        "ecc.remap_pending",
        SKIP,
        "{gpu0}: row remapping is not told here (not supported) (and 7 more)",
        without_ecc,
    ),
    Case(
        "it could not be read",
        "ecc.remap_pending",
        ERROR,
        f"{{gpu5}}: row remap failure is unknown (failed: NVML 999) - {_SEE} (and 1 more)",
        lambda machine: machine.set_gpu(5, "remapped_rows", FAILED),
    ),
    Case(
        "511 rows",
        "ecc.remapped_rows",
        PASS,
        "{gpu0}: remapped for uncorrectable errors 0 rows (and 7 more)",
        lambda machine: machine.set_gpu(5, "remapped_rows", [0, 511, 0, 0]),
    ),
    Case(
        "512 rows",
        "ecc.remapped_rows",
        FAIL,
        f"{{gpu5}}: remapped for uncorrectable errors 512 rows, expected at most 511 rows ({_ROWS}) - {_RMA}",
        lambda machine: machine.set_gpu(5, "remapped_rows", [0, 512, 0, 0]),
    ),
    Case(
        "600 rows for uncorrectable errors, none for correctable ones",
        "ecc.remapped_rows",
        FAIL,
        f"{{gpu5}}: remapped for uncorrectable errors 600 rows, expected at most 511 rows ({_ROWS}) - {_RMA}",
        lambda machine: machine.set_gpu(5, "remapped_rows", [0, 600, 0, 0]),
    ),
    Case(
        "600 rows for correctable errors are no fault",
        "ecc.remapped_rows",
        PASS,
        "{gpu0}: remapped for uncorrectable errors 0 rows (and 7 more)",
        lambda machine: machine.set_gpu(5, "remapped_rows", [600, 0, 0, 0]),
    ),
    Case(
        "no limit",
        "ecc.remapped_rows",
        SKIP,
        "not judged: no limit gpu.remapped_rows_uncorrectable_max for platform hgx-h100-8",
        limits={"gpu.remapped_rows_uncorrectable_max": None},
    ),
    Case("a new board", "ecc.remapped_rows_new", PASS, "{gpu0}: remapped 0 rows (and 7 more)"),
    Case(
        "a board with history",
        "ecc.remapped_rows_new",
        WARN,
        f"{{gpu5}}: remapped 3 rows, expected at most 0 rows (none on a new board) - {_NEW}",
        lambda machine: machine.set_gpu(5, "remapped_rows", [1, 2, 0, 0]),
    ),
    Case("spare rows everywhere", "ecc.spare_rows", PASS, "{gpu0}: without a spare row 0 banks (and 7 more)"),
    Case(
        "banks with few left are no fault yet",
        "ecc.spare_rows",
        PASS,
        "{gpu0}: without a spare row 0 banks (and 7 more)",
        lambda machine: machine.set_gpu(5, "remap_histogram", [2550, 4, 4, 2, 0]),
    ),
    Case(
        "a bank with none left",
        "ecc.spare_rows",
        FAIL,
        f"{{gpu5}}: without a spare row 1 banks, expected at most 0 banks (the board's own histogram) - {_RMA}",
        lambda machine: machine.set_gpu(5, "remap_histogram", [2559, 0, 0, 0, 1]),
    ),
    Case(
        "the histogram is not whole",
        "ecc.spare_rows",
        ERROR,
        "{gpu5}: without a spare row is unknown (failed: expected 5 whole numbers, the node sent [2559, 0]) - " + _SEE,
        lambda machine: machine.set_gpu(5, "remap_histogram", [2559, 0]),
    ),
)

PAGES = (
    Case(
        "Ampere and later have none",
        "ecc.retired_pages",
        SKIP,
        "{gpu0}: page retirement is not told here (not supported: NVML 3: Not Supported) (and 7 more)",
    ),
    Case("none", "ecc.retired_pages", PASS, "{gpu0}: pending page retirement no (and 23 more)", before_ampere),
    Case(
        "one waits for a reset",
        "ecc.retired_pages",
        FAIL,
        f"{{gpu2}}: pending page retirement yes, expected no - {_RESET}",
        lambda machine: before_ampere(machine, pending=True),
    ),
    Case(
        "61 of both kinds",
        "ecc.retired_pages",
        PASS,
        "{gpu0}: pending page retirement no (and 23 more)",
        lambda machine: before_ampere(machine, single=56, double=5),
    ),
    Case(
        "63 of both kinds",
        "ecc.retired_pages",
        FAIL,
        "{gpu2}: retired 63 pages, expected at most 62 pages (common.yaml gpu.retired_pages_max: DCGM fails at 63; "
        f"NVIDIA RMA policy for boards before Ampere) - {_RMA}",
        lambda machine: before_ampere(machine, single=60, double=3),
    ),
    Case(
        "16 for double bit errors",
        "ecc.retired_pages",
        WARN,
        "{gpu2}: retired for double bit errors 16 pages, expected at most 15 pages (common.yaml "
        "gpu.retired_pages_double_bit_max: DCGM: more than 15 pages retired for double bit errors) - replace the board "
        "when it gains more than one a week",
        lambda machine: before_ampere(machine, double=16),
    ),
    Case(
        "whether one waits is not told",
        "ecc.retired_pages",
        ERROR,
        f"{{gpu2}}: pending page retirement is unknown (failed: NVML 999) - {_SEE}",
        lambda machine: before_ampere(machine, pending=FAILED),
    ),
)


@pytest.mark.parametrize("case", [*MODE, *ERRORS, *SRAM, *ROWS, *PAGES], ids=str)
def test_case(case: Case) -> None:
    assert_case(case)
