"""What a line says: the forms that frameworks have printed over the years, and what is no iteration."""

from __future__ import annotations

import pytest

from nodegate.watch import formats, marks
from nodegate.watch.lines import MOST_BYTES, LineSplitter, sender, stamp
from nodegate.watch.metric_lines import metrics
from nodegate.watch.reading import Reading, elapsed_s

TAIL = " | learning rate: 1.0E-04 | global batch size:    96 | lm loss: 2.1E+00 |"


@pytest.mark.parametrize(
    ("line", "iteration", "seconds"),
    [
        (
            f" iteration     7000/  159576 | consumed samples: 260912 | elapsed time per iteration (ms): 18706.1{TAIL}",
            7000,
            18.7061,
        ),
        (
            f"3:  iteration       25/73242187 | consumed samples: 50 | elapsed time per iteration (ms): 87.0{TAIL}",
            25,
            0.087,
        ),
        (f" [2026-01-02 03:04:05.123456] iteration 5/ 100 | elapsed time per iteration (ms): 15800.0{TAIL}", 5, 15.8),
        (f" iteration        2/   95367 | elapsed time per iteration (s): 769.99{TAIL}", 2, 769.99),
        (f"gpu07: iteration 9/ 10 | elapsed time per iteration (ms): 1.0E+03{TAIL}", 9, 1.0),
    ],
)
def test_megatron(line: str, iteration: int, seconds: float) -> None:
    assert formats.megatron(line) == Reading("megatron", iteration, total=_total(line), seconds=seconds, batch=96)


def _total(line: str) -> int:
    return int(line.split("/", 1)[1].split("|", 1)[0])


@pytest.mark.parametrize(
    "line",
    [
        " iteration 5/ 100 | elapsed time per iteration (ms): 158",  # cut
        " iteration 5/ 100 | elapsed time per iteration (ms): nan | lm loss: 1 |",
        " iteration 5/ 100 | elapsed time per iteration (ms): -3.0 | lm loss: 1 |",
        " iteration 5/ 100 | elapsed time per iteration (ms): 0.0 | lm loss: 1 |",
        " iteration 5/ 100 | elapsed time per iteration (ms): 1e999 | lm loss: 1 |",
        " iteration \u0665/ 100 | elapsed time per iteration (ms): 158.0 | lm loss: 1 |",
        " iteration 99999999999999999999/ 100 | elapsed time per iteration (ms): 158.0 |",
        "validation loss at iteration 100 | lm loss value: 8.09E+00 | lm loss PPL: 3.2E+03 |",
        "time (ms) | forward-compute: 144.44 | optimizer: 9.18 |",
        "setting training iterations to 500000",
    ],
)
def test_what_is_no_iteration_of_megatron(line: str) -> None:
    assert formats.megatron(line) is None


def test_tokens_and_sequence_length() -> None:
    line = (
        " iteration 6/ 100 | consumed tokens: 8388608 | elapsed time per iteration (ms): 800.0 | actual seqlen:  2048 |"
    )
    said = formats.megatron(line)
    assert said is not None
    assert (said.tokens, said.sequence) == (8388608, 2048)


def test_nemo_counts_by_its_global_step() -> None:
    line = (
        "[2025-10-17T11:32:59+08:00] Training epoch 1, iteration 27/99 | lr: 0.00017 | global_batch_size: 32 |"
        " global_step: 127 | reduced_train_loss: 2.79 | train_step_timing in s: 2.389"
    )
    assert formats.nemo(line) == Reading("nemo", 127, seconds=2.389, batch=32)
    assert formats.nemo(line.replace("2.389", "")) is None


def test_deepspeed_timer_is_the_last_step_alone() -> None:
    line = "global_step=1880, RunningAvgSamplesPerSec=6.6037, CurrSamplesPerSec=6.25, MemAllocated=7.79GB, MaxMem"
    assert formats.FORMATS["deepspeed"](line) == Reading("deepspeed", 1880, seconds=0.16, per="sample", alone=True)
    assert formats.FORMATS["deepspeed"](line[: line.index("6.25") + 2]) is None


def test_deepspeed_pipeline_with_more_losses() -> None:
    line = "steps: 200 loss: 5.5508 lm loss: 5.5103 moe loss: 0.0405 iter time (s): 0.936 samples/sec: 136.706"
    assert formats.FORMATS["deepspeed-pipeline"](line) == Reading("deepspeed-pipeline", 200, seconds=0.936)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0:12:34", 754),
        ("1 day, 2:03:04", 93784),
        ("12 days, 0:00:00", 12 * 86400),
        ("01:23", 83),
        ("100:00:00", 360000),
    ],
)
def test_elapsed(text: str, seconds: int) -> None:
    assert elapsed_s(text) == seconds


@pytest.mark.parametrize("text", ["", "12", "1:2", "a:bc", None, 12, "1 day", "1:00:00:00"])
def test_what_is_no_elapsed_time(text: object) -> None:
    assert elapsed_s(text) is None


@pytest.mark.parametrize(
    "line",
    [
        "{",
        '{"current_steps": 10',
        '{"current_steps": true, "elapsed_time": "0:01:00"}',
        '{"current_steps": -1, "elapsed_time": "0:01:00"}',
        '{"current_steps": 10, "eval_loss": 1.0, "elapsed_time": "0:01:00"}',
        '{"current_steps": ' + "[" * 5000,
        '{"current_steps": ' + "9" * 5000 + ', "elapsed_time": "0:01:00"}',
        '["current_steps"]',
    ],
)
def test_what_is_no_step_of_llama_factory(line: str) -> None:
    assert formats.llamafactory(line) is None


@pytest.mark.parametrize(
    ("line", "reading"),
    [
        ("  0%|   | 12/1000 [01:23<10:00,  3.45s/it]", Reading("tqdm", 12, total=1000, elapsed_s=83, bar=" of 1000")),
        (
            " 1%|#| 12/1000 [1:01:23<1 day, 10:00:00,  3.45it/s, loss=1.2]",
            Reading("tqdm", 12, 1000, None, 3683, bar=" of 1000"),
        ),
        ("Epoch 2:  5%|#| 5/100 [00:10<00:20, 1.0it/s]", Reading("tqdm", 205, 0, None, 10, bar="Epoch of 100")),
        ("0:  5%|#| 5/100 [00:10<00:20, 1.0it/s]", Reading("tqdm", 5, 100, None, 10, bar=" of 100")),
    ],
)
def test_progress_bars(line: str, reading: Reading) -> None:
    assert formats.tqdm(line) == reading


@pytest.mark.parametrize(
    "name", ["Map", "Loading checkpoint shards", "Evaluating", "Running tokenizer on dataset (num_proc=8)"]
)
def test_bars_that_train_nothing(name: str) -> None:
    assert formats.tqdm(f"{name}:  5%|#| 5/100 [00:10<00:20, 1.0it/s]") is None


def test_of_bars_in_one_line_the_last_counts() -> None:
    line = "Map: 100%|#| 9/9 [00:01<00:00, 9.0it/s]  5%|#| 5/100 [00:10<00:20, 1.0it/s]"
    said = formats.tqdm(line)
    assert said is not None
    assert (said.iteration, said.total) == (5, 100)


@pytest.mark.parametrize(
    ("line", "who"),
    [
        ("3:  iteration", "3"),
        ("vm-07-14: text", "vm-07-14"),
        ("[default3]:[rank11]: text", "default3"),
        ("[2026-01-16 07:32:24] iteration", ""),
        ("2026-01-16T07:32:24 iteration", ""),
        ("07:32:24 text", ""),
        (" iteration 1/ 5 |", ""),
    ],
)
def test_sender(line: str, who: str) -> None:
    assert sender(line) == who


def test_times() -> None:
    early, late = stamp("[2026-01-16 23:59:58,123] x"), stamp("1: 2026-01-17T00:00:01+08:00] y")
    assert early is not None
    assert late is not None
    assert (early.text, late.s - early.s) == ("2026-01-16 23:59:58", 3)
    assert stamp("2026-13-99 00:00:00") is None
    assert stamp("x" * 120 + "2026-01-16 00:00:00") is None


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("  seq_length ...................................... 4096", ("sequence", 4096)),
        ("0:   world_size ...................................... 64", ("world", 64)),
        ("using world size: 64, data-parallel size: 8, context-parallel size: 1", ("world", 64)),
        ("  Total train batch size (w. parallel, distributed & accumulation) = 1,024", ("batch", 1024)),
        ("  hidden_size ...................................... 4096", None),
        ("  seq_length ...................................... None", None),
    ],
)
def test_settings_of_the_start_up_text(line: str, said: tuple[str, int] | None) -> None:
    assert marks.setting(line) == said


def test_marks_by_their_words() -> None:
    assert marks.mark("  successfully saved checkpoint from iteration   100 to /ckpt") == "checkpoint"
    assert marks.mark("***** Running training *****") == "start"
    assert marks.mark("[after training is done] datetime: 2026-03-02 09:00:00") == "finished"
    assert marks.mark("srun: error: gpu07: task 3: Killed") == "died"
    assert marks.mark("lm loss is fine") == ""


def test_lines_are_cut_at_returns_and_bounded() -> None:
    splitter = LineSplitter()
    assert list(splitter.feed(b"one\rtwo\r\nth")) == ["one", "two"]
    assert list(splitter.feed(b"ree\n\0\xff\n")) == ["three", "\ufffd"]
    long = b"x" * (1 << 20)
    for _ in range(10):
        assert list(splitter.feed(long)) == []
        assert len(splitter._rest) <= len(long) + MOST_BYTES
    assert [len(line) for line in splitter.feed(b"\n")] == [MOST_BYTES]


def test_a_tail_without_its_end_counts_only_when_it_is_whole() -> None:
    splitter = LineSplitter()
    assert list(splitter.feed(b"a |")) == []
    assert list(splitter.end()) == ["a |"]
    assert list(splitter.feed(b"a 12")) == []
    assert list(splitter.end()) == []


@pytest.mark.parametrize(
    ("line", "iteration", "seconds"),
    [
        ("iter 120: loss 4.3214, time 245.10ms, mfu 23.10%", 120, 0.2451),
        ("step 00100/05000 (2.00%) | loss: 4.5 | dt: 250.00ms | tok/sec: 1,000", 100, 0.25),
        ("[2026-03-02 08:00:00] step 120/2000 loss 2.31 lr 1e-4 0.32 it/s", 120, 3.125),
        ("Step: 7, loss: 2.3, 3.10 s/step", 7, 3.1),
        ("train: global_step=9 loss=2.1 step_time=3.12s grad=1", 9, 3.12),
    ],
)
def test_any_line_with_a_step_and_its_time_or_rate(line: str, iteration: int, seconds: float) -> None:
    said = formats.steps(line)
    assert said is not None
    assert (said.iteration, said.seconds) == (iteration, pytest.approx(seconds))


@pytest.mark.parametrize(
    "line",
    [
        "step: 10 saved checkpoint in time: 12.1s",
        "step 100: eval loss 2.31, time 12.1s",
        "Iteration 100 done",
        "time: 3.1s",
        "step 3.5 took 2 s",
        " 10%|#   | step 3/30 [00:01<00:02,  2.1it/s]",
    ],
)
def test_a_time_of_something_else_is_no_step(line: str) -> None:
    assert formats.steps(line) is None


@pytest.mark.parametrize("unit", ["s/it", "it/s", "s/step", "steps/s", "batch/s"])
def test_the_units_of_bars(unit: str) -> None:
    said = formats.tqdm(f" 12%|#2        | 120/1000 [02:10<16:13,  1.08{unit}, loss=2.1]")
    assert said is not None
    assert (said.iteration, said.elapsed_s) == (120, 130)


def test_times_without_a_year_take_that_of_the_line_before() -> None:
    before = stamp("[2026-12-31 23:59:30] iteration 1")
    glog = stamp("[rank3]:[E0101 00:29:30.118204311 ProcessGroupNCCL.cpp:616] [Rank 3] Watchdog", before)
    syslog = stamp("Dec 31 23:59:40 gpu07 kernel: NVRM: Xid", before)
    assert before is not None
    assert glog is not None
    assert syslog is not None
    assert (glog.text, glog.s - before.s) == ("2027-01-01 00:29:30", 1800)
    assert syslog.s - before.s == 10
    assert stamp("[E0101 00:29:30.118 x.cpp:1] y") is None


@pytest.mark.parametrize("written", ["2026/03/02 08:00:00", "03/02/2026 08:00:00"])
def test_other_ways_to_write_a_date(written: str) -> None:
    said = stamp(f"{written} - INFO - step")
    assert said is not None
    assert said.text == "2026-03-02 08:00:00"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("Iter(train) [ 120/9000]  lr: 1.0e-05  time: 2.5000  data_time: 0.0077  loss: 2.69", (120, 9000, 2.5)),
        ("Epoch(train) [3][ 40/500]  lr: 1.0e-05  loss: 2.69  time: 0.25", (1040, 0, 0.25)),
        ("Epoch(train) [3][ 40/500]  lr: 1.0e-05  data_time: 0.25  loss: 2.69", None),
        ("Epoch(val) [3][ 40/500]  data_time: 0.01  time: 0.06", None),
        ("Iter(train) [ 120/9000]  loss: 2.69", None),
    ],
)
def test_mmengine(line: str, said: tuple[int, int, float] | None) -> None:
    reading = formats.mmengine(f"2026/03/02 08:00:00 - mmengine - INFO - {line}")
    assert (reading and (reading.iteration, reading.total, reading.seconds)) == said


def test_verls_step_without_its_evaluation_and_checkpoint() -> None:
    line = "step:40 - timing_s/save_checkpoint:12.5 - timing_s/testing:30.0 - timing_s/step:102.5 - perf/x:1"
    assert formats.verl(f"(TaskRunner pid=7) {line}") == Reading("verl", 40, seconds=60.0)
    assert formats.verl("step:0 - val/reward:0.1 - timing_s/testing:30.0") is None
    assert formats.verl("global_step:40 - timing_s/step:102.5") is None


@pytest.mark.parametrize(
    ("fields", "seconds"),
    [
        ('"step_time": 3.5', 3.5),
        ('"perf/time_per_step": 3.5', 3.5),
        ('"iteration_time_ms": 3500', 3.5),
        ('"elapsed time per iteration (ms)": 3500.0', 3.5),
        ('"train_step_timing in s": 3.5', 3.5),
        ('"timing_s/step": 3.5', 3.5),
        ('"data_time": 0.1, "time": 3.5, "loss": 1.0', 3.5),
        ('"data_time": 0.1, "time": 3.5, "accuracy": 0.5', None),
        ('"steps_per_sec": 3.5', None),
        ('"iter_per_sec": 3.5', None),
        ('"eval_step_time": 3.5', None),
        ('"optimizer_step_time": 3.5', None),
        ('"tokens_per_second": 3.5', None),
        ('"step_time": NaN', None),
        ('"step_time": "3 s"', None),
        ('"step_time": true', None),
    ],
)
def test_a_field_of_json_is_known_by_the_words_of_its_name(fields: str, seconds: float | None) -> None:
    reading = metrics('{"step": 7, "max_steps": 90, ' + fields + "}")
    assert reading == (None if seconds is None else Reading("json", 7, total=90, seconds=seconds))


@pytest.mark.parametrize(
    ("fields", "since"),
    [
        ('"_runtime": 812.5, "_timestamp": 1772438400.0', 812.5),
        ('"_timestamp": 1772438400.5', 1772438400.5),
        ('"time": "2026-03-02T08:00:00.123Z"', 1772438400.0),
        ('"time": 12', None),
        ('"time": "later"', None),
    ],
)
def test_json_without_the_time_of_a_step_is_read_by_its_clock(fields: str, since: float | None) -> None:
    reading = metrics('{"_step": 7, "loss": 1.5, ' + fields + "}")
    assert (reading and reading.elapsed_s) == since


@pytest.mark.parametrize(
    "line", ["{", "[7]", '{"step": 7.5, "step_time": 1}', '{"step": "x"}', "{" * 20_000, '{"a": 1}']
)
def test_what_is_no_record_of_a_step(line: str) -> None:
    assert metrics(line) is None
