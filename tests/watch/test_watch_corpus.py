"""Real logs, by what is known of them: the usual time of an iteration, and no false alarm."""

import pytest
from support import training_logs
from support.corpus import corpus

from nodegate.watch.lines import LineSplitter

USUAL_MS = {  # what the iterations of the log take, by its own account
    "aws_megatron_first3.txt": (3, 243_438.3),
    "aws_megatron_slurm.txt": (3, 87.0),
    "cloudai_megatron_core_2026.txt": (3, 15_639.0),
    "superbench_megatron_ds.txt": (5, 75_249.6),
    "meg_ds_lm_dash_loss.txt": (32, 137_500),
    "meg_gpt2_n8.txt": (20, 1_617.5),
    "tr1_iterations_normal.txt": (9, 22_200),
}
NO_ITERATION = [
    "bloom_gpu_crash_unknown_error.txt",
    "hf_ds_killing_subprocess.txt",
    "mlperf_maskrcnn_dgxa100_nccl.log",
    "nccl_info_noise_a100_n4.txt",
    "nvrx_watchdog_variants.txt",
    "tr1_bus_error_shm.txt",
]


def watched(name):
    splitter = LineSplitter()
    return training_logs.watched([*splitter.feed(corpus(f"trainlog/{name}").encode()), *splitter.end()])


def answer(name):
    return watched(name).answer()


@pytest.mark.parametrize("name", USUAL_MS)
def test_healthy_logs(name):
    said = answer(name)
    points, usual_ms = USUAL_MS[name]
    assert (said.points, said.slow, said.silent) == (points, (), ())
    assert said.usual_s == pytest.approx(usual_ms / 1000, rel=0.01)


def test_elapsed_in_seconds_is_not_taken_for_milliseconds():
    points = watched("bloom_elapsed_in_seconds.txt").curve.buckets
    assert [round(point.mean) for point in points] == [770, 845, 430, 777, 854, 434]


@pytest.mark.parametrize("name", ["bloom_batch_rampup_ms.txt", "bloom_tr8b_rampup.txt"])
def test_a_batch_ramp_is_not_a_slow_node(name):
    said = answer(name)
    assert said.points >= 18
    assert said.slow == ()
    assert any("settings, each judged separately" in note for note in said.notes)


def test_the_lines_of_pdsh_hosts_and_deepspeed_s_timer_do_not_mix():
    said = answer("superbench_megatron_ds.txt")
    assert (said.source, said.first, said.last, said.finished, said.restarts) == ("megatron", 1, 5, True, ())


def test_a_cancelled_job_is_said_to_have_ended_so():
    assert answer("meg_gpt2_n8.txt").died


@pytest.mark.parametrize("name", NO_ITERATION)
def test_a_log_without_iterations_is_not_called_healthy(name):
    said = answer(name)
    assert said.points == (name == "nvrx_watchdog_variants.txt")  # two lines of it are iterations, of several runs
    assert said.exit != 0
