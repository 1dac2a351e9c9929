"""gpu_burn: every trap of its output. Its exit code is not read at all, for it is always 0."""

import pytest
from support.corpus import corpus
from support.recordings import FOLDER

from nodegate.errors import CannotMeasure
from nodegate.tools import gpu_burn
from nodegate.unknown import Unknown


def recording(name):
    """With its carriage returns as they came."""
    return (FOLDER / "gpu_burn" / name).read_bytes().decode()


def test_a_report_that_cannot_be_read_is_quoted():
    with pytest.raises(CannotMeasure, match=r"proc'd: many \(5 Gflop/s\)"):
        gpu_burn.parse("10.0%  proc'd: many (5 Gflop/s)   errors: 0   temps: 41 C")


@pytest.mark.parametrize("name", ["healthy.txt", "faulty.txt", "no-report.txt", "loop.txt"])
def test_condensing_a_short_run_changes_nothing_that_is_read(name):
    assert gpu_burn.parse(gpu_burn.condensed(recording(name))) == gpu_burn.parse(recording(name))


def test_a_long_run_keeps_its_rates_and_errors_in_little_space():
    reports = "".join(
        f"\r{number / 40:.1f}%  proc'd: {number * 280} ({500_000 + number % 7} Gflop/s) "
        f"  errors: {number // 3000}   temps: 61 C "
        for number in range(1, 4001)
    )
    whole = reports + "\ndone\n\nTested 1 GPUs:\n\tGPU 0: FAULTY\n"
    fewer = gpu_burn.condensed(whole)
    assert len(fewer) < 20_000 < len(whole)
    (gpu,), (all_of_it,) = gpu_burn.parse(fewer).gpus, gpu_burn.parse(whole).gpus
    assert (gpu.processed, gpu.errors, gpu.verdict) == (4000 * 280, 1, "FAULTY")
    assert gpu.rate_gflops == pytest.approx(all_of_it.rate_gflops, rel=1e-4)


def test_eight_real_a100_of_which_seven_report_late():
    run = gpu_burn.parse(corpus("gpuburn/superbench_gpu_burn_8xA100.txt"))
    assert [gpu.verdict for gpu in run.gpus] == ["OK"] * 8
    assert [gpu.errors for gpu in run.gpus] == [0] * 8
    assert all(gpu.processed > 0 and not gpu.died for gpu in run.gpus)
    assert (run.tensor_cores, run.listed) == (True, 8)
    assert run.gpus[0].gflops[0] == 7150
    assert all(16_800 < gpu.rate_gflops < 17_300 for gpu in run.gpus)


def test_a_paste_without_reports_gives_no_rate():
    run = gpu_burn.parse(corpus("gpuburn/amd_gpu_burn_readme.txt"))
    assert [gpu.verdict for gpu in run.gpus] == ["OK", "OK"]
    assert all(gpu.processed == 0 and isinstance(gpu.rate_gflops, Unknown) for gpu in run.gpus)
