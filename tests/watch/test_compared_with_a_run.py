"""A job that is slow from its first iteration: found against an earlier run, or against a time that was given."""

import json

import pytest
from support.training_logs import answer, deepspeed_timer, megatron, slashed, times, torchtitan, tqdm, watched

from nodegate.cli import main
from nodegate.errors import UsageError
from nodegate.watch.answer import State
from nodegate.watch.command import watch
from nodegate.watch.options import Asked
from nodegate.watch.pace import Given


def earlier(text):
    return watched(text).pace.setting("earlier.log")


def test_twice_the_time_of_the_earlier_run_is_slow_from_the_first_line():
    said = answer(megatron(times(200, 6.2)), earlier(megatron(times(200, 3.1))))
    assert said.state is State.SLOW
    (slow,) = said.slow
    assert (slow.since, slow.against, said.compared_with) == (21, "earlier.log", "earlier.log")
    assert slow.excess == pytest.approx(1.0, abs=0.03)
    assert " % over the usual time of earlier.log" in slow.line


def test_without_it_the_same_log_is_healthy_and_says_what_it_was_compared_with():
    said = answer(megatron(times(200, 6.2)))
    assert (said.state, said.compared_with) == (State.HEALTHY, "itself")
    assert said.reason == "no slow time and no silence, compared with its own pace"
    assert any("slow from its first iteration looks like this too" in note for note in said.notes)


def test_a_run_like_the_earlier_one_is_healthy():
    said = answer(megatron(times(1500, 3.15, seed=2)), earlier(megatron(times(400, 3.1))))
    assert (said.state, said.slow) == (State.HEALTHY, ())
    assert "with the usual time of earlier.log" in said.reason


def test_a_job_that_is_faster_than_given_is_judged_by_its_own_pace():
    pace = times(600, 3.0)
    said = answer(megatron([*pace[:300], *(2 * value for value in pace[300:])]), Given("--usual 9s", 9.0))
    (slow,) = said.slow
    assert (slow.since, slow.against) == (301, "")


def test_another_batch_size_cannot_be_compared_and_is_not_called_healthy():
    said = answer(megatron(times(200, 6.2), batch=512), earlier(megatron(times(200, 3.1))))
    assert (said.state, said.exit) == (State.NOT_JUDGED, 2)
    assert "another global batch size: 1024 in earlier.log, 512 here" in said.reason


def test_an_iteration_is_not_compared_with_a_sample():
    said = answer(deepspeed_timer(times(200)), Given("--usual 2s", 2.0))
    assert said.state is State.NOT_JUDGED
    assert "the time of one iteration, this log has that of one sample" in said.reason


def test_the_options_of_the_command(tmp_path, capsys):
    slow, usual, short = (tmp_path / name for name in ("slow.log", "usual.log", "short.log"))
    slow.write_text(tqdm(times(200, 6.2), total=500))
    usual.write_text(tqdm(times(200, 3.1), total=500))
    short.write_text(tqdm(times(12, 3.1), total=500))
    assert watch(Asked(slow, once=True, like=usual, json=True)) == 1
    assert json.loads(capsys.readouterr().out)["compared_with"] == str(usual)
    assert watch(Asked(slow, once=True, usual_s=3.1)) == 1
    assert watch(Asked(slow, once=True)) == 0
    for asked in (Asked(slow, once=True, like=short), Asked(slow, once=True, like=usual, usual_s=3.1)):
        with pytest.raises(UsageError):
            watch(asked)


def test_half_the_usual_mfu_is_slow_from_the_first_line():
    """16,384 tokens in 3.1 s are an MFU of 27.8 % in this log."""
    said = answer(torchtitan(times(200, 6.2)), Given("an MFU of 27.8 %", 0.0, mfu=27.8))
    (slow,) = said.slow
    assert slow.excess == pytest.approx(1.0, abs=0.05)
    assert "over the usual time of an MFU of 27.8 %" in slow.line
    assert answer(torchtitan(times(1500, 3.1)), Given("an MFU of 27.8 %", 0.0, mfu=27.8)).state is State.HEALTHY


def test_tflops_of_a_gpu_are_compared_by_the_peak_of_its_platform():
    """512.3 TFLOP/s of 989 are 51.8 %."""
    for mfu, state in ((51.0, State.HEALTHY), (62.0, State.SLOW)):
        said = answer(slashed(times(600)), Given("an MFU", 0.0, mfu=mfu, peak_tflops=989.0))
        assert said.state is state


def test_a_log_without_mfu_is_not_called_healthy_against_one():
    said = answer(tqdm(times(200, 6.2), total=500), Given("an MFU of 40 %", 0.0, mfu=40.0))
    assert (said.state, said.exit) == (State.NOT_JUDGED, 2)
    assert "names neither an MFU nor TFLOP/s" in said.reason
    assert "give --platform" in answer(slashed(times(600)), Given("an MFU of 40 %", 0.0, mfu=40.0)).reason


def test_the_options_of_an_mfu(tmp_path, capsys):
    log = tmp_path / "job.log"
    log.write_text(slashed(times(600)))
    command = ["watch", str(log), "--once", "--mfu"]
    assert main([*command, "62%", "--platform", "hgx-h100-8"]) == 1
    assert "over the usual time of an MFU of 62 % of hgx-h100-8" in capsys.readouterr().out
    assert main([*command, "51", "--platform", "hgx-h100-8"]) == 0
    assert main([*command, "51", "--platform", "hgx-h100-9"]) == 2
    assert "did you mean" in capsys.readouterr().err
    for asked in (Asked(log, once=True, platform="hgx-h100-8"), Asked(log, once=True, mfu=40.0, usual_s=3.1)):
        with pytest.raises(UsageError):
            watch(asked)
    with pytest.raises(SystemExit):
        main([*command, "400"])
