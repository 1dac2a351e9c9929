"""Device memory: errors that could not be corrected, rows replaced, spare rows left."""

import pytest

from nodegate.api import Baseline, Gpu, Gpus, Host, Known, Limit, Unknown, Verdict, Verdicts, Why, absence
from nodegate.subjects.gpu import answering, corrected_allowed, on_off

pytestmark = pytest.mark.tier("bootcheck")

_RESET = "drain the node and reset the GPU; if it comes back, run field diagnostics and replace the board"
_REPLACE = "replace the board (RMA), with a field diagnostics log"
_ASK = "ask the vendor whether the board is new; watch it during the first weeks"
_NONE_ALLOWED = Limit(0, "errors", "none on a healthy GPU")


def test_enabled(gpus: Gpus, baseline: Baseline, verdicts: Verdicts) -> None:
    """ECC is in the mode that the platform wants, and no change of it waits for a reset. (F03)

    Without ECC memory errors corrupt results silently. A pending change takes effect under some later job.
    """
    policy = baseline.find("gpu.ecc")
    action = "run nvidia-smi -e 1 (or 0), then reset the GPU while it is idle"
    for gpu in answering(gpus, verdicts):
        mode = on_off(gpu.ecc_enabled)
        if policy is not None:
            verdicts.equal(
                part=gpu.part, quantity="ECC mode", observed=mode, expected=policy, action=action, code="mode"
            )
        verdicts.equal(
            part=gpu.part,
            quantity="pending ECC mode",
            observed=on_off(gpu.ecc_pending),
            expected=mode,
            source="the mode in force",
            action="reset the GPU while it is idle, or revert the change",
            otherwise=Verdict.WARN,
            absent=absence("ecc_pending", gpu, gpus, baseline) if policy is None else Verdict.ERROR,
            code="pending",
        )


def test_volatile(gpus: Gpus, baseline: Baseline, verdicts: Verdicts) -> None:
    """No GPU has met an error that it could not correct since the driver was loaded. (F03)

    The job that met it died, and the page or row is bad until the GPU is reset. Any such error fails (Meta, imbue);
    Azure NHC would let 20,000,000 pass. Corrected errors are the normal work of ECC: ecc.corrected judges their rate.
    """
    for gpu in answering(gpus, verdicts):
        verdicts.at_most(
            part=gpu.part,
            quantity="uncorrectable errors since driver load",
            observed=gpu.ecc.volatile_uncorrected,
            limit=_NONE_ALLOWED,
            action=_RESET,
            absent=_without_counters("ecc_errors", gpu, gpus, baseline),
        )


def test_corrected(gpus: Gpus, host: Host, baseline: Baseline, verdicts: Verdicts) -> None:
    """No GPU has corrected more memory errors than the limit per hour, since the driver was loaded. (F03)

    A few are the normal work of ECC; thousands an hour are a row, or a GPU, that will soon meet one that it cannot
    correct. The driver was loaded at boot or later, and a day at least is counted. Source: the limit's own.
    """
    per_hour = baseline.number("counters.ecc_corrected_per_h")
    for gpu in answering(gpus, verdicts):
        verdicts.at_most(
            part=gpu.part,
            quantity="corrected memory errors since the driver was loaded",
            observed=gpu.ecc.volatile_corrected,
            limit=corrected_allowed(per_hour, host.uptime_s),
            action="watch it under load (counters.ecc); replace the board if errors continue",
            otherwise=Verdict.WARN,
            absent=absence("ecc_errors_corrected", gpu, gpus, baseline),
        )


@pytest.mark.tier("delivery")
def test_lifetime(gpus: Gpus, baseline: Baseline, verdicts: Verdicts) -> None:
    """No GPU has met an error that it could not correct in its whole life, nor many that it could. (F03)

    Asked at delivery: a board that is sold as new should have none. A warning, since a repaired row is not a fault.
    """
    many = baseline.number("gpu.ecc_corrected_life_max")
    for gpu in answering(gpus, verdicts):
        for what, observed, limit in (
            ("uncorrectable", gpu.ecc.aggregate_uncorrected, _NONE_ALLOWED),
            ("corrected", gpu.ecc.aggregate_corrected, many),
        ):
            verdicts.at_most(
                part=gpu.part,
                quantity=f"{what} errors over the board's life",
                observed=observed,
                limit=limit,
                action=_ASK,
                otherwise=Verdict.WARN,
                absent=_without_counters("ecc_errors_lifetime", gpu, gpus, baseline),
            )


def test_sram_threshold(gpus: Gpus, baseline: Baseline, verdicts: Verdicts) -> None:
    """No GPU reports that its SRAM errors passed the threshold for replacement. (F03)

    The flag is the board's own word (`SRAM Threshold Exceeded`, driver 550 and later): NVIDIA asks for an RMA.
    """
    for gpu in answering(gpus, verdicts):
        verdicts.holds(
            part=gpu.part,
            quantity="its SRAM error threshold",
            observed=gpu.sram_threshold_exceeded,
            expected=False,
            good="SRAM error threshold not exceeded",
            bad="SRAM error threshold exceeded",
            action=_REPLACE,
            absent=absence("sram_threshold", gpu, gpus, baseline),
        )


def test_sram(gpus: Gpus, baseline: Baseline, verdicts: Verdicts) -> None:
    """The SRAM errors that could not be corrected over a board's life stay within the limit. (F03)

    SRAM has no spare rows: errors that come again mean a dying chip. Operators disagree (Azure allows none, OCI 5);
    more than 4 is where field diagnostics are advised. Boards before Turing do not count SRAM by itself.
    """
    limit = baseline.number("gpu.sram_uncorrectable_max")
    for gpu in answering(gpus, verdicts):
        verdicts.at_most(
            part=gpu.part,
            quantity="uncorrectable SRAM errors over the board's life",
            observed=gpu.ecc.aggregate_sram_uncorrected,
            limit=limit,
            action=_REPLACE,
            absent=absence("ecc_errors_sram", gpu, gpus, baseline),
        )


def test_remap_pending(gpus: Gpus, baseline: Baseline, verdicts: Verdicts) -> None:
    """No row replacement waits for a reset, and none has failed. (F03)

    Until the reset the bad row is still in use and the next job may hit it. A failed one cannot be repaired: NVIDIA
    replaces such boards.
    """
    for gpu in answering(gpus, verdicts):
        remap = gpu.remap
        if isinstance(remap, Unknown):
            verdicts.unknown(
                part=gpu.part,
                quantity="row remapping",
                reason=remap,
                absent=absence("remapped_rows", gpu, gpus, baseline),
            )
            continue
        verdicts.holds(
            part=gpu.part,
            quantity="row remap failure",
            observed=remap.failed,
            expected=False,
            good="no row remap has failed",
            bad="a row remap has failed",
            action=_REPLACE,
            code="remap failed",
        )
        verdicts.holds(
            part=gpu.part,
            quantity="pending row remap",
            observed=remap.pending,
            expected=False,
            good="no row remap is pending",
            bad="a row remap is pending",
            action=_RESET,
            code="remap pending",
        )


def test_remapped_rows(gpus: Gpus, baseline: Baseline, verdicts: Verdicts) -> None:
    """The rows that were replaced after uncorrectable errors stay within the limit. (F03)

    DCGM, Azure NHC and OCI act at 512 (Azure reads the wrong field and never does).
    """
    limit = baseline.number("gpu.remapped_rows_uncorrectable_max")
    for gpu in answering(gpus, verdicts):
        verdicts.at_most(
            part=gpu.part,
            quantity="rows remapped for uncorrectable errors",
            observed=gpu.remap if isinstance(gpu.remap, Unknown) else gpu.remap.uncorrectable,
            limit=limit,
            action=_REPLACE,
            absent=absence("remapped_rows", gpu, gpus, baseline),
        )


@pytest.mark.tier("delivery")
def test_remapped_rows_new(gpus: Gpus, baseline: Baseline, verdicts: Verdicts) -> None:
    """No row of any GPU has been replaced yet. (F03)

    Asked at delivery: a used spare row is history on a board that is sold as new. A warning, for the row works.
    """
    for gpu in answering(gpus, verdicts):
        remap = gpu.remap
        verdicts.at_most(
            part=gpu.part,
            quantity="remapped rows",
            observed=remap if isinstance(remap, Unknown) else remap.uncorrectable + remap.correctable,
            limit=Limit(0, "rows", "none on a new board"),
            action=_ASK,
            otherwise=Verdict.WARN,
            absent=absence("remapped_rows", gpu, gpus, baseline),
        )


def test_spare_rows(gpus: Gpus, baseline: Baseline, verdicts: Verdicts) -> None:
    """Every memory bank of every GPU has a spare row left. (F03)

    A bank without one cannot be repaired: its next bad row stays bad, and the remap fails.
    """
    for gpu in answering(gpus, verdicts):
        verdicts.at_most(
            part=gpu.part,
            quantity="memory banks without a spare row",
            observed=gpu.spent_banks,
            limit=Limit(0, "banks", "the board's own histogram"),
            action=_REPLACE,
            absent=absence("spare_rows", gpu, gpus, baseline),
        )


def test_retired_pages(gpus: Gpus, baseline: Baseline, verdicts: Verdicts) -> None:
    """No page retirement waits for a reset, and the retired pages stay within the limits. (F03)

    Before Ampere bad pages are retired instead of rows replaced; 64 are all there are. DCGM fails at 63, and asks for
    attention above 15 for double bit errors.
    """
    most, most_double = baseline.number("gpu.retired_pages_max"), baseline.number("gpu.retired_pages_double_bit_max")
    for gpu in answering(gpus, verdicts):
        single, double = gpu.retired_single_bit, gpu.retired_double_bit
        if isinstance(double, Unknown) and double.is_absent:
            otherwise = absence("retired_pages", gpu, gpus, baseline)
            verdicts.unknown(part=gpu.part, quantity="page retirement", reason=double, absent=otherwise)
            continue
        verdicts.holds(
            part=gpu.part,
            quantity="pending page retirement",
            observed=gpu.retired_pending,
            expected=False,
            good="no page retirement is pending",
            bad="a page retirement is pending",
            action=_RESET,
            code="pending",
        )
        both: Known[int] = single if isinstance(single, Unknown) else _plus(single, double)
        verdicts.at_most(
            part=gpu.part, quantity="retired pages", observed=both, limit=most, action=_REPLACE, code="pages"
        )
        verdicts.at_most(
            part=gpu.part,
            quantity="pages retired for double bit errors",
            observed=double,
            limit=most_double,
            action="replace the board if it gains more than one a week",
            otherwise=Verdict.WARN,
            code="double bit",
        )


def _without_counters(reading: str, gpu: Gpu, gpus: Gpus, baseline: Baseline) -> Verdict:
    """What a GPU that reports no ECC counter means: nothing where ECC is off or MIG splits the counters."""
    mode = gpu.ecc_enabled
    if mode is False or gpu.mig_enabled is True:
        return Verdict.SKIP
    has_none = isinstance(mode, Unknown) and mode.why is Why.NOT_SUPPORTED
    return absence(reading, gpu, gpus, baseline) if has_none else Verdict.ERROR


def _plus(one: int, other: Known[int]) -> Known[int]:
    return other if isinstance(other, Unknown) else one + other
