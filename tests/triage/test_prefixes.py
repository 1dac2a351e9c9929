"""A rank, node and time before a line's text, in the forms that launchers, log collectors and programs print."""

from __future__ import annotations

import pytest
from support.job_logs import judge

from nodegate.triage import place

SAID = "RuntimeError: CUDA error: uncorrectable ECC error encountered"
# prefix, rank, node, who prints it
FORMS = """\
[rank2]: |2||torch.distributed: exception hook
18:00:19.754 [rank2]: |2||loguru without a date
18:00:19,754 [rank2]: |2||Python logging with %H:%M:%S
[18:00:19] [rank2]: |2||rich.logging
2026-02-05 18:00:19,754 - INFO - [rank2]: |2||Python logging, the cookbook's format
[2026-02-05 18:00:19,754] [INFO] [rank2]: |2||DeepSpeed: deepspeed/utils/logging.py
2026-02-05 18:00:19.754 | ERROR    | __main__:step:88 - [rank2]: |2||loguru's default
  | 2026-02-05T18:00:19.754Z | [rank2]: |2||CloudWatch insights
1770314419.754 [rank2]: |2||ts -s of moreutils
Feb 05 18:00:19 [rank2]: |2||ts of moreutils
Feb 05 18:00:19 gpu-c-11 finetune[2210]: [rank2]: |2|gpu-c-11|journalctl -o short
2026-02-05T18:00:19.123456+00:00 gpu-c-11 finetune[2210]: [rank2]: |2|gpu-c-11|rsyslog's file format
[gpu-e-7:12345] [rank2]: |2|gpu-e-7|Open MPI: opal/util/output
[1,2]<stderr>:|2||mpirun --tag-output
[1,mpirank:2,algo-1]<stderr>:|2||SageMaker's MPI launcher
10.7.4.21: 10.7.4.21: [rank2]: |2|10.7.4.21|pdsh over DeepSpeed
gpu07: [rank2]: |2|gpu07|pdsh
stderr: [rank2]: |2||a wrapper's word
> [rank2]: |2||quoted in a mail
    [rank2]: |2||an indented block
[2]: |2||tmux and parallel tags
Rank 2 | |2||NeMo: rank zero filters
(Rank 2) |2||Colossal-AI: DistributedLogger
[trainer2|0]:|2||torchx: local scheduler
2: |2||srun --label
11-20 18:00:19 [rank2]: |2||a date without a year
18:00:19 INFO train.py:88] [rank2]: |2||absl with a bare clock
"""
CASES = [(line.rsplit("|", 3)[0], *line.rsplit("|", 3)[1:]) for line in FORMS.splitlines()]


@pytest.mark.parametrize(("prefix", "rank", "node", "_source"), CASES, ids=[case[3] for case in CASES])
def test_what_stands_before_a_text_names_its_rank_and_node(prefix, rank, node, _source):
    found = place.of_line(prefix + SAID)
    assert (found.rank, found.node, found.text) == (int(rank), node, SAID)


@pytest.mark.parametrize(
    "line",
    [
        "18:00:19.754 loss 2.1",
        "17:00:19 waiting",
        "[18:00:19] step 4 of rank 3's shard",
        "epoch 2: loss 0.3",
        "mlx5_2: link is up",
        "all 2 ranks | joined",
    ],
)
def test_a_clock_or_a_count_is_no_rank(line):
    assert place.of_line(line).rank is None


@pytest.mark.parametrize(
    ("name", "node"),
    [
        ("logs/gpu007/rank_12.log", "gpu007"),
        ("node-3.log", "node-3"),
        ("train12.log", ""),
        ("qwen72.log", ""),
        ("sft-32.out", ""),
        ("final02.log", ""),
        ("checkpoint500.log", ""),
    ],
)
def test_only_the_name_of_a_node_in_a_path_says_so_itself(name, node):
    found = place.of_path(name).node
    assert (found if place.is_node_word(found) else "") == node


@pytest.mark.parametrize("program", ["sft", "supervised_ft", "audit_llm", "tuned-llama", "slurmtrain", "nvidia-train"])
def test_a_job_in_the_journal_is_read_whatever_its_program_is_called(tmp_path, program):
    said = [
        f"Aug 10 18:00:1{second} gpu-c-11 {program}[2210]: [rank2]: {text}" for second, text in ((1, "x"), (2, SAID))
    ]
    found = judge(tmp_path, {"job.log": said})
    assert (found.root.kind.id, found.where.rank) == ("cuda_ecc", 2)
