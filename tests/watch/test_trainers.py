"""The lines of trainers (trainers.txt): each is read by its time base, and judged rightly."""

import random
from datetime import timedelta
from pathlib import Path

import pytest
from support.training_logs import START, answer, tqdm_clock

from nodegate.watch import render
from nodegate.watch.answer import State
from nodegate.watch.html import page
from nodegate.watch.plot import Curve

TABLE = (Path(__file__).parent / "trainers.txt").read_text(encoding="utf-8").replace("\\t", "\t").replace("\\e", "\x1b")


def rows():
    for part in TABLE.split("\n\n")[1:]:
        head, _, text = part.partition("\n")
        name, _, every, base = head.removeprefix("# ").split("; ")
        yield name, int(every), base, text.rstrip("\n")


def written(text, paces, every, pauses=()):
    """The lines, one for each mean time in `paces`, 150 an epoch; before each so many intervals a minute is lost."""
    elapsed = epoch_at = 0.0
    for number, pace in enumerate(paces, 1):
        lap = pace * every + sum(60.0 for pause in pauses if number % (pause * lines_of(every)) == 0)
        of_epoch, n, s = (number - 1) % 150 + 1, number * every, lap / every
        elapsed += lap
        epoch_at = lap if of_epoch == 1 else epoch_at + lap
        i, mean = of_epoch * every, epoch_at / of_epoch / every
        eta, minutes = int(mean * (150 * every - i)), int(elapsed // 60)
        counted = {"n": n, "n0": n - 1, "i": i, "i0": i - every + 1, "isamples": i * 512, "every": every}
        timed = {"s": s, "ms": s * 1000, "kilo": s, "rate": 1 / s, "lap": lap, "sps": 512 / s, "tps": 16384 / s}
        means = {"mean_s": mean, "mean_ms": mean * 1000, "mean_rate": n / elapsed, "eta": f"{eta // 60}:{eta % 60:02d}"}
        yield from text.format(
            **counted,
            **timed,
            **means,
            e=(number - 1) // 150 + 1,
            epochs=n / (150 * every),
            at=START + timedelta(seconds=elapsed),
            elapsed=elapsed,
            elapsed_ms=elapsed * 1000,
            clock=tqdm_clock(elapsed),
            lap_clock=tqdm_clock(epoch_at),
            long_clock=timedelta(seconds=int(elapsed)),
            words=f"{minutes // 60}h {minutes % 60}m {int(elapsed % 60)}s",
        ).split("\n")


def paces(every, intervals):
    """Mean times of 3 s a step with 1 % of noise; an interval is a line of several steps, or ten lines of one."""
    rng = random.Random(every)  # noqa: S311
    return [3.0 * rng.lognormvariate(0, 0.01) for _ in range(intervals * lines_of(every))]


def lines_of(every):
    return 10 if every == 1 else 1


EACH = pytest.mark.parametrize(("every", "base", "text"), [pytest.param(*row[1:], id=row[0]) for row in rows()])


@EACH
def test_a_trainer_is_read_by_its_time_base(every, base, text):
    said = answer(written(text, paces(every, 160 if every > 1 else 60), every, pauses=(25, 35)))
    assert (said.slow, said.silent) == ((), ())
    if base == "none":
        assert (said.state, said.points) == (State.NOT_JUDGED, 0)
        return
    work = {"sample": 512, "token": 16384, "interval": 1 / every}.get(base, 1)
    assert (said.state, said.restarts) == (State.HEALTHY, ())
    assert said.usual_s == pytest.approx(3.0 / work, rel=0.06)


@EACH
def test_three_times_slower_is_found_within_three_intervals(every, base, text):
    slowed = [pace * (3 if at >= 40 * lines_of(every) else 1) for at, pace in enumerate(paces(every, 43))]
    if base != "none":
        (slow,) = answer(written(text, slowed, every)).slow
        assert slow.excess > 1


def test_a_time_that_only_rises_is_the_time_since_the_start():
    said = answer(written("step {n} loss 2.31 time {elapsed:.1f}s", paces(10, 60), 10))
    assert said.state is State.HEALTHY
    assert said.usual_s == pytest.approx(3.0, rel=0.03)


MEGATRON = next(text for name, _, _, text in rows() if name == "Megatron-LM")


@pytest.mark.parametrize("factor", [3, 5, 8])
def test_a_job_that_writes_each_hundredth_step_and_becomes_slow_is_not_silent(factor):
    """Its next line comes as much later as it is slower."""
    said = answer(written(MEGATRON, [3.1] * 30 + [3.1 * factor] * 6, 100))
    assert (len(said.slow), said.silent) == (1, ())


def test_one_long_gap_of_a_job_that_writes_rarely_is_a_silence():
    (silent,) = answer(written(MEGATRON, [3.1] * 30 + [3.1 * 5] + [3.1] * 6, 100)).silent
    assert silent.iteration == 3000


def test_the_time_of_a_token_is_called_so():
    text = next(text for name, _, _, text in rows() if name == "torchtitan")
    said = answer(written(text, [3.0] * 40 + [9.0] * 6, 10))
    assert " ms a token, baseline: " in said.slow[0].measured
    assert render.headline(said).endswith(" ms a token")
    curve = Curve()
    curve.add(1, 2, 0.1)
    shown = page(said, curve, "train.log")
    for words in ("ms a token</text>", 'aria-label="times of one token"', "Time of a token over the iterations"):
        assert words in shown


def test_lines_without_a_counter_are_log_intervals():
    text = next(text for name, _, _, text in rows() if name.startswith("HF Trainer, dicts after"))
    said = answer(written(text, [3.0] * 40 + [9.0] * 6, 10))
    assert "slow since log interval 41" in said.slow[0].line
    assert "; log intervals 1-46 (steps), usually 30000.0 ms a log interval" in render.headline(said)
