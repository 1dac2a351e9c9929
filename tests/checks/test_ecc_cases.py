"""What the checks of device memory say, word for word: 600 remapped rows never pass, MIG and old boards may."""

from fleet.changes import changes
from support.cases import ERROR, FAIL, FAILED, NOT_JUDGED, PASS, SKIP, UNSUPPORTED, WARN, asserting, of, unread
from support.judging import UNNAMED, Case, both, every_gpu, gpu


def without_ecc(machine):
    """A gaming card: neither ECC nor row remapping."""
    for key in ("ecc_mode", "ecc", "sram_threshold_exceeded", "remapped_rows", "remap_histogram"):
        every_gpu(key, UNSUPPORTED)(machine)


@changes
def before_ampere(machine, *, single=0, double=0, pending=False):
    """Retired pages instead of remapped rows; the faulty one is GPU 2."""
    for key in ("remapped_rows", "remap_histogram", "sram_threshold_exceeded"):
        every_gpu(key, UNSUPPORTED)(machine)
    every_gpu("retired_pages", [0, 0])(machine)
    every_gpu("retired_pending", False)(machine)
    machine.set_gpu(2, "retired_pages", [single, double])
    machine.set_gpu(2, "retired_pending", pending)


ANY_ECC = {"gpu.ecc": None}
OFF = every_gpu("ecc_mode", [0, 0])
MILLIONS = gpu(4, "ecc.volatile_uncorrected", 19_999_999)
MIG = both(every_gpu("mig_mode", [1, 1]), every_gpu("ecc.volatile_uncorrected", UNSUPPORTED))
NO_FLAG = every_gpu("sram_threshold_exceeded", unread("missing", "function not found"))
NO_SRAM_COUNT = every_gpu("ecc.aggregate_sram_uncorrected", UNSUPPORTED)
CASES = of("ecc.enabled")(
    Case("off on one", FAIL, gpu(1, "ecc_mode", [0, 0])),
    Case("a change waits for a reset", WARN, gpu(1, "ecc_mode", [1, 0])),
    Case("a platform with ECC whose GPU does not tell", ERROR, gpu(1, "ecc_mode", UNSUPPORTED)),
    Case("a gaming card, of which nothing says that it should have ECC", SKIP, without_ecc, limits=ANY_ECC | UNNAMED),
    Case("a gaming card with ECC off, of which nothing says that it should be on", PASS, OFF, limits=ANY_ECC),
)

CASES += of("ecc.volatile")(
    Case("one", FAIL, gpu(4, "ecc.volatile_uncorrected", 1)),
    Case("fewer than the 20,000,000 that another suite lets pass", FAIL, MILLIONS),
    Case("corrected errors are the work of ECC", PASS, every_gpu("ecc.volatile_corrected", 4_000)),
    Case("ECC on and no counter", ERROR, gpu(4, "ecc.volatile_uncorrected", UNSUPPORTED)),
    Case("MIG on: the whole GPU has no counter", SKIP, MIG),
    Case("a gaming card", SKIP, without_ecc, limits=UNNAMED),
)
CASES += of("ecc.lifetime")(
    Case("some, long ago", WARN, gpu(4, "ecc.aggregate_uncorrected", 3)),
    Case("very many corrected", WARN, gpu(4, "ecc.aggregate_corrected", 10_000_000)),
    Case("the corrected ones could not be read", ERROR, gpu(4, "ecc.aggregate_corrected", FAILED)),
    Case("the counter could not be read", ERROR, gpu(4, "ecc.aggregate_uncorrected", FAILED)),
)

CASES += of("ecc.sram_threshold")(
    Case("flag up", FAIL, gpu(4, "sram_threshold_exceeded", True)),
    Case("a driver without the flag", SKIP, NO_FLAG, limits=UNNAMED),
    Case("the flag could not be read", ERROR, gpu(4, "sram_threshold_exceeded", FAILED)),
)
CASES += of("ecc.sram")(
    Case("as many as are allowed", PASS, gpu(4, "ecc.aggregate_sram_uncorrected", 4)),
    Case("one more", FAIL, gpu(4, "ecc.aggregate_sram_uncorrected", 5)),
    Case("a board before Turing does not count SRAM by itself", SKIP, NO_SRAM_COUNT, limits=UNNAMED),
    Case("the SRAM counter could not be read", ERROR, gpu(4, "ecc.aggregate_sram_uncorrected", FAILED)),
)

CASES += of("ecc.remap_pending")(
    Case("a remap waits for a reset", FAIL, gpu(5, "remapped_rows", [0, 1, 1, 0])),
    Case("a remap failed", FAIL, gpu(5, "remapped_rows", [0, 12, 0, 1])),
    Case("a card without row remapping", SKIP, without_ecc, limits=UNNAMED),
    Case("it could not be read", ERROR, gpu(5, "remapped_rows", FAILED)),
)
CASES += of("ecc.remapped_rows")(
    Case("511 rows", PASS, gpu(5, "remapped_rows", [0, 511, 0, 0])),
    Case("512 rows", FAIL, gpu(5, "remapped_rows", [0, 512, 0, 0])),
    Case("600 rows for uncorrectable errors, none for correctable ones", FAIL, gpu(5, "remapped_rows", [0, 600, 0, 0])),
    Case("600 rows for correctable errors are no fault", PASS, gpu(5, "remapped_rows", [600, 0, 0, 0])),
    Case("no limit", NOT_JUDGED, limits={"gpu.remapped_rows_uncorrectable_max": None}),
)
CASES += of("ecc.remapped_rows_new")(Case("a board with history", WARN, gpu(5, "remapped_rows", [1, 2, 0, 0])))
CASES += of("ecc.spare_rows")(
    Case("banks with few left are no fault yet", PASS, gpu(5, "remap_histogram", [2550, 4, 4, 2, 0])),
    Case("a bank with none left", FAIL, gpu(5, "remap_histogram", [2559, 0, 0, 0, 1])),
    Case("the histogram is not whole", ERROR, gpu(5, "remap_histogram", [2559, 0])),
)

CASES += of("ecc.retired_pages")(
    Case("none", PASS, before_ampere()),
    Case("one waits for a reset", FAIL, before_ampere(pending=True)),
    Case("61 of both kinds", PASS, before_ampere(single=56, double=5)),
    Case("63 of both kinds", FAIL, before_ampere(single=60, double=3)),
    Case("16 for double bit errors", WARN, before_ampere(double=16)),
    Case("whether one waits is not told", ERROR, before_ampere(pending=FAILED)),
)


test_case = asserting(CASES)
