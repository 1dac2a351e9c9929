"""Training logs as the frameworks write them, from a list of iteration times in seconds."""

import json
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from nodegate.watch.watcher import Watcher

START = datetime(2026, 3, 2, 8, 0, 0)  # noqa: DTZ001 - logs have no zone


def times(count, usual_s=2.0, noise=0.01, seed=1):
    """Iteration times with log-normal noise."""
    rng = random.Random(seed)  # noqa: S311
    return [usual_s * rng.lognormvariate(0, noise) for _ in range(count)]


def slowed(values, at, factor):
    """The same, slower from the iteration `at` on."""
    return [value * factor if index >= at else value for index, value in enumerate(values)]


def each_step(name, line, first=1):
    """A log of a line for each step, from its number and its time."""

    def write(seconds, first=first):
        return "".join(line(number, value) for number, value in enumerate(seconds, first))

    write.__name__ = name
    return write


def megatron(seconds, *, first=1, batch=1024, start=START):
    """Megatron-LM with log-interval 1; `start` None is an old version, whose lines have no time."""
    now, text = start, ""
    for number, value in enumerate(seconds, first):
        prefix = ""
        if now is not None:
            now += timedelta(seconds=value)
            prefix = f"[{now:%Y-%m-%d %H:%M:%S.%f}] "
        text += (
            f" {prefix}iteration {number:8d}/ 500000 | consumed samples: {number * batch:12d} |"
            f" elapsed time per iteration (ms): {value * 1000:.1f} | throughput per GPU (TFLOP/s/GPU): 401.2 |"
            f" learning rate: 1.0E-04 | global batch size: {batch:5d} | lm loss: 2.1E+00 |"
            " number of skipped iterations:   0 | number of nan iterations:   0 |\n"
        )
    return text


nemo = each_step(
    "nemo",
    lambda number, value: (
        f"Training epoch 0, iteration {number}/4999 | lr: 1.2e-05 | global_batch_size: 512 |"
        f" global_step: {number} | reduced_train_loss: 2.31 | train_step_timing in s: {value:.4g} |"
        f" consumed_samples: {512 * (number + 1)}\n"
    ),
    first=0,
)
deepspeed_timer = each_step(
    "deepspeed_timer",  # every step printed; the timer leaves the first two out
    lambda number, value: (
        f"[2026-03-02 08:00:00,123] [INFO] [timer.py:264:stop] epoch=0/micro_step={number}/global_step={number},"
        f" RunningAvgSamplesPerSec=31.9, CurrSamplesPerSec={64 / value}, MemAllocated=18.2GB, MaxMemAllocated=60.1GB\n"
    ),
    first=3,
)
deepspeed_pipeline = each_step(
    "deepspeed_pipeline",
    lambda number, value: (
        f"steps: {number} loss: 4.7123 lm loss: 4.7001 moe loss: 0.0122 iter time (s): {value:.3f}"
        f" samples/sec: {64 / value:.3f}\n"
    ),
)


def torchtitan(seconds, first=1):
    """A line each step, in the colours of a terminal; 16,384 tokens for each GPU."""
    now, text = START, ""
    for number, value in enumerate(seconds, first):
        now += timedelta(seconds=value)
        tps = 16384 / value
        text += (
            f"[rank0]:[titan] {now:%Y-%m-%d %H:%M:%S},004 - root - INFO - \x1b[31mstep: {number:2}  \x1b[32mloss:  4.2"
            f"  \x1b[33mmemory: 40.10GiB(50.65%)  \x1b[34mtps: {round(tps):,}  \x1b[36mtflops: {tps / 19:,.2f}"
            f"  \x1b[35mmfu: {tps / 190:.2f}%\x1b[39m\n"
        )
    return text


def slashed(seconds, first=1):
    """Primus: each number as this interval's and the run's mean."""
    return "".join(
        f" iteration {number:8d}/  500000 | consumed samples: {number * 512:12d} | elapsed time per iteration (ms):"
        f" {value * 1000:.1f}/{seconds[0] * 1000:.1f} | throughput per GPU (TFLOP/s/GPU): 512.3/511.9 |"
        " global batch size:   512 | lm loss: 2.1E+00 |\n"
        for number, value in enumerate(seconds, first)
    )


nemo_bar = each_step(
    "nemo_bar",  # NeMo 1: Lightning's bar, the time of a step behind it
    lambda number, value: (
        f"\rEpoch 0: :  10%|#         | {number}/5000 [12:01<99:12, v_num=x1, reduced_train_loss=6.130,"
        f" global_step={number}.0, consumed_samples={number * 8}.0, train_step_timing in s={value:.3f}]"
    ),
)


def mmengine(seconds, of=250):
    """MMEngine by epochs, a line an iteration; its date has no year in older versions."""
    return "".join(
        f"03/02 08:00:00 - mmengine - INFO - Epoch(train)  [{index // of + 1}][{index % of + 1:3d}/{of}]  lr: 2.0e-03"
        f"  eta: 1 day, 1:02:03  time: {value:.4f}  data_time: 0.0102  memory: 4711  loss: 0.4312\n"
        for index, value in enumerate(seconds)
    )


def verl(seconds, first=1):
    """verl behind Ray's prefix, an evaluation of half a minute each tenth step."""
    text = ""
    for number, value in enumerate(seconds, first):
        rest = f" - timing_s/testing:{30.25}" if number % 10 == 0 else ""
        step_s = value + 30.25 if rest else value
        text += (
            f"(TaskRunner pid=4711) step:{number} - actor/pg_loss:-0.0012 - timing_s/gen:{value / 2:.3f}{rest}"
            f" - timing_s/step:{step_s:.4f} - timing_per_token_ms/gen:0.04 - perf/throughput:911.2\n"
        )
    return text


maxtext = each_step(
    "maxtext",
    lambda number, value: (
        f"I0302 08:00:00.123456 140211 metric_logger.py:181] completed step: {number}, seconds: {value:.3f},"
        f" TFLOP/s/device: 401.5, Tokens/s/device: 9400.1, total_weights: 30708, loss: 2.3\n"
    ),
    first=0,
)
nanotron = each_step(
    "nanotron",
    lambda number, value: (
        f"03/02/2026 08:00:00 [INFO|DP=0|PP=0|TP=0]: iteration: {number} / 5000 | consumed_tokens: {number}M |"
        f" elapsed_time_per_iteration_ms: {value:.3g}K | tokens_per_sec: 911K | global_batch_size: 512 | lm_loss: 2.3\n"
    ),
)


def fairseq(seconds, every=10):
    """A line each `every` updates, with the whole seconds since the start."""
    wall, text = 12.0, ""
    for number, value in enumerate(seconds, 1):
        wall += value
        if number % every == 0:
            text += (
                f"2026-03-02 08:00:00 | INFO | train_inner | epoch 001:{number:7d} / 9000 loss=4.1, ups=0.51,"
                f" wpb=51200, num_updates={number}, lr=0.0005, train_wall=20, gb_free=12.1, wall={wall:.0f}\n"
            )
    return text


metrics = each_step(
    "metrics",  # metrics.jsonl of a program of one's own
    lambda number, value: (
        json.dumps({"step": number, "loss": 2.31, "perf/step_time_ms": round(value * 1000, 2)}) + "\n"
    ),
)


def clocked_metrics(seconds, first=1):
    """Records of a tracker: the step, and when it was logged."""
    now, text = 1_772_438_400.0, ""
    for number, value in enumerate(seconds, first):
        now += value
        text += json.dumps({"loss": 2.31, "_timestamp": round(now, 3), "_step": number}) + "\n"
    return text


rates = each_step("rates", lambda number, value: f"step {number}/5000 | loss 2.31 | {1 / value:.4f} it/s\n")


def clock(seconds):
    return str(timedelta(seconds=int(seconds)))


def llamafactory(seconds, every=10):
    """trainer_log.jsonl, a line each `every` steps, elapsed in whole seconds."""
    elapsed, text = 0.0, ""
    for number, value in enumerate(seconds, 1):
        elapsed += value
        if number % every == 0:
            line = {"current_steps": number, "total_steps": len(seconds), "loss": 1.2, "lr": 1e-05, "epoch": 0.1}
            line |= {"percentage": 1.0, "elapsed_time": clock(elapsed), "remaining_time": "1 day, 2:03:04"}
            text += json.dumps(line) + "\n"
    return text


def tqdm_clock(seconds):
    minutes, second = divmod(int(seconds), 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours}:{minute:02d}:{second:02d}" if hours else f"{minute:02d}:{second:02d}"


def tqdm(seconds, total=0, name=""):
    """The HF Trainer's bar: redrawn by carriage returns, no line feed."""
    elapsed, total = 0.0, total or len(seconds)
    text = f"\r{name}  0%|          | 0/{total} [00:00<?, ?it/s]"
    for number, value in enumerate(seconds, 1):
        elapsed += value
        bar = f"{100 * number // total:2d}%|#####     | {number}/{total}"
        text += f"\r{name} {bar} [{tqdm_clock(elapsed)}<1:02:03,  {value:.2f}s/it]"
    return text


own = each_step("own", lambda number, value: f"step={number} took {value * 1000:.2f} msec loss=1.0\n")


OWN = r"step=(?P<iteration>\d+) took (?P<ms>[\d.]+) msec"


@dataclass(frozen=True)
class Format:
    """How a framework's log is made and read; `usual_s` long enough that its clock can tell."""

    name: str
    write: Callable[[Sequence[float]], str]
    usual_s: float = 2.0
    pattern: str = ""
    per: int = 1  # usual_s of the log is that of a sample where the batch is not known


FORMATS = [
    Format("megatron", megatron),
    Format("nemo", nemo),
    Format("nemo-bar", nemo_bar),
    Format("torchtitan", torchtitan, per=16384),
    Format("megatron", slashed),
    Format("steps", rates),
    Format("mmengine", mmengine),
    Format("verl", verl, usual_s=60.0),
    Format("maxtext", maxtext),
    Format("nanotron", nanotron),
    Format("fairseq", fairseq, usual_s=6.0),
    Format("json", metrics),
    Format("json", clocked_metrics, usual_s=12.0),
    Format("deepspeed", deepspeed_timer, per=64),
    Format("deepspeed-pipeline", deepspeed_pipeline),
    Format("llama-factory", llamafactory, usual_s=6.0),
    Format("tqdm", lambda seconds: tqdm(seconds, total=1000), usual_s=60.0),
    Format("pattern", own, pattern=OWN),
]


def lines(text):
    """As the watch cuts them, for tests that feed it line by line."""
    return (line for line in text.replace("\r", "\n").split("\n") if line)


def watched(text, **options):
    """What has read a whole log, or these lines."""
    watching = Watcher(**options)
    for line in lines(text) if isinstance(text, str) else text:
        watching.line(line)
    watching.end()
    return watching


def answer(text, given=None, **options):
    """What a watch says of a whole log, or of these lines."""
    return watched(text, given=given, **options).answer()
