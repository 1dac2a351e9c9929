"""Detection times and false alarms of `nodegate watch`: python bench/slow_jobs.py found|healthy [OPTIONS].

Whole logs in the frameworks' formats, from jobs that are simulated here with nothing of the detector: heavy-tailed
noise, a slow drift, garbage collection on several ranks, checkpoints and evaluations with and without a line of their
own, slow steps after them, hiccups of the storage, a slow start.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import statistics
import sys
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING

from nodegate.watch.watcher import Watcher

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

FACTORS = (1.05, 1.1, 1.2, 1.3, 1.5, 2.0, 3.0, 5.0)
START = datetime(2026, 3, 2, 8, 0, 0, tzinfo=timezone.utc)
GIVEN_UP_S = 3 * 3600


@dataclass(frozen=True)
class Step:
    """One step: its own seconds, those lost before it (a checkpoint, an evaluation), and a line that says so."""

    number: int
    own_s: float
    before_s: float = 0.0
    word: str = ""


@dataclass
class Job:
    """What a job is like."""

    usual_s: float
    noise: float
    drift: float
    rough: bool
    seed: int

    def steps(self, hours: float, slow_at_s: float = math.inf, factor: float = 1.0) -> Iterator[Step]:
        rng = random.Random(self.seed)  # noqa: S311 - a simulation
        gc_every, gc_ranks = rng.randint(60, 400), rng.randint(1, 6)
        phases = {rng.randrange(gc_every) for _ in range(gc_ranks)} if self.rough else set()
        gc_s = rng.uniform(0.3, 1.0) * min(3.0, self.usual_s)
        ckpt_s, eval_s = rng.uniform(15, 60) * 60, rng.uniform(20, 90) * 60
        next_ckpt, next_eval = ckpt_s, eval_s
        said = rng.random() < 0.5
        wander, spent, number, after = 0.0, 0.0, 0, 0
        hold = 3600 * rng.uniform(0.3, 2)
        while spent < hours * 3600:
            number += 1
            tail = abs(rng.gauss(0, 1)) / math.sqrt(max(0.2, rng.gammavariate(2.5, 0.4)))
            own = 1 + self.noise * (tail - 0.8)
            wander += -wander * self.usual_s / hold + self.drift * math.sqrt(2 * self.usual_s / hold) * rng.gauss(0, 1)
            own *= 1 + wander
            if number <= 12:
                own *= 1 + 12 / number**1.5
            if after:
                own, after = own * rng.uniform(1.02, 1.4), after - 1
            if self.rough and rng.random() < 0.1 * self.usual_s / 3600:
                own *= rng.uniform(2, 6)
            if spent >= slow_at_s:
                own *= factor
            own *= self.usual_s
            if number % gc_every in phases:
                own += gc_s
            before, word = 0.0, ""
            if self.rough and spent > next_ckpt:
                before, next_ckpt, word = rng.uniform(10, 90), spent + ckpt_s, "checkpoint" if said else ""
                after = rng.randrange(8)
            elif self.rough and spent > next_eval:
                before, next_eval, word = rng.uniform(30, 240), spent + eval_s, "evaluation" if said else ""
            spent += own + before
            yield Step(number, own, before, word)


# --- the formats: each makes lines of steps, with the training time at which each line is there


def every(steps: Iterator[Step], interval: int) -> Iterator[tuple[float, float, Step, list[Step]]]:
    """The steps in intervals: seconds since the start, seconds with pauses, last step, all steps."""
    spent, some = 0.0, []
    for step in steps:
        spent += step.own_s + step.before_s
        some.append(step)
        if len(some) == interval:
            yield spent, sum(each.own_s + each.before_s for each in some), step, some
            some = []


def megatron(steps: Iterator[Step], interval: int) -> Iterator[tuple[float, str]]:
    for spent, _, last, some in every(steps, interval):
        for each in some:
            if each.word == "checkpoint":
                yield spent, f"saving checkpoint at iteration {each.number:7d} to /ckpt"
            elif each.word:
                yield spent, f" validation loss at iteration {each.number} | lm loss value: 2.0E+00 |"
        at = START + timedelta(seconds=spent)
        ms = 1000 * sum(each.own_s for each in some) / len(some)
        yield (
            spent,
            (
                f" [{at:%Y-%m-%d %H:%M:%S.%f}] iteration {last.number:8d}/ 9000000 | consumed samples: {last.number}"
                f" | elapsed time per iteration (ms): {ms:.1f} | learning rate: 1.0E-04 | global batch size:   512 |"
                " lm loss: 2.1E+00 | loss scale: 1.0 | number of skipped iterations:   0 |"
            ),
        )


def primus(steps: Iterator[Step], interval: int) -> Iterator[tuple[float, str]]:
    total = 0.0
    for spent, _, last, some in every(steps, interval):
        own = sum(each.own_s for each in some)
        total += own
        yield (
            spent,
            (
                f" iteration {last.number:8d}/ 9000000 | consumed samples: {last.number} | elapsed time per"
                f" iteration (ms): {1000 * own / len(some):.1f}/{1000 * total / last.number:.1f} | throughput per GPU"
                " (TFLOP/s/GPU): 402.5/401.9 | global batch size:   512 | lm loss: 2.1E+00 |"
            ),
        )


def nemo(steps: Iterator[Step], interval: int) -> Iterator[tuple[float, str]]:
    for spent, _, last, some in every(steps, interval):
        own = sum(each.own_s for each in some) / len(some)
        yield (
            spent,
            (
                f"Training epoch 0, iteration {last.number - 1}/8999999 | lr: 1.2e-05 | global_batch_size: 512 |"
                f" global_step: {last.number - 1} | reduced_train_loss: 2.31 | train_step_timing in s: {own:.4g}"
            ),
        )


def deepspeed(steps: Iterator[Step], interval: int) -> Iterator[tuple[float, str]]:
    for spent, _, last, _ in every(steps, interval):
        at = START + timedelta(seconds=spent)
        yield (
            spent,
            (
                f"[{at:%Y-%m-%d %H:%M:%S},123] [INFO] [timer.py:264:stop] micro_step={last.number}/global_step="
                f"{last.number}, RunningAvgSamplesPerSec=31.9, CurrSamplesPerSec={256 / last.own_s}, MemAllocated=18GB"
            ),
        )


def torchtitan(steps: Iterator[Step], interval: int) -> Iterator[tuple[float, str]]:
    for spent, whole, last, _ in every(steps, interval):
        at, tps = START + timedelta(seconds=spent), 16384 * interval / whole
        yield (
            spent,
            (
                f"[rank0]:[titan] {at:%Y-%m-%d %H:%M:%S},102 - root - INFO - step: {last.number:2d}  loss:  3.1"
                f"  1.2  memory: 45.41GiB(47.79%)  tps: {tps:,.0f}  tflops: {tps / 20:.2f}  mfu: {tps / 200:.2f}%"
            ),
        )


def clock(spent: float) -> str:
    minutes, second = divmod(int(spent), 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours}:{minute:02d}:{second:02d}" if hours else f"{minute:02d}:{second:02d}"


def llamafactory(steps: Iterator[Step], interval: int) -> Iterator[tuple[float, str]]:
    for spent, _, last, _ in every(steps, interval):
        line = {"current_steps": last.number, "total_steps": 9000000, "loss": 1.2, "lr": 1e-05, "epoch": 0.1}
        yield (
            spent,
            json.dumps(line | {"elapsed_time": str(timedelta(seconds=int(spent)))}),
        )


def tqdm(steps: Iterator[Step], interval: int) -> Iterator[tuple[float, str]]:
    for spent, whole, last, _ in every(steps, interval):
        rate = whole / interval
        shown = f"{rate:5.2f}s/it" if rate > 1 else f"{1 / rate:5.2f}it/s"
        yield spent, f"  0%|          | {last.number}/9000000 [{clock(spent)}<99:02:03, {shown}]"


def rates(steps: Iterator[Step], interval: int) -> Iterator[tuple[float, str]]:
    for spent, whole, last, _ in every(steps, interval):
        yield spent, f"step {last.number}/9000000 | loss 2.31 | lr 1.0e-04 | {interval / whole:.4f} it/s"


@dataclass(frozen=True)
class Form:
    """A format, and the steps between two lines."""

    name: str
    write: Callable[[Iterator[Step], int], Iterator[tuple[float, str]]]
    interval: int


FORMS = (
    Form("Megatron-LM", megatron, 1),
    Form("Megatron-LM", megatron, 10),
    Form("slash pairs (Primus)", primus, 1),
    Form("NeMo", nemo, 1),
    Form("DeepSpeed", deepspeed, 1),
    Form("DeepSpeed", deepspeed, 10),
    Form("torchtitan", torchtitan, 10),
    Form("LLaMA-Factory, JSON lines", llamafactory, 5),
    Form("LLaMA-Factory, JSON lines", llamafactory, 10),
    Form("tqdm (HF Trainer, LLaMA-Factory)", tqdm, 1),
    Form("it/s", rates, 1),
)


def found_s(form: Form, job: Job, factor: float) -> tuple[float, int] | None:
    """Seconds and steps from the slow-down to the first finding of it; None if there is none in GIVEN_UP_S."""
    slow_at_s = random.Random(job.seed + 1).uniform(0.5, 3) * 3600  # noqa: S311 - a simulation
    watching, known = Watcher(), 0
    begun = 0
    for spent, line in form.write(job.steps(slow_at_s / 3600 + 4, slow_at_s, factor), form.interval):
        watching.line(line)
        slow = watching.pace.slow
        if spent < slow_at_s:
            known, begun = len(slow), watching.iteration or 0
        elif len(slow) > known:
            return spent - slow_at_s, (watching.iteration or 0) - begun
        elif spent - slow_at_s > GIVEN_UP_S:
            return None
    return None


def detection(forms: list[Form], jobs: int) -> None:
    """The table of detection times."""
    print("| format | lines every | noise | " + " | ".join(f"{factor:g}" for factor in FACTORS) + " |")
    print("|---" * (3 + len(FACTORS)) + "|")
    for form in forms:
        for noise, rough in ((0.01, False), (0.03, True)):
            cells = []
            for factor in FACTORS:
                times = [
                    found_s(form, Job(3.1, noise, 0.002, rough, 1000 * seed + int(100 * factor)), factor)
                    for seed in range(jobs)
                ]
                seen = sorted(each for each in times if each)
                missed = "" if len(seen) == len(times) else f", {len(times) - len(seen)} of {len(times)} missed"
                if not seen:
                    cells.append("-")
                    continue
                minutes, steps = statistics.median(each[0] for each in seen) / 60, statistics.median(e[1] for e in seen)
                cells.append(f"{minutes:.1f} ({seen[-1][0] / 60:.1f}; {steps:.0f}){missed}")
            print(f"| {form.name} | {form.interval} | {100 * noise:.0f} % | " + " | ".join(cells) + " |", flush=True)


def healthy(forms: list[Form], hours: float, seed: int) -> None:
    """The table of false alarms: jobs of 2 to 40 hours, of every kind, until there are so many hours."""
    print("| format | lines every | jobs | hours | false alarms | told |")
    print("|---" * 6 + "|")
    for form in forms:
        rng = random.Random(f"{form.name}{form.interval}{seed or ''}")  # noqa: S311 - a simulation
        spent, jobs, alarms, told = 0.0, 0, 0, []
        while spent < hours:
            length = rng.uniform(2, 40)
            noise, drift = rng.choice((0.003, 0.01, 0.02, 0.04, 0.08)), rng.choice((0.0, 0.002, 0.004, 0.008))
            job = Job(10 ** rng.uniform(-0.3, 1.3), noise, drift, True, rng.randrange(10**9))
            watching = Watcher()
            for _, line in form.write(job.steps(length), form.interval):
                watching.line(line)
            spent, jobs, alarms = spent + length, jobs + 1, alarms + len(watching.pace.slow)
            told += [f"{each.excess * 100:.0f} % of {job}" for each in watching.pace.slow]
        print(
            f"| {form.name} | {form.interval} | {jobs} | {spent:.0f} | {alarms} | {'; '.join(told[:3])} |", flush=True
        )


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("what", choices=["found", "healthy"])
    asked.add_argument("--hours", type=float, default=1000.0)
    asked.add_argument("--jobs", type=int, default=7)
    asked.add_argument("--forms", default="", help="only those whose name begins so")
    asked.add_argument("--seed", type=int, default=0, help="other healthy jobs")
    options = asked.parse_args()
    forms = [form for form in FORMS if form.name.startswith(options.forms)]
    if options.what == "found":
        detection(forms, options.jobs)
    else:
        healthy(forms, options.hours, options.seed)
    sys.stdout.flush()


if __name__ == "__main__":
    main()
