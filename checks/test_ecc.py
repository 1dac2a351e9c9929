"""Device memory: errors that could not be corrected, rows replaced, spare rows left."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from nodegate.finding import Limit
from nodegate.subjects.gpu import YES_NO, answering, lacks, named, on_off
from nodegate.unknown import Known, Unknown, Why
from nodegate.verdict import Verdict

if TYPE_CHECKING:
    from nodegate import Verdicts
    from nodegate.baseline.baseline import Baseline
    from nodegate.probe.gpu import Gpu, Gpus

pytestmark = pytest.mark.tier("bootcheck")

_RESET = "drain the node and reset the GPU; if it comes back, run field diagnostics and replace the board"
_REPLACE = "replace the board (RMA), with a field diagnostics log"
_NONE_ALLOWED = Limit(0, "errors", "none on a healthy GPU")


def test_enabled(gpus: Gpus, baseline: Baseline, verdicts: Verdicts) -> None:
    """ECC is in the mode that the platform wants, and no change of it waits for a reset. (F03)

    Without ECC memory errors corrupt results silently. A pending change takes effect under some later job.
    """
    policy = baseline.find("gpu.ecc")
    for gpu in answering(gpus, verdicts):
        if policy is None and lacks(verdicts, gpu, "ECC mode", gpu.ecc_enabled):
            continue
        mode = on_off(gpu.ecc_enabled)
        remedy = "run nvidia-smi -e 1 (or 0), then reset the GPU while it is idle"
        if policy is not None:
            verdicts.equal(part=gpu.part, quantity="ECC", observed=mode, expected=policy, action=remedy)
        verdicts.equal(
            part=gpu.part,
            quantity="ECC after the next reset",
            observed=on_off(gpu.ecc_pending),
            expected=mode,
            source="the mode in force",
            action="reset the GPU while it is idle, or take the change back",
            otherwise=Verdict.WARN,
        )


def test_volatile(gpus: Gpus, verdicts: Verdicts) -> None:
    """No GPU has met an error that it could not correct since the driver was loaded. (F03)

    The job that met it died, and the page or row is bad until the GPU is reset. Any such error fails (Meta, imbue);
    Azure NHC would let 20,000,000 pass. Corrected errors are the normal work of ECC and are not judged.
    """
    for gpu in answering(gpus, verdicts):
        if not _has_no_ecc(gpu, gpu.ecc.volatile_uncorrected, verdicts):
            verdicts.at_most(
                part=gpu.part,
                quantity="uncorrectable since driver load",
                observed=gpu.ecc.volatile_uncorrected,
                limit=_NONE_ALLOWED,
                action=_RESET,
            )


@pytest.mark.tier("delivery")
def test_lifetime(gpus: Gpus, verdicts: Verdicts) -> None:
    """No GPU has met an error that it could not correct in its whole life. (F03)

    Asked at delivery: a board that is sold as new should have none. A warning, since a repaired row is not a fault.
    """
    for gpu in answering(gpus, verdicts):
        if not _has_no_ecc(gpu, gpu.ecc.aggregate_uncorrected, verdicts):
            verdicts.at_most(
                part=gpu.part,
                quantity="uncorrectable over the board's life",
                observed=gpu.ecc.aggregate_uncorrected,
                limit=_NONE_ALLOWED,
                action="ask the vendor whether the board is new; watch it during the first weeks",
                otherwise=Verdict.WARN,
            )


def test_sram_threshold(gpus: Gpus, verdicts: Verdicts) -> None:
    """No GPU says that its SRAM errors passed the threshold for replacement. (F03)

    The flag is the board's own word (`SRAM Threshold Exceeded`, driver 550 and later): NVIDIA asks for an RMA.
    """
    for gpu in answering(gpus, verdicts):
        if not lacks(verdicts, gpu, "SRAM threshold", gpu.sram_threshold_exceeded):
            verdicts.equal(
                part=gpu.part,
                quantity="SRAM threshold exceeded",
                observed=named(gpu.sram_threshold_exceeded, YES_NO),
                expected="no",
                action=_REPLACE,
            )


def test_sram(gpus: Gpus, baseline: Baseline, verdicts: Verdicts) -> None:
    """The SRAM errors that could not be corrected over a board's life stay within the limit. (F03)

    SRAM has no spare rows: errors that come again mean a dying chip. Operators disagree (Azure allows none, OCI 5);
    more than 4 is where field diagnostics are advised. Boards before Turing do not count SRAM by itself.
    """
    limit = baseline.number("gpu.sram_uncorrectable_max")
    for gpu in answering(gpus, verdicts):
        if not lacks(verdicts, gpu, "the SRAM counter", gpu.ecc.aggregate_sram_uncorrected):
            verdicts.at_most(
                part=gpu.part,
                quantity="uncorrectable in SRAM over the board's life",
                observed=gpu.ecc.aggregate_sram_uncorrected,
                limit=limit,
                action=_REPLACE,
            )


def test_remap_pending(gpus: Gpus, verdicts: Verdicts) -> None:
    """No row replacement waits for a reset, and none has failed. (F03)

    Until the reset the bad row is still in use and the next job may hit it. A failed one cannot be repaired: NVIDIA
    replaces such boards.
    """
    for gpu in answering(gpus, verdicts):
        remap = gpu.remap
        if lacks(verdicts, gpu, "row remapping", remap):
            continue
        failed = remap if isinstance(remap, Unknown) else YES_NO[remap.failed]
        pending = remap if isinstance(remap, Unknown) else YES_NO[remap.pending]
        whose = gpu.part
        verdicts.equal(part=whose, quantity="row remap failure", observed=failed, expected="no", action=_REPLACE)
        verdicts.equal(part=whose, quantity="pending row remap", observed=pending, expected="no", action=_RESET)


def test_remapped_rows(gpus: Gpus, baseline: Baseline, verdicts: Verdicts) -> None:
    """The rows that were replaced after uncorrectable errors stay within the limit. (F03)

    DCGM, Azure NHC and OCI act at 512 (Azure reads the wrong field and never does).
    """
    limit = baseline.number("gpu.remapped_rows_uncorrectable_max")
    for gpu in answering(gpus, verdicts):
        if not lacks(verdicts, gpu, "row remapping", gpu.remap):
            rows = gpu.remap if isinstance(gpu.remap, Unknown) else gpu.remap.uncorrectable
            verdicts.at_most(
                part=gpu.part,
                quantity="remapped for uncorrectable errors",
                observed=rows,
                limit=limit,
                action=_REPLACE,
            )


@pytest.mark.tier("delivery")
def test_remapped_rows_new(gpus: Gpus, verdicts: Verdicts) -> None:
    """No row of any GPU has been replaced yet. (F03)

    Asked at delivery: a used spare row is history on a board that is sold as new. A warning, for the row works.
    """
    for gpu in answering(gpus, verdicts):
        if not lacks(verdicts, gpu, "row remapping", gpu.remap):
            rows = gpu.remap if isinstance(gpu.remap, Unknown) else gpu.remap.uncorrectable + gpu.remap.correctable
            verdicts.at_most(
                part=gpu.part,
                quantity="remapped",
                observed=rows,
                limit=Limit(0, "rows", "none on a new board"),
                action="ask the vendor whether the board is new; watch it during the first weeks",
                otherwise=Verdict.WARN,
            )


def test_spare_rows(gpus: Gpus, verdicts: Verdicts) -> None:
    """Every memory bank of every GPU has a spare row left. (F03)

    A bank without one cannot be repaired: its next bad row stays bad, and the remap fails.
    """
    for gpu in answering(gpus, verdicts):
        if not lacks(verdicts, gpu, "spare rows", gpu.remap_banks):
            banks = gpu.remap_banks if isinstance(gpu.remap_banks, Unknown) else gpu.remap_banks.none
            verdicts.at_most(
                part=gpu.part,
                quantity="without a spare row",
                observed=banks,
                limit=Limit(0, "banks", "the board's own histogram"),
                action=_REPLACE,
            )


def test_retired_pages(gpus: Gpus, baseline: Baseline, verdicts: Verdicts) -> None:
    """No page retirement waits for a reset, and the retired pages stay within the limits. (F03)

    Before Ampere bad pages are retired instead of rows replaced; 64 are all there are. DCGM fails at 63, and asks for
    attention above 15 for double bit errors.
    """
    most, most_double = baseline.number("gpu.retired_pages_max"), baseline.number("gpu.retired_pages_double_bit_max")
    for gpu in answering(gpus, verdicts):
        single, double = gpu.retired_single_bit, gpu.retired_double_bit
        if lacks(verdicts, gpu, "page retirement", double):
            continue
        both: Known[int] = single if isinstance(single, Unknown) else _plus(single, double)
        whose, pending = gpu.part, named(gpu.retired_pending, YES_NO)
        verdicts.equal(part=whose, quantity="pending page retirement", observed=pending, expected="no", action=_RESET)
        verdicts.at_most(part=whose, quantity="retired", observed=both, limit=most, action=_REPLACE)
        verdicts.at_most(
            part=whose,
            quantity="retired for double bit errors",
            observed=double,
            limit=most_double,
            action="replace the board when it gains more than one a week",
            otherwise=Verdict.WARN,
        )


def _has_no_ecc(gpu: Gpu, counter: Known[int], verdicts: Verdicts) -> bool:
    """Whether there is nothing to count: ECC is off or unknown to this GPU, or MIG splits the counters."""
    off = gpu.ecc_enabled is False or (
        isinstance(gpu.ecc_enabled, Unknown) and gpu.ecc_enabled.why is Why.NOT_SUPPORTED
    )
    if not off and gpu.mig_enabled is not True:
        return False
    return lacks(verdicts, gpu, "the ECC counter", counter)


def _plus(one: int, other: Known[int]) -> Known[int]:
    return other if isinstance(other, Unknown) else one + other
