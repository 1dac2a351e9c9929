"""What must not be taken for slowness or silence, and what must: one job after another, as logs."""

import random
from datetime import timedelta

import pytest
from support.training_logs import (
    START,
    answer,
    deepspeed_timer,
    lines,
    llamafactory,
    megatron,
    nemo,
    slowed,
    times,
    tqdm,
)

from nodegate.watch.answer import State
from nodegate.watch.rule import Rule
from nodegate.watch.watcher import Watcher


def test_the_sentence_asks_the_nodes_and_condemns_none():
    (slow,) = answer(megatron(slowed([2.0] * 400, 200, 1.25))).slow
    assert slow.line == (
        "Smoothed mean (iters 201-285: 2500.00 ms, baseline: 2000.00 ms), threshold ratio:0.25"
        " - slow since iteration 201 (2026-03-02 08:06:42): 25 % over its own usual time;"
        " a log cannot identify the node; to find it run:"
        " pytest --inventory hosts.yaml --nodes NODES-OF-THE-JOB --profile troubleshoot"
    )


def spikes(count, factor, slow, usual_s=2.0, noise=0.01):
    return [value * (factor if at in slow else 1) for at, value in enumerate(times(count, usual_s, noise), 1)]


SAVES = "  successfully saved checkpoint from iteration {} to /ckpt\n"
CHECKPOINTS = [value + (90.0 if number % 50 == 0 else 0) for number, value in enumerate(times(1000, usual_s=60.0), 1)]
BEHIND = "".join(megatron([9.0, *[2.0] * 9], first=at + 1) + SAVES.format(at + 10) for at in range(0, 600, 10))
PAUSES = dict.fromkeys(range(200, 2000, 200), 75) | dict.fromkeys(range(210, 2000, 200), 130)
NEIGHBOURS = [value + PAUSES.get(number, 0) for number, value in enumerate(times(2000, usual_s=3.0))]
RAMP = "".join(
    megatron(times(200, usual_s=0.02 * batch, seed=batch), first=1 + 200 * step, batch=batch)
    for step, batch in enumerate((96, 112, 128, 256, 512))
)
TWO_CLOCKS = "".join(
    megatron([2.0], first=number, start=START + timedelta(seconds=2 * number))
    + f"gpu07: [{START + timedelta(hours=8, seconds=2 * number)}] heartbeat\n"
    for number in range(1, 200)
)
FEW_TIMES = "".join(
    f"[{START + timedelta(hours=hour)},000] [WARNING] loss scale\n"
    + megatron([30.0] * 120, first=1 + 120 * hour, start=None)
    for hour in range(5)
)
HEALTHY = {
    "the first iterations do not count": (megatron([60.0, 20.0, *[4.0] * 18, *times(300)]), ""),
    "a batch ramp": (RAMP, "ranks changed: 5 settings, each judged separately"),
    "checkpoints inside the measured time": (llamafactory(CHECKPOINTS, 1), ""),
    "checkpoints between two lines": (llamafactory(CHECKPOINTS, 10), ""),
    "a checkpoint and an evaluation in neighbouring lines, untold": (llamafactory(NEIGHBOURS, 10), ""),
    "steps behind checkpoints": (BEHIND, "every 10 iterations"),
    "two machines, one in UTC and one not": (TWO_CLOCKS, ""),
    "old lines without a time, and a warning every hour with one": (FEW_TIMES, ""),
    "long iterations, silent between them": (megatron(times(60, usual_s=840)), ""),
}


@pytest.mark.parametrize(("text", "note"), HEALTHY.values(), ids=HEALTHY)
def test_what_is_neither_slow_nor_silent(text, note):
    said = answer(text)
    assert (said.state, said.slow, said.silent) == (State.HEALTHY, (), ())
    assert any(note in each for each in said.notes)


AFTER_A_RAMP = megatron(times(200), batch=96) + megatron(slowed(times(400, usual_s=4), 200, 1.3), first=201, batch=192)
SAVES_AT_EACH = "".join(megatron([2 + 2 * (at > 150)], first=at) + SAVES.format(at) for at in range(1, 301))
SLOW = {
    "ten percent at four percent noise": (megatron(slowed(times(1100, noise=0.04), 500, 1.1)), 500, 0.1),
    "after a batch ramp": (AFTER_A_RAMP, 401, 0.3),
    "every second step four times slower": (megatron(spikes(600, 4, range(302, 600, 2), usual_s=3.0)), 301, 1.5),
    "a checkpoint at every line": (SAVES_AT_EACH, 151, 1.0),
    "few long iterations": (megatron(slowed(times(60, usual_s=30.0), 45, 3.0)), 46, 2.0),
}


@pytest.mark.parametrize(("text", "since", "excess"), SLOW.values(), ids=SLOW)
def test_what_is_slow(text, since, excess):
    said = answer(text)
    (slow,) = said.slow
    assert said.state is State.SLOW
    assert (slow.since, slow.excess) == (pytest.approx(since, abs=30), pytest.approx(excess, rel=0.3))


COLLECTS_ONE_AT_A_TIME = {at + 200 * lap for at in (3, 17, 41, 58, 90, 121, 140, 163) for lap in range(20)}
BETWEEN = spikes(3000, 4, range(41, 3000, 150), noise=0.03)
BETWEEN[1400:2000] = [1.4 * value for value in BETWEEN[1400:2000]]
BY_CHANCE = [set(random.Random(seed).sample(range(3000), 30)) for seed in range(5)]  # noqa: S311


@pytest.mark.parametrize(
    ("pace", "period", "slow"),
    [
        (spikes(4000, 3, COLLECTS_ONE_AT_A_TIME), 200, 0),
        (spikes(450, 3, {100, 200, 300, 400}), 100, 0),
        (BETWEEN, 150, 1),
        *((spikes(3000, 3, slow), 0, 0) for slow in BY_CHANCE),
    ],
    ids=["ranks that collect garbage one at a time", "four pauses", "a slow time in between", *["by chance"] * 5],
)
def test_the_period_is(pace, period, slow):
    said = answer(megatron(pace))
    assert (said.period.iterations if said.period else 0, len(said.slow)) == (period, slow)


def test_periodic_slow_steps_are_named_with_their_period():
    said = answer(megatron(spikes(2000, 4, range(37, 2000, 100))))
    assert said.state is State.HEALTHY
    assert said.period is not None
    assert (said.period.times, said.period.part) == (pytest.approx(4, rel=0.1), pytest.approx(0.03, abs=0.01))
    assert any("every 100 iterations" in note and "garbage collection" in note for note in said.notes)


def test_fewer_ranks_after_a_restart_are_another_setting():
    start = "  world_size ...................................... {}\n> initializing torch distributed ...\n"
    text = start.format(64) + megatron(times(200)) + start.format(32) + megatron(times(300, usual_s=4), first=180)
    said = answer(text)
    assert said.state is State.HEALTHY
    assert said.restarts == ((200, 180),)


def test_a_restart_without_a_step_back_is_seen_by_its_text():
    text = megatron(times(200)) + "[before the start of training step] datetime: 2026-03-02 08:00:00\n"
    said = answer(text + megatron([40.0] * 15 + times(200), first=201))
    assert said.restarts == ((200, 201),)
    assert said.state is State.HEALTHY


def test_longer_batches_are_judged_by_their_tokens():
    """Variable sequence length: the time follows the tokens, and is not slowness."""
    tokens, text, elapsed = 0, "", 0.0
    for number in range(1, 400):
        length = 4096 if number < 200 else 8192
        tokens += length * 64
        elapsed += 60 * length / 4096
        text += (
            f'{{"current_steps": {number}, "total_steps": 1000, "total_tokens": {tokens}, "loss": 1.0,'
            f' "elapsed_time": "{timedelta(seconds=elapsed)}"}}\n'
        )
    assert answer(text).state is State.HEALTHY
    assert answer(text.replace("total_tokens", "other")).state is State.SLOW


def test_an_evaluation_bar_is_not_the_training():
    pace = times(60, usual_s=60)
    text = tqdm(pace[:30], total=60)
    text += tqdm([1.0] * 200) + tqdm([70.0] * 8, total=8)
    training = tqdm(pace, total=60).split("\r")
    said = answer(text + "\r".join(["", *training[32:]]))
    assert said.state is State.HEALTHY
    assert said.restarts == ()
    assert said.last == 60


def test_several_ranks_that_print_one_iteration_are_one_series():
    each = nemo(times(300)).splitlines()
    text = "".join(f"{rank}: {line}\n" for line in each for rank in (3, 0, 1))
    said = answer(text)
    assert (said.state, said.points, said.restarts) == (State.HEALTHY, 300, ())


def test_a_log_with_two_formats_is_judged_by_the_better_one():
    both = zip(deepspeed_timer(times(200)).splitlines(), megatron(times(200)).splitlines(), strict=True)
    said = answer("".join(f"{one}\n{other}\n" for one, other in both))
    assert (said.source, said.state, said.restarts) == ("megatron", State.HEALTHY, ())
    assert said.usual_s == pytest.approx(2, rel=0.02)


def test_the_slowest_rank_of_the_straggler_detector_is_named():
    pace = megatron(slowed(times(300), 150, 1.5)).splitlines()
    straggler = " | MnRtt/Rnk: 3453.08ms/8 | MxRtt/Rnk: 5468.20ms/13 | MnPwr/Rnk: 601796W/8 |"
    (slow,) = answer("\n".join(line for each in pace for line in (each, straggler))).slow
    assert slow.slowest_rank == 13
    assert "; Megatron finds rank 13 slowest; a log cannot identify the node" in slow.line


def test_a_gap_between_two_lines_is_a_silence():
    late = START + timedelta(seconds=60 * 2 + 1800)
    said = answer(megatron([2.0] * 60) + megatron([2.0] * 100, first=61, start=late))
    assert said.state is State.SILENT
    (silent,) = said.silent
    assert (silent.iteration, silent.time, silent.over) == (60, "2026-03-02 08:02:00", True)
    assert silent.seconds == pytest.approx(1802, abs=1)


@pytest.mark.parametrize(
    "between",
    [
        "saving checkpoint at iteration 60 to /ckpt\n",
        "validation loss at iteration 60 | lm loss value: 8.0E+00 |\n",
        "***** Running training *****\n",
    ],
)
def test_a_gap_that_the_log_explains_is_none(between):
    late = START + timedelta(seconds=60 * 2 + 1800)
    said = answer(megatron([2.0] * 60) + between + megatron([2.0] * 100, first=61, start=late))
    assert said.silent == ()
    assert any(note.startswith("1802 s without a line at 2026-03-02 08:02:00: ") for note in said.notes)


def test_a_process_that_was_silent_and_then_spoke_of_its_end_hung():
    """A restart explains the wait for it, but not the silence before the watchdog's words."""
    text = megatron([2.0] * 60) + "[2026-03-02 08:32:00] Watchdog caught collective operation timeout: ...\n"
    text += "***** Running training *****\n" + megatron([2.0] * 100, start=START + timedelta(hours=1))
    (silent,) = answer(text).silent
    assert silent.died
    assert "the last lines report an end" in silent.line


def test_a_log_that_ends_in_an_error_says_so():
    said = answer(megatron(times(200)) + "Traceback (most recent call last):\n")
    assert (said.state, said.died, said.finished) == (State.HEALTHY, True, False)
    assert "the log ends with an error; run nodegate triage LOG" in said.notes


def test_live_silence_ends_with_the_next_line_and_is_told_once():
    watching = Watcher()
    text = list(lines(megatron([2.0] * 60)))
    for line in text:
        watching.line(line)
    assert watching.idle(200) == []
    assert len(watching.idle(301)) == 1
    late = megatron([2.0], first=61, start=START + timedelta(seconds=900))
    (over,) = [event for line in lines(late) for event in watching.line(line)]
    assert over.line.startswith("No new line for 301 s (limit 300 s) - the log was silent after iteration 60")
    assert len(watching.answer().silent) == 1


def test_a_finished_job_may_be_silent():
    watching = Watcher()
    for line in lines(megatron([2.0] * 60) + "[after training is done] datetime: 2026-03-02 08:02:00\n"):
        watching.line(line)
    assert watching.idle(10_000) == []
    assert watching.answer().finished


def test_a_silence_that_only_the_watchdog_s_own_clock_shows():
    text = megatron([2.0] * 60) + "[rank3]:[E0302 08:32:00.118204311 x.cpp:616] [Rank 3] Watchdog caught collective"
    (silent,) = answer(f"{text} operation timeout: WorkNCCL(SeqNum=1)\n").silent
    assert (silent.iteration, silent.died) == (60, True)


def test_pauses_that_become_frequent_and_follow_no_period_are_named():
    rng = random.Random(3)  # noqa: S311
    pace = times(900)
    for number in range(900):
        if rng.random() < 0.01 + 0.3 * (number / 900) ** 2:
            pace[number] += 1.6
    notes = answer(megatron(pace)).notes
    (note,) = (each for each in notes if "single pauses of about 1.6 s at no period" in each)
    assert "more and more often" in note
    assert "check garbage collection first" in note


def test_a_much_slower_time_inside_a_slow_one_is_told_again():
    pace = slowed(slowed(times(1200), 400, 1.3), 800, 3.0)
    first, second = answer(megatron(pace)).slow
    assert (first.since, second.since) == (401, 801)
    assert first.until == 801
    assert second.excess == pytest.approx(2.9, abs=0.1)


@pytest.mark.parametrize(("factor", "steps"), [(1.05, 1200), (1.3, 230), (3.0, 20)])
def test_the_larger_the_sooner(factor, steps):
    text = megatron(slowed(times(2400, usual_s=3.0, noise=0.02), 1000, factor))
    (slow,) = answer("\n".join(text.splitlines()[: 1000 + steps])).slow
    assert slow.since == pytest.approx(1001, abs=60)


def deepspeed_every_tenth(pace):
    """DeepSpeed with steps_per_print 10: each line has the rate of its own step alone, and the clock."""
    now, text = START, ""
    for number, value in enumerate(pace, 1):
        now += timedelta(seconds=value)
        if number % 10 == 0:
            text += (
                f"[{now:%Y-%m-%d %H:%M:%S},118] [INFO] [timer.py:264:stop] micro_step={number}/global_step={number},"
                f" RunningAvgSamplesPerSec=31.9, CurrSamplesPerSec={256 / value}, MemAllocated=18GB\n"
            )
    return text


HICCUPS = range(140, 1001, 140)  # single long steps, among those that are printed


def test_three_samples_that_the_clock_confirms_are_enough_in_a_job_with_many_hiccups():
    pace = slowed(spikes(1000, 4, HICCUPS, usual_s=3.1), 905, 3.0)
    (slow,) = answer(deepspeed_every_tenth(pace[:930])).slow
    assert slow.since >= 900
    assert answer(deepspeed_every_tenth(pace[:920])).slow == ()


def test_three_long_samples_among_steps_as_fast_as_ever_are_hiccups():
    pace = spikes(1000, 4, {*HICCUPS, 910, 920, 930}, usual_s=3.1)
    assert answer(deepspeed_every_tenth(pace[:935])).slow == ()


SLOW_AT = 400


def series(seed, count, noise, spikes, slow_by=1):
    rng = random.Random(seed)  # noqa: S311
    for number in range(count):
        value = rng.lognormvariate(0, noise)
        if spikes and rng.random() < 0.005:
            value *= rng.uniform(1.5, 6)
        yield value * (slow_by if number >= SLOW_AT else 1)


@pytest.mark.parametrize(("noise", "spikes"), [(0.01, False), (0.01, True), (0.04, True), (0.10, True)])
def test_no_false_alarm_in_30_000_iterations(noise, spikes):
    for seed in range(3):
        seen = map(Rule().add, series(seed, 10_000, noise, spikes))
        assert not any(each.slow for each in seen if each is not None)


def test_a_slow_time_does_not_become_what_is_usual():
    judge = Rule()
    *_, last = (seen for value in series(1, SLOW_AT + 5000, 0.02, True, 1.3) if (seen := judge.add(value)))
    assert last.slow
    assert last.usual == pytest.approx(1, abs=0.05)
