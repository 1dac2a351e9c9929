"""What shows that a job is well: growing counts of steps, a working service, a known ending; else "cannot tell"."""

# ruff: noqa: RUF001 - Chinese punctuation
import re

import pytest
from support.job_logs import answered

from nodegate.knowledge.tables import rows


def steps(form):
    """Eight lines of a trainer, a minute apart; the rows of a table have no time."""
    clock = "" if form.startswith("{0}") else "2026-08-10 07:0{0}:00 "
    return [(clock + form).format(number) for number in range(1, 9)]


# Each from the format string of the program that is named.
GOES_ON = {
    "mmengine": "mmengine - INFO - Iter(train) [ {0}00/160000]  lr: 1.0e-04  eta: 1 day  time: 0.5  loss: 1.2",
    "transformers": "{{'loss': 2.31, 'grad_norm': 0.8, 'learning_rate': 2e-05, 'epoch': 0.{0}}}",
    "tqdm": "Training:  {0}%|#   | {0}/100 [00:0{0}<12:12,  7.3s/it]",
    "torchtitan": "[titan] root - INFO - step: {0}  loss:  9.1  grad_norm:  1.2  memory: 40.1GiB(51%)  tps: 8,001",
    "nanogpt": "iter {0}: loss 3.21, time 210.12ms, mfu 41.10%",
    "verl": "step:{0} - actor/pg_loss:0.1 - critic/score/mean:0.5",
    "deepspeed": "[Rank 0] step={0}0, skipped=0, lr=[2e-05], mom=[(0.9, 0.95)]",
    "maxtext": "completed step: {0}, seconds: 3.012, TFLOP/s/device: 401.1, loss: 7.1",
    "lightning": "Epoch 0:  {0}%|#  | {0}/900 [00:10<10:00,  0.9it/s, loss=0.1]",
    "fairseq": "| epoch 001 | loss 7.1 | num_updates {0}00 | wps 100",
    "nccl-tests": "{0}048576       262144     float     sum      -1   52.1   20.1   37.7      0  51.9  20.2   37.8  0",
    "a loop in Chinese": "第 {0} 步，损失 2.31，学习率 0.0001",
}


@pytest.mark.parametrize("form", GOES_ON)
def test_a_growing_count_is_progress(tmp_path, form):
    answer = answered(tmp_path, *steps(GOES_ON[form]))
    assert (answer.sentence.en, answer.recognised) == ("no error in these logs", True)


@pytest.mark.parametrize("row", rows("healthy_lines.csv"), ids=lambda row: row["example"][:40])
def test_each_healthy_line_is_one_and_names_its_source(tmp_path, row):
    assert row["kind"] in {"ends", "works"}
    assert row["source"]
    assert re.search(row["pattern"], row["example"])
    answer = answered(tmp_path, "starts", row["example"])
    assert answer.sentence.en == "no error in these logs"


NOT_WELL = {
    "nothing at all": ["reading the configuration", "building the model"],
    "a count of attempts": [f"retry {number}/9 of the connection" for number in range(8)],
    "a count of those that are waited for": [f"waiting: {number}/9 ranks" for number in range(8)],
    "shards that are loaded": [f"Loading checkpoint shards: {number}/9" for number in range(8)],
    "the same step again and again": ["step: 7 loss: 3.1"] * 8,
    "steps, then half an hour of something else": [*steps("step: {0} loss"), "2026-08-10 07:40:00 still here"],
    "steps, then a failure that nobody knows": [*steps("step: {0} loss"), "2026-08-10 07:09:01 lost the quorum"],
    "steps, then a failure in Chinese": [*steps("step: {0} loss"), "2026-08-10 07:09:01 无法连接到主节点"],
}


@pytest.mark.parametrize("name", NOT_WELL)
def test_what_was_not_recognised_is_cannot_tell(tmp_path, name):
    answer = answered(tmp_path, *NOT_WELL[name])
    assert answer.sentence.en.startswith("cannot tell: ")
    assert answer.sentence.zh.startswith("无法判断：")
    assert (answer.failed, answer.cause.value, answer.sure, answer.recognised) == (True, "unknown", False, False)
    assert answer.worth[-1].text


def test_what_is_worth_reading_is_there_with_its_line(tmp_path):
    lines = [
        "begins",
        "worker-3 has the address 10.4.0.12",
        *(f"noise {'x' * (number % 7)}" for number in range(80)),
        "LeaderError at the quorum",
        "more",
        "more of it",
        "and more",
        "the end",
    ]
    answer = answered(tmp_path, *lines)
    told = {worth.line: worth.text for worth in answer.worth}
    assert told[2] == "worker-3 has the address 10.4.0.12"
    assert told[83] == "LeaderError at the quorum"
    assert told[87] == "the end"


def test_a_hostile_line_is_cut_and_hides_no_secret(tmp_path):
    answer = answered(tmp_path, "lost at host 10.1.1.1 " + "y" * 100_000, "password=hunter2hunter2 refused by host a1")
    assert all(len(worth.text) <= 300 for worth in answer.worth)
    assert "hunter2" not in " ".join(worth.text for worth in answer.worth)
