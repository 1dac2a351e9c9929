"""Whatever a log holds: an answer, in bounded time and memory, and never a traceback."""

import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.schemas import read_output
from support.training_logs import lines, megatron, slowed

from fuzz.growth import cpu_s
from nodegate.watch import render
from nodegate.watch.answer import State
from nodegate.watch.formats import FORMATS as READERS
from nodegate.watch.formats import reader
from nodegate.watch.lines import MOST_BYTES, LineSplitter
from nodegate.watch.watcher import Watcher


def answered(data, silence_s=300):
    splitter, watching = LineSplitter(), Watcher(silence_s=silence_s)
    for line in [*splitter.feed(data), *splitter.end()]:
        watching.line(line)
    watching.idle(1000)
    watching.end()
    answer = watching.answer()
    read_output(render.answer_json(answer, "log"))
    assert list(render.text(answer, "log"))
    return watching


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 10**13), st.floats(allow_nan=True)), max_size=80))
def test_any_numbers(numbers):
    text = "\n".join(
        f" iteration {one}/ 100 | elapsed time per iteration (ms): {other} | global batch size: 2 |"
        for one, other in numbers
    )
    answered(text.encode())


@pytest.mark.parametrize("form", READERS.values(), ids=READERS)
@pytest.mark.parametrize(
    "piece",
    [
        " ", "9", "9/9 [", "1/1 [00:00<", " iteration 1/ ", " iteration 1/ 1 |", "steps: 1 loss: ", "steps: 1 loss: 1:",
        "elapsed time per iteration (ms): 1 |", "CurrSamplesPerSec=global_step=1, RunningAvgSamplesPerSec=1, ", "|:",
        "Training epoch 0, iteration 1/2 |train_step_timing in s:", '{"current_steps":', "<it1/1 [", "1 days, ",
        "iter time (s): steps: 1 loss: 1 ", '{"current_steps":[', "step: 1 ", "step 1/1 [",
        "time: 1.1 ", "a_", "1d 1h 1m ",
        "{'loss': ", "1/1 [==] - ETA: 1", "elapsed 1:", "a=1;",
    ],
)  # fmt: skip
def test_no_line_takes_long(form, piece):
    """Near misses, repeated to the greatest length of a line: time that grows with the square would be minutes."""
    line = ('{"current_steps"' if piece.startswith("{") else "") + piece * (MOST_BYTES // len(piece))
    tail = "elapsed time per iteration (ms) train_step_timing in s: iter time (s):  CurrSamplesPerSec=<it"
    assert cpu_s(reader(form), line[: MOST_BYTES - len(tail)] + tail) < 2


def test_a_line_of_10_mb_costs_no_more_than_its_length(tmp_path):
    log = tmp_path / "train.log"
    good = megatron(slowed([2.0] * 200, 100, 1.5)).encode()
    log.write_bytes(
        good + b" iteration 1/ 5 | " * 600_000 + b"\n" + b"\xff\xfe\0" * 3_000_000 + b"\r" * 1_000_000 + good
    )
    program = (
        "import re, sys; from nodegate.cli import main; code = main(sys.argv[1:]);"
        # Not ru_maxrss: a new program inherits that of the process which started it.
        " peak = re.search(r'VmHWM:\\s+([0-9]+) kB', open('/proc/self/status').read());"
        " print(int(peak.group(1)) // 1024, file=sys.stderr); sys.exit(code)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, "watch", str(log), "--once"],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 1, done.stderr
    assert "slow since iteration 101" in done.stdout
    assert int(done.stderr) < 150  # MiB


def test_a_long_job_keeps_a_bounded_memory_of_itself():
    watching = Watcher()
    for number in range(30_000):
        for line in lines(megatron([2.0 if number % 50 else 9.0], first=number + 1)):
            watching.line(line)
    assert watching.answer().state is State.HEALTHY
    assert len(watching.curve.buckets) <= 2000
    (kind,) = watching.pace._kinds.values()
    assert len(kind.rule._past) <= 512


def test_a_log_full_of_restarts_and_slow_times_stays_bounded():
    watching = Watcher()
    for part in range(2500):
        for line in lines(megatron([2.0] * 3 + [9.0] * 3, first=1 + 24 * (part % 2), start=None)):
            watching.line(line)
    answer = watching.answer()
    assert len(answer.restarts) <= 1001
    assert len(answer.slow) <= 1000
    assert len(list(render.text(answer, "log"))) < 100
