"""What a line says: the forms that frameworks have printed over the years, and what is no iteration."""

from functools import partial

import pytest

from nodegate.watch import marks
from nodegate.watch.formats import FORMATS, reader
from nodegate.watch.lines import MOST_BYTES, LineSplitter, sender, stamp
from nodegate.watch.metric_lines import metrics
from nodegate.watch.reading import Reading

TAIL = " | learning rate: 1.0E-04 | global batch size:    96 | lm loss: 2.1E+00 |"
MS, MS_OF_5 = "elapsed time per iteration (ms):", " iteration 5/ 100 | elapsed time per iteration (ms):"
NEMO = (
    "Training epoch 1, iteration 27/99 | lr: 0.00017 | global_batch_size: 32 | global_step: 127 | reduced_train_loss: 2"
)
TIMER = "global_step=1880, RunningAvgSamplesPerSec=6.6037, CurrSamplesPerSec=6."
MMENGINE = "2026/03/02 08:00:00 - mmengine - INFO - "
VERL = "step:40 - timing_s/save_checkpoint:12.5 - timing_s/testing:30.0 - timing_s/step:102.5 - perf/x:1"
PIPELINE = "steps: 200 loss: 5.5508 lm loss: 5.5103 moe loss: 0.0405"
MEGATRON = partial(Reading, "megatron", batch=96)


def tqdm(number, total, elapsed_s):
    return Reading("tqdm", number, total, None, elapsed_s, bar=f" of {total}")


def steps(number, total, seconds, kind):
    return Reading("steps", number, total, seconds, kind=kind)


@pytest.mark.parametrize(
    ("line", "reading"),
    [
        (f" iteration     7000/  159576 | {MS} 18706.1{TAIL}", MEGATRON(7000, 159576, 18.7061)),
        (f"3:  iteration       25/73242187 | {MS} 87.0{TAIL}", MEGATRON(25, 73242187, 0.087)),
        (f" [2026-01-02 03:04:05.12] iteration 5/ 100 | {MS} 15800.0{TAIL}", MEGATRON(5, 100, 15.8)),
        (f" iteration 2/   95367 | {MS.replace('ms', 's')} 769.99{TAIL}", MEGATRON(2, 95367, 769.99)),
        (
            f" iteration 6/ 100 | consumed tokens: 8388608 | {MS} 800.0 | actual seqlen:  2048 |",
            MEGATRON(6, 100, 0.8, batch=None, sequence=2048, tokens=8388608),
        ),
        (f"[2025-10-17T11:32:59Z] {NEMO} | train_step_timing in s: 2.389", Reading("nemo", 127, 0, 2.389, batch=32)),
        (f"{TIMER}25, MemAllocated=7.79GB, MaxMem", Reading("deepspeed", 1880, 0, 0.16, per="sample", alone=True)),
        (f"{PIPELINE} iter time (s): 0.936 samples/sec: 136.706", Reading("deepspeed-pipeline", 200, 0, 0.936)),
        ("  0%|   | 12/1000 [01:23<10:00,  3.45s/it]", tqdm(12, 1000, 83)),
        (" 1%|#| 12/1000 [1:01:23<1 day, 10:00:00,  3.45it/s, loss=1.2]", tqdm(12, 1000, 3683)),
        *(
            (f" 12%|#2     | 120/1000 [02:10<16:13,  1.08{unit}, a=2]", tqdm(120, 1000, 130))
            for unit in ("s/it", "it/s", "s/step", "steps/s", "batch/s")
        ),
        ("Epoch 2:  5%|#| 5/100 [00:10<00:20, 1.0it/s]", Reading("tqdm", 5, 0, None, 10, bar="Epoch of 100", lap=2)),
        ("0:  5%|#| 5/100 [00:10<00:20, 1.0it/s]", tqdm(5, 100, 10)),
        ("Map: 100%|#| 9/9 [00:01<00:00, 9.0it/s]  5%|#| 5/100 [00:10<00:20, 1.0it/s]", tqdm(5, 100, 10)),
        ("iter 120: loss 4.3214, time 245.00ms, mfu 23.10%", steps(120, 0, 0.245, "iter step")),
        ("step 00100/05000 (2.00%) | loss: 4.5 | dt: 250.00ms | tok/sec: 1,000", steps(100, 5000, 0.25, "step step")),
        ("[2026-03-02 08:00:00] step 120/2000 loss 2.31 lr 1e-4 0.32 it/s", steps(120, 2000, 3.125, "step rate")),
        (f"{MMENGINE}Iter(train) [ 120/9000]  time: 2.5000  data_time: 0.0077", Reading("mmengine", 120, 9000, 2.5)),
        (f"{MMENGINE}Epoch(train) [3][ 40/500]  loss: 2.69  time: 0.25", Reading("mmengine", 40, 0, 0.25, lap=3)),
        (f"(TaskRunner pid=7) {VERL}", Reading("verl", 40, 0, 60.0)),
    ],
)
def test_an_iteration(line, reading):
    read = reader(FORMATS[reading.source])
    assert reading in (read(line), read(line))  # a time that does not say of what must not rise


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("megatron", f"{MS_OF_5} 158"),  # cut
        ("megatron", f"{MS_OF_5} nan | lm loss: 1 |"),
        ("megatron", f"{MS_OF_5} -3.0 | lm loss: 1 |"),
        ("megatron", f"{MS_OF_5} 0.0 | lm loss: 1 |"),
        ("megatron", f"{MS_OF_5} 1e999 | lm loss: 1 |"),
        ("megatron", f" iteration \u0665/ 100 | {MS} 158.0 | lm loss: 1 |"),
        ("megatron", f" iteration 99999999999999999999/ 100 | {MS} 158.0 |"),
        ("megatron", "validation loss at iteration 100 | lm loss value: 8.09E+00 | lm loss PPL: 3.2E+03 |"),
        ("nemo", f"{NEMO} | train_step_timing in s: "),
        ("deepspeed", f"{TIMER}2"),  # cut
        ("llama-factory", '{"current_steps": 10'),
        ("llama-factory", '{"current_steps": -1, "elapsed_time": "0:01:00"}'),
        ("llama-factory", '{"current_steps": 10, "eval_loss": 1.0, "elapsed_time": "0:01:00"}'),
        ("llama-factory", '{"current_steps": ' + "[" * 5000),
        ("llama-factory", '{"current_steps": ' + "9" * 5000 + ', "elapsed_time": "0:01:00"}'),
        ("tqdm", "Map:  5%|#| 5/100 [00:10<00:20, 1.0it/s]"),
        ("tqdm", "Evaluating:  5%|#| 5/100 [00:10<00:20, 1.0it/s]"),
        ("steps", "step: 10 saved checkpoint in time: 12.1s"),
        ("steps", "step 100: eval loss 2.31, time 12.1s"),
        ("steps", "Iteration 100 done"),
        ("steps", " 10%|#   | step 3/30 [00:01<00:02,  2.1it/s]"),
        ("mmengine", f"{MMENGINE}Epoch(train) [3][ 40/500]  lr: 1.0e-05  data_time: 0.25  loss: 2.69"),
        ("mmengine", f"{MMENGINE}Epoch(val) [3][ 40/500]  data_time: 0.01  time: 0.06"),
        ("mmengine", f"{MMENGINE}Iter(train) [ 120/9000]  loss: 2.69"),
        ("verl", "step:0 - val/reward:0.1 - timing_s/testing:30.0"),
        ("verl", "global_step:40 - timing_s/step:102.5"),
        *(
            ("json", line)
            for line in ("{", "[7]", '{"step": 7.5, "step_time": 1}', '{"step": "x"}', "{" * 20_000, '{"a": 1}')
        ),
    ],
)
def test_no_iteration(name, line):
    assert reader(FORMATS[name])(line) is None


@pytest.mark.parametrize(
    ("line", "who"),
    [
        ("3:  iteration", "3"),
        ("vm-07-14: text", "vm-07-14"),
        ("[default3]:[rank11]: text", "default3"),
        ("[2026-01-16 07:32:24] iteration", ""),
        ("2026-01-16T07:32:24 iteration", ""),
        (" iteration 1/ 5 |", ""),
    ],
)
def test_sender(line, who):
    assert sender(line) == who


def test_times():
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
        ("  seq_length ...................................... None", None),
    ],
)
def test_settings_of_the_start_up_text(line, said):
    assert marks.setting(line) == said


def test_marks_by_their_words():
    assert marks.mark("  successfully saved checkpoint from iteration   100 to /ckpt") == "checkpoint"
    assert marks.mark("***** Running training *****") == "start"
    assert marks.mark("[after training is done] datetime: 2026-03-02 09:00:00") == "finished"
    assert marks.mark("srun: error: gpu07: task 3: Killed") == "died"
    assert marks.mark("lm loss is fine") == ""


def test_lines_are_cut_at_returns_and_bounded():
    splitter = LineSplitter()
    assert list(splitter.feed(b"one\rtwo\r\nth")) == ["one", "two"]
    assert list(splitter.feed(b"ree\n\0\xff\n")) == ["three", "\ufffd"]
    long = b"x" * (1 << 20)
    for _ in range(10):
        assert list(splitter.feed(long)) == []
        assert len(splitter._rest) <= len(long) + MOST_BYTES
    assert [len(line) for line in splitter.feed(b"\n")] == [MOST_BYTES]


def test_a_tail_without_its_end_counts_only_when_it_is_whole():
    splitter = LineSplitter()
    assert list(splitter.feed(b"a |")) == []
    assert list(splitter.end()) == ["a |"]
    assert list(splitter.feed(b"a 12")) == []
    assert list(splitter.end()) == []


def test_times_without_a_year_take_that_of_the_line_before():
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
def test_other_ways_to_write_a_date(written):
    said = stamp(f"{written} - INFO - step")
    assert said is not None
    assert said.text == "2026-03-02 08:00:00"


@pytest.mark.parametrize(
    ("fields", "seconds"),
    [
        ('"step_time": 3.5', 3.5),
        ('"perf/time_per_step": 3.5', 3.5),
        ('"iteration_time_ms": 3500', 3.5),
        ('"elapsed time per iteration (ms)": 3500.0', 3.5),
        ('"timing_s/step": 3.5', 3.5),
        ('"data_time": 0.1, "time": 3.5, "loss": 1.0', 3.5),
        ('"data_time": 0.1, "time": 3.5, "accuracy": 0.5', None),
        ('"steps_per_sec": 0.25', 4.0),
        ('"perf/iter_per_sec": 0.25', 4.0),
        ('"eval_step_time": 3.5', None),
        ('"tokens_per_second": 3.5', None),
        ('"step_time": NaN', None),
        ('"step_time": "3 s"', None),
    ],
)
def test_a_field_of_json_is_known_by_the_words_of_its_name(fields, seconds):
    reading = metrics('{"step": 7, "max_steps": 90, ' + fields + "}")
    assert reading == (None if seconds is None else Reading("json", 7, total=90, seconds=seconds))


@pytest.mark.parametrize(
    ("fields", "since"),
    [
        ('"_runtime": 812.5, "_timestamp": 1772438400.0', 812.5),
        ('"_timestamp": 1772438400.5', 1772438400.5),
        ('"time": "2026-03-02T08:00:00.123Z"', 1772438400.0),
        ('"time": 12', None),
    ],
)
def test_json_without_the_time_of_a_step_is_read_by_its_clock(fields, since):
    reading = metrics('{"_step": 7, "loss": 1.5, ' + fields + "}")
    assert (reading and reading.elapsed_s) == since
