"""What the checks of device memory say, word for word: 600 remapped rows never pass, MIG and old boards may."""

from __future__ import annotations

import pytest
from fleet.machine import Machine
from support.judging import Case, assert_case

from nodegate.records.verdict import Verdict

PASS, WARN, FAIL, ERROR, SKIP = Verdict.PASS, Verdict.WARN, Verdict.FAIL, Verdict.ERROR, Verdict.SKIP
NOT_JUDGED = Verdict.NOT_JUDGED
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
    Case("on", "ecc.enabled", PASS, "{gpus}: ECC mode on"),
    Case(
        "off on one",
        "ecc.enabled",
        FAIL,
        "{gpu1}: ECC mode off, expected on (hgx-h100-8.yaml gpu.ecc: NVIDIA data sheet: memory with "
        "ECC, on as shipped) - run nvidia-smi -e 1 (or 0), then reset the GPU while it is idle",
        lambda machine: machine.set_gpu(1, "ecc_mode", [0, 0]),
    ),
    Case(
        "a change waits for a reset",
        "ecc.enabled",
        WARN,
        "{gpu1}: pending ECC mode off, expected on (the mode in force) - reset the GPU while it is "
        "idle, or revert the change",
        lambda machine: machine.set_gpu(1, "ecc_mode", [1, 0]),
    ),
    Case(
        "a platform with ECC whose GPU does not tell",
        "ecc.enabled",
        ERROR,
        f"{{gpu1}}: could not read ECC mode: not supported - {_SEE} (and 1 more)",
        lambda machine: machine.set_gpu(1, "ecc_mode", UNSUPPORTED),
    ),
    Case(
        "a gaming card, of which nothing says that it should have ECC",
        "ecc.enabled",
        SKIP,
        "{gpus}: does not report pending ECC mode (not supported)",
        without_ecc,
        limits={"gpu.ecc": None, "gpu.reports": None},
    ),
    Case(
        "a gaming card with ECC off, of which nothing says that it should be on",
        "ecc.enabled",
        PASS,
        "{gpus}: pending ECC mode off",
        lambda machine: every(machine, "ecc_mode", [0, 0]),
        limits={"gpu.ecc": None},
    ),
)

ERRORS = (
    Case(
        "none",
        "ecc.volatile",
        PASS,
        "{gpus}: 0 uncorrectable errors since driver load",
    ),
    Case(
        "one",
        "ecc.volatile",
        FAIL,
        "{gpu4}: 1 uncorrectable error since driver load, expected at most 0 errors (none on a healthy "
        f"GPU) - {_RESET}",
        lambda machine: machine.set_gpu(4, "ecc.volatile_uncorrected", 1),
    ),
    Case(
        "fewer than the 20,000,000 that another suite lets pass",
        "ecc.volatile",
        FAIL,
        "{gpu4}: 19999999 uncorrectable errors since driver load, expected at most 0 errors (none on a "
        f"healthy GPU) - {_RESET}",
        lambda machine: machine.set_gpu(4, "ecc.volatile_uncorrected", 19_999_999),
    ),
    Case(
        "corrected errors are the work of ECC",
        "ecc.volatile",
        PASS,
        "{gpus}: 0 uncorrectable errors since driver load",
        lambda machine: every(machine, "ecc.volatile_corrected", 4_000),
    ),
    Case(
        "ECC on and no counter",
        "ecc.volatile",
        ERROR,
        f"{{gpu4}}: could not read uncorrectable errors since driver load: not supported - {_SEE}",
        lambda machine: machine.set_gpu(4, "ecc.volatile_uncorrected", UNSUPPORTED),
    ),
    Case(
        "MIG on: the whole GPU has no counter",
        "ecc.volatile",
        SKIP,
        "{gpus}: does not report uncorrectable errors since driver load (not supported)",
        lambda machine: (
            every(machine, "mig_mode", [1, 1]),
            every(machine, "ecc.volatile_uncorrected", UNSUPPORTED),
        ),
    ),
    Case(
        "a gaming card",
        "ecc.volatile",
        SKIP,
        "{gpus}: does not report uncorrectable errors since driver load (not supported)",
        without_ecc,
        limits={"gpu.reports": None},
    ),
    Case(
        "none ever",
        "ecc.lifetime",
        PASS,
        "{gpus}: 0 uncorrectable errors over the board's life",
    ),
    Case(
        "some, long ago",
        "ecc.lifetime",
        WARN,
        "{gpu4}: 3 uncorrectable errors over the board's life, expected at most 0 errors (none on a "
        f"healthy GPU) - {_NEW}",
        lambda machine: machine.set_gpu(4, "ecc.aggregate_uncorrected", 3),
    ),
    Case(
        "the counter could not be read",
        "ecc.lifetime",
        ERROR,
        f"{{gpu4}}: could not read uncorrectable errors over the board's life: failed: NVML 999 - {_SEE}",
        lambda machine: machine.set_gpu(4, "ecc.aggregate_uncorrected", FAILED),
    ),
)

_SRAM = "common.yaml gpu.sram_uncorrectable_max: stas00/ml-engineering: above 4 run the field diagnostics"
SRAM = (
    Case(
        "flag down",
        "ecc.sram_threshold",
        PASS,
        "{gpus}: SRAM error threshold not exceeded",
    ),
    Case(
        "flag up",
        "ecc.sram_threshold",
        FAIL,
        f"{{gpu4}}: SRAM error threshold exceeded - {_RMA}",
        lambda machine: machine.set_gpu(4, "sram_threshold_exceeded", True),
    ),
    Case(
        "a driver without the flag",
        "ecc.sram_threshold",
        SKIP,
        "{gpus}: does not report its SRAM error threshold (missing: function not found)",
        lambda machine: every(machine, "sram_threshold_exceeded", {"why": "missing", "detail": "function not found"}),
        limits={"gpu.reports": None},
    ),
    Case(
        "the flag could not be read",
        "ecc.sram_threshold",
        ERROR,
        f"{{gpu4}}: could not read its SRAM error threshold: failed: NVML 999 - {_SEE}",
        lambda machine: machine.set_gpu(4, "sram_threshold_exceeded", FAILED),
    ),
    Case(
        "as many as are allowed",
        "ecc.sram",
        PASS,
        "7 alike: GPU 0, GPU 1, GPU 2, GPU 3, GPU 5, GPU 6, GPU 7: 0 uncorrectable SRAM errors over the board's life",
        lambda machine: machine.set_gpu(4, "ecc.aggregate_sram_uncorrected", 4),
    ),
    Case(
        "one more",
        "ecc.sram",
        FAIL,
        f"{{gpu4}}: 5 uncorrectable SRAM errors over the board's life, expected at most 4 errors ({_SRAM}) - {_RMA}",
        lambda machine: machine.set_gpu(4, "ecc.aggregate_sram_uncorrected", 5),
    ),
    Case(
        "a board before Turing does not count SRAM by itself",
        "ecc.sram",
        SKIP,
        "{gpus}: does not report uncorrectable SRAM errors over the board's life (not supported)",
        lambda machine: every(machine, "ecc.aggregate_sram_uncorrected", UNSUPPORTED),
        limits={"gpu.reports": None},
    ),
    Case(
        "the SRAM counter could not be read",
        "ecc.sram",
        ERROR,
        f"{{gpu4}}: could not read uncorrectable SRAM errors over the board's life: failed: NVML 999 - {_SEE}",
        lambda machine: machine.set_gpu(4, "ecc.aggregate_sram_uncorrected", FAILED),
    ),
)

_ROWS = "common.yaml gpu.remapped_rows_uncorrectable_max: DCGM, Azure NHC and OCI act at 512"
ROWS = (
    Case(
        "nothing waits",
        "ecc.remap_pending",
        PASS,
        "{gpus}: no row remap has failed",
    ),
    Case(
        "a remap waits for a reset",
        "ecc.remap_pending",
        FAIL,
        f"{{gpu5}}: a row remap is pending - {_RESET}",
        lambda machine: machine.set_gpu(5, "remapped_rows", [0, 1, 1, 0]),
    ),
    Case(
        "a remap failed",
        "ecc.remap_pending",
        FAIL,
        f"{{gpu5}}: a row remap has failed - {_RMA}",
        lambda machine: machine.set_gpu(5, "remapped_rows", [0, 12, 0, 1]),
    ),
    Case(
        "a card without row remapping",
        "ecc.remap_pending",
        SKIP,
        "{gpus}: does not report row remapping (not supported)",
        without_ecc,
        limits={"gpu.reports": None},
    ),
    Case(
        "it could not be read",
        "ecc.remap_pending",
        ERROR,
        f"{{gpu5}}: could not read row remapping: failed: NVML 999 - {_SEE}",
        lambda machine: machine.set_gpu(5, "remapped_rows", FAILED),
    ),
    Case(
        "511 rows",
        "ecc.remapped_rows",
        PASS,
        "7 alike: GPU 0, GPU 1, GPU 2, GPU 3, GPU 4, GPU 6, GPU 7: 0 rows remapped for uncorrectable errors",
        lambda machine: machine.set_gpu(5, "remapped_rows", [0, 511, 0, 0]),
    ),
    Case(
        "512 rows",
        "ecc.remapped_rows",
        FAIL,
        f"{{gpu5}}: 512 rows remapped for uncorrectable errors, expected at most 511 rows ({_ROWS}) - {_RMA}",
        lambda machine: machine.set_gpu(5, "remapped_rows", [0, 512, 0, 0]),
    ),
    Case(
        "600 rows for uncorrectable errors, none for correctable ones",
        "ecc.remapped_rows",
        FAIL,
        f"{{gpu5}}: 600 rows remapped for uncorrectable errors, expected at most 511 rows ({_ROWS}) - {_RMA}",
        lambda machine: machine.set_gpu(5, "remapped_rows", [0, 600, 0, 0]),
    ),
    Case(
        "600 rows for correctable errors are no fault",
        "ecc.remapped_rows",
        PASS,
        "{gpus}: 0 rows remapped for uncorrectable errors",
        lambda machine: machine.set_gpu(5, "remapped_rows", [600, 0, 0, 0]),
    ),
    Case(
        "no limit",
        "ecc.remapped_rows",
        NOT_JUDGED,
        "node: no limit gpu.remapped_rows_uncorrectable_max for platform hgx-h100-8",
        limits={"gpu.remapped_rows_uncorrectable_max": None},
    ),
    Case(
        "a new board",
        "ecc.remapped_rows_new",
        PASS,
        "{gpus}: 0 remapped rows",
    ),
    Case(
        "a board with history",
        "ecc.remapped_rows_new",
        WARN,
        f"{{gpu5}}: 3 remapped rows, expected at most 0 rows (none on a new board) - {_NEW}",
        lambda machine: machine.set_gpu(5, "remapped_rows", [1, 2, 0, 0]),
    ),
    Case(
        "spare rows everywhere",
        "ecc.spare_rows",
        PASS,
        "{gpus}: 0 memory banks without a spare row",
    ),
    Case(
        "banks with few left are no fault yet",
        "ecc.spare_rows",
        PASS,
        "{gpus}: 0 memory banks without a spare row",
        lambda machine: machine.set_gpu(5, "remap_histogram", [2550, 4, 4, 2, 0]),
    ),
    Case(
        "a bank with none left",
        "ecc.spare_rows",
        FAIL,
        f"{{gpu5}}: 1 memory bank without a spare row, expected at most 0 banks (the board's own histogram) - {_RMA}",
        lambda machine: machine.set_gpu(5, "remap_histogram", [2559, 0, 0, 0, 1]),
    ),
    Case(
        "the histogram is not whole",
        "ecc.spare_rows",
        ERROR,
        "{gpu5}: could not read memory banks without a spare row: failed: expected 5 whole numbers, "
        f"the node sent [2559, 0] - {_SEE}",
        lambda machine: machine.set_gpu(5, "remap_histogram", [2559, 0]),
    ),
)

PAGES = (
    Case(
        "Ampere and later have none",
        "ecc.retired_pages",
        SKIP,
        "{gpus}: does not report page retirement (not supported: NVML 3: Not Supported)",
    ),
    Case(
        "none",
        "ecc.retired_pages",
        PASS,
        "{gpus}: no page retirement is pending",
        before_ampere,
    ),
    Case(
        "one waits for a reset",
        "ecc.retired_pages",
        FAIL,
        f"{{gpu2}}: a page retirement is pending - {_RESET}",
        lambda machine: before_ampere(machine, pending=True),
    ),
    Case(
        "61 of both kinds",
        "ecc.retired_pages",
        PASS,
        "{gpus}: no page retirement is pending",
        lambda machine: before_ampere(machine, single=56, double=5),
    ),
    Case(
        "63 of both kinds",
        "ecc.retired_pages",
        FAIL,
        "{gpu2}: 63 retired pages, expected at most 62 pages (common.yaml gpu.retired_pages_max: DCGM "
        f"fails at 63; NVIDIA RMA policy for boards before Ampere) - {_RMA}",
        lambda machine: before_ampere(machine, single=60, double=3),
    ),
    Case(
        "16 for double bit errors",
        "ecc.retired_pages",
        WARN,
        "{gpu2}: 16 pages retired for double bit errors, expected at most 15 pages (common.yaml "
        "gpu.retired_pages_double_bit_max: DCGM: more than 15 pages retired for double bit errors) - "
        "replace the board if it gains more than one a week",
        lambda machine: before_ampere(machine, double=16),
    ),
    Case(
        "whether one waits is not told",
        "ecc.retired_pages",
        ERROR,
        f"{{gpu2}}: could not read pending page retirement: failed: NVML 999 - {_SEE}",
        lambda machine: before_ampere(machine, pending=FAILED),
    ),
)


@pytest.mark.parametrize("case", [*MODE, *ERRORS, *SRAM, *ROWS, *PAGES], ids=str)
def test_case(case: Case) -> None:
    assert_case(case)
