"""gpu_burn: every trap of its output. Its exit code is not read at all, for it is always 0."""

import pytest
from support.corpus import corpus
from support.recordings import FOLDER

from nodegate.errors import CannotMeasure
from nodegate.tools import gpu_burn
from nodegate.unknown import Unknown


def recording(name: str) -> str:
    """With its carriage returns as they came."""
    return (FOLDER / "gpu_burn" / name).read_bytes().decode()


def test_a_healthy_run_gives_the_rate_of_each_gpu_without_its_first_report():
    run = gpu_burn.parse(recording("healthy.txt"))
    assert [gpu.gflops for gpu in run.gpus] == [(31214, 51102, 51288, 51040), (30987, 50871, 50702, 50816)]
    assert [gpu.rate_gflops for gpu in run.gpus] == [51102, 50816]
    assert [(gpu.processed, gpu.errors, gpu.died, gpu.verdict) for gpu in run.gpus] == [(1120, 0, False, "OK")] * 2
    assert (run.gpus[1].name, run.tensor_cores, run.listed) == ("NVIDIA H100 80GB HBM3", False, 2)


def test_errors_are_summed_over_summaries_which_set_them_to_zero():
    healthy, wrong, dead = gpu_burn.parse(recording("faulty.txt")).gpus
    assert (healthy.errors, healthy.verdict) == (0, "OK")
    assert (wrong.errors, wrong.died, wrong.verdict) == (7, False, "FAULTY")
    assert (dead.errors, dead.died, dead.processed) == (0, True, 560)


def test_a_gpu_that_never_ran_is_listed_as_ok_and_has_no_rate():
    run = gpu_burn.parse(recording("no-report.txt"))
    assert [gpu.verdict for gpu in run.gpus] == ["OK", "OK"]
    assert [gpu.processed for gpu in run.gpus] == [0, 0]
    assert all(isinstance(gpu.rate_gflops, Unknown) for gpu in run.gpus)
    assert run.tensor_cores


def test_with_one_device_chosen_the_column_belongs_to_the_device_that_was_initialized():
    run = gpu_burn.parse(recording("one-device.txt"))
    (gpu,) = run.gpus
    assert (gpu.index, gpu.verdict, gpu.rate_gflops) == (3, "OK", 611673.0)
    assert (run.listed, run.tensor_cores) == (4, True)


def test_a_run_that_is_cut_off_keeps_its_whole_reports_and_has_no_verdict():
    run = gpu_burn.parse(recording("truncated.txt"))
    assert [gpu.gflops for gpu in run.gpus] == [(31214,), (30987,)]
    assert all(isinstance(gpu.verdict, Unknown) for gpu in run.gpus)


def test_no_gpu_at_all_is_told_with_the_reason():
    with pytest.raises(CannotMeasure, match="cuInit returned 802"):
        gpu_burn.parse("", recording("init-failed.txt"))
    with pytest.raises(CannotMeasure, match="gpu_burn printed nothing"):
        gpu_burn.parse(recording("empty.txt"))


def test_a_dead_process_that_is_read_for_ever_is_a_dead_gpu():
    (gpu,) = gpu_burn.parse(recording("loop.txt"), "read[0] error 0" * 5000).gpus
    assert (gpu.died, gpu.processed) == (True, 0)


def test_a_report_that_cannot_be_read_is_quoted():
    with pytest.raises(CannotMeasure, match=r"proc'd: many \(5 Gflop/s\)"):
        gpu_burn.parse("10.0%  proc'd: many (5 Gflop/s)   errors: 0   temps: 41 C")


@pytest.mark.parametrize(
    "hostile",
    [
        "9" * 100_000,
        "0.0%  proc'd: " + "1 (1 Gflop/s) - " * 20_000 + "errors: temps:",
        "\x1b[" * 50_000,
        "GPU 0: " * 9000,
    ],
)
def test_hostile_output_is_refused_in_bounded_time(hostile):
    with pytest.raises(CannotMeasure):
        gpu_burn.parse(hostile)


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
