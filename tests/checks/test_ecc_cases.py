"""What the checks of device memory say, word for word: 600 remapped rows never pass, MIG and old boards may."""

from __future__ import annotations

import pytest
from fleet.machine import Machine
from support.cases import assert_case
from support.judging import Case

from nodegate.records.verdict import Verdict

PASS, WARN, FAIL, ERROR, SKIP = Verdict.PASS, Verdict.WARN, Verdict.FAIL, Verdict.ERROR, Verdict.SKIP
NOT_JUDGED = Verdict.NOT_JUDGED
UNSUPPORTED = {"why": "not supported", "detail": ""}
FAILED = {"why": "failed", "detail": "NVML 999"}


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
    Case("on", "ecc.enabled", PASS),
    Case("off on one", "ecc.enabled", FAIL, lambda machine: machine.set_gpu(1, "ecc_mode", [0, 0])),
    Case("a change waits for a reset", "ecc.enabled", WARN, lambda machine: machine.set_gpu(1, "ecc_mode", [1, 0])),
    Case(
        "a platform with ECC whose GPU does not tell",
        "ecc.enabled",
        ERROR,
        lambda machine: machine.set_gpu(1, "ecc_mode", UNSUPPORTED),
    ),
    Case(
        "a gaming card, of which nothing says that it should have ECC",
        "ecc.enabled",
        SKIP,
        without_ecc,
        limits={"gpu.ecc": None, "gpu.reports": None},
    ),
    Case(
        "a gaming card with ECC off, of which nothing says that it should be on",
        "ecc.enabled",
        PASS,
        lambda machine: every(machine, "ecc_mode", [0, 0]),
        limits={"gpu.ecc": None},
    ),
)

ERRORS = (
    Case("none", "ecc.volatile", PASS),
    Case("one", "ecc.volatile", FAIL, lambda machine: machine.set_gpu(4, "ecc.volatile_uncorrected", 1)),
    Case(
        "fewer than the 20,000,000 that another suite lets pass",
        "ecc.volatile",
        FAIL,
        lambda machine: machine.set_gpu(4, "ecc.volatile_uncorrected", 19_999_999),
    ),
    Case(
        "corrected errors are the work of ECC",
        "ecc.volatile",
        PASS,
        lambda machine: every(machine, "ecc.volatile_corrected", 4_000),
    ),
    Case(
        "ECC on and no counter",
        "ecc.volatile",
        ERROR,
        lambda machine: machine.set_gpu(4, "ecc.volatile_uncorrected", UNSUPPORTED),
    ),
    Case(
        "MIG on: the whole GPU has no counter",
        "ecc.volatile",
        SKIP,
        lambda machine: (
            every(machine, "mig_mode", [1, 1]),
            every(machine, "ecc.volatile_uncorrected", UNSUPPORTED),
        ),
    ),
    Case("a gaming card", "ecc.volatile", SKIP, without_ecc, limits={"gpu.reports": None}),
    Case("none ever", "ecc.lifetime", PASS),
    Case("some, long ago", "ecc.lifetime", WARN, lambda machine: machine.set_gpu(4, "ecc.aggregate_uncorrected", 3)),
    Case(
        "the counter could not be read",
        "ecc.lifetime",
        ERROR,
        lambda machine: machine.set_gpu(4, "ecc.aggregate_uncorrected", FAILED),
    ),
)

SRAM = (
    Case("flag down", "ecc.sram_threshold", PASS),
    Case("flag up", "ecc.sram_threshold", FAIL, lambda machine: machine.set_gpu(4, "sram_threshold_exceeded", True)),
    Case(
        "a driver without the flag",
        "ecc.sram_threshold",
        SKIP,
        lambda machine: every(machine, "sram_threshold_exceeded", {"why": "missing", "detail": "function not found"}),
        limits={"gpu.reports": None},
    ),
    Case(
        "the flag could not be read",
        "ecc.sram_threshold",
        ERROR,
        lambda machine: machine.set_gpu(4, "sram_threshold_exceeded", FAILED),
    ),
    Case(
        "as many as are allowed",
        "ecc.sram",
        PASS,
        lambda machine: machine.set_gpu(4, "ecc.aggregate_sram_uncorrected", 4),
    ),
    Case("one more", "ecc.sram", FAIL, lambda machine: machine.set_gpu(4, "ecc.aggregate_sram_uncorrected", 5)),
    Case(
        "a board before Turing does not count SRAM by itself",
        "ecc.sram",
        SKIP,
        lambda machine: every(machine, "ecc.aggregate_sram_uncorrected", UNSUPPORTED),
        limits={"gpu.reports": None},
    ),
    Case(
        "the SRAM counter could not be read",
        "ecc.sram",
        ERROR,
        lambda machine: machine.set_gpu(4, "ecc.aggregate_sram_uncorrected", FAILED),
    ),
)

ROWS = (
    Case("nothing waits", "ecc.remap_pending", PASS),
    Case(
        "a remap waits for a reset",
        "ecc.remap_pending",
        FAIL,
        lambda machine: machine.set_gpu(5, "remapped_rows", [0, 1, 1, 0]),
    ),
    Case(
        "a remap failed", "ecc.remap_pending", FAIL, lambda machine: machine.set_gpu(5, "remapped_rows", [0, 12, 0, 1])
    ),
    Case("a card without row remapping", "ecc.remap_pending", SKIP, without_ecc, limits={"gpu.reports": None}),
    Case(
        "it could not be read", "ecc.remap_pending", ERROR, lambda machine: machine.set_gpu(5, "remapped_rows", FAILED)
    ),
    Case("511 rows", "ecc.remapped_rows", PASS, lambda machine: machine.set_gpu(5, "remapped_rows", [0, 511, 0, 0])),
    Case("512 rows", "ecc.remapped_rows", FAIL, lambda machine: machine.set_gpu(5, "remapped_rows", [0, 512, 0, 0])),
    Case(
        "600 rows for uncorrectable errors, none for correctable ones",
        "ecc.remapped_rows",
        FAIL,
        lambda machine: machine.set_gpu(5, "remapped_rows", [0, 600, 0, 0]),
    ),
    Case(
        "600 rows for correctable errors are no fault",
        "ecc.remapped_rows",
        PASS,
        lambda machine: machine.set_gpu(5, "remapped_rows", [600, 0, 0, 0]),
    ),
    Case("no limit", "ecc.remapped_rows", NOT_JUDGED, limits={"gpu.remapped_rows_uncorrectable_max": None}),
    Case("a new board", "ecc.remapped_rows_new", PASS),
    Case(
        "a board with history",
        "ecc.remapped_rows_new",
        WARN,
        lambda machine: machine.set_gpu(5, "remapped_rows", [1, 2, 0, 0]),
    ),
    Case("spare rows everywhere", "ecc.spare_rows", PASS),
    Case(
        "banks with few left are no fault yet",
        "ecc.spare_rows",
        PASS,
        lambda machine: machine.set_gpu(5, "remap_histogram", [2550, 4, 4, 2, 0]),
    ),
    Case(
        "a bank with none left",
        "ecc.spare_rows",
        FAIL,
        lambda machine: machine.set_gpu(5, "remap_histogram", [2559, 0, 0, 0, 1]),
    ),
    Case(
        "the histogram is not whole",
        "ecc.spare_rows",
        ERROR,
        lambda machine: machine.set_gpu(5, "remap_histogram", [2559, 0]),
    ),
)

PAGES = (
    Case("Ampere and later have none", "ecc.retired_pages", SKIP),
    Case("none", "ecc.retired_pages", PASS, before_ampere),
    Case("one waits for a reset", "ecc.retired_pages", FAIL, lambda machine: before_ampere(machine, pending=True)),
    Case("61 of both kinds", "ecc.retired_pages", PASS, lambda machine: before_ampere(machine, single=56, double=5)),
    Case("63 of both kinds", "ecc.retired_pages", FAIL, lambda machine: before_ampere(machine, single=60, double=3)),
    Case("16 for double bit errors", "ecc.retired_pages", WARN, lambda machine: before_ampere(machine, double=16)),
    Case(
        "whether one waits is not told",
        "ecc.retired_pages",
        ERROR,
        lambda machine: before_ampere(machine, pending=FAILED),
    ),
)


@pytest.mark.parametrize("case", [*MODE, *ERRORS, *SRAM, *ROWS, *PAGES], ids=str)
def test_case(case: Case) -> None:
    assert_case(case)
