"""What a program is told to do with a job: wait, stop, restart without which nodes, or fix something first."""

import pytest
from support.job_logs import iteration, judge, kernel, times_out, xid
from support.schemas import read_output

from nodegate.triage import render

BROKEN = kernel("15:36:05.0", xid("0000:9b:00", 48, "DBE"))
RESTART = (
    "2026-08-10 15:30:00 slurmstepd: error: *** JOB 7 ON gpu-001 CANCELLED AT 2026-08-10T15:30:00 DUE TO {why} ***"
)
CASES = {
    "a fault of a node that is sure": (
        {"dmesg-gpu08.txt": [BROKEN], "gpu08.log": [iteration("15:36:04.0", 9)]},
        {"do": "restart", "without": ["gpu08"], "exclude": "--exclude=gpu08", "sure": True},
    ),
    "a fault that is perhaps a node's": (
        {"gpu08.log": ["[rank1]: RuntimeError: CUDA error: unknown error"]},
        {"do": "restart", "without": [], "exclude": "", "sure": False},
    ),
    "a fault of the program": (
        {"gpu08.log": ["[rank1]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 3.38 GiB."]},
        {"do": "fix", "without": [], "sure": True},
    ),
    "a hang": ({"rank0.log": [times_out(0, "15:46:05.0")]}, {"do": "stop", "without": [], "sure": False}),
    "an error that is not known": (
        {"rank0.log": ["acme.pipeline.ShardError: shard 3 has no manifest"]},
        {"do": "restart", "without": [], "sure": False},
    ),
    "the scheduler ended the job": ({"job.log": [RESTART.format(why="PREEMPTION")]}, {"do": "restart", "without": []}),
    "a pod waits for a node": (
        {"events.txt": ["5m  Warning  FailedScheduling  pod/w-0  0/3 nodes are available: 3 Insufficient gpu."]},
        {"do": "wait", "without": []},
    ),
    "nothing failed": ({"rank0.log": [iteration("15:36:04.0", 9), iteration("15:36:05.0", 10)]}, {"do": "wait"}),
}


@pytest.mark.parametrize("name", CASES)
def test_the_advice_is(name, tmp_path):
    logs, expected = CASES[name]
    given = read_output(render.as_json(judge(tmp_path, logs)))["advice"]
    assert {key: given[key] for key in expected} == expected


@pytest.mark.parametrize(
    ("line", "asked"),
    [
        ("[rank1]: RuntimeError: CUDA error: an illegal memory access was encountered", True),
        ("[rank1]: RuntimeError: CUDA error: uncorrectable ECC error encountered", True),
        ("OSError: [Errno 28] No space left on device: '/data/ckpt.pt'", False),
        ("ModuleNotFoundError: No module named 'apex'", False),
    ],
)
def test_a_kernel_log_is_asked_for_only_where_it_could_say_more(tmp_path, line, asked):
    said = render.text(judge(tmp_path, {"rank1.log": [line]}))
    assert ("no kernel log was given" in said) is asked


def test_a_long_first_line_keeps_its_end(tmp_path):
    line = f"[rank1]: RuntimeError: CUDA error: uncorrectable ECC error encountered {'x' * 200} on GPU 0000:9b:00.0"
    said = render.text(judge(tmp_path, {"rank1.log": [line]}))
    assert "uncorrectable ECC" in said
    assert "on GPU 0000:9b:00.0" in said


LOADS = [f"2026-08-10 15:36:0{second} loading shard {second}, password=Tr0ub4dor&3" for second in range(1, 8)]
SHARD = "acme.pipeline.ShardError: shard 7 has no manifest"


@pytest.mark.parametrize("error", [SHARD, "terminate called after throwing an instance of 'acme::Shard'"])
def test_the_lines_around_an_error_that_no_row_knows_are_printed(tmp_path, error):
    answer = judge(tmp_path, {"rank0.log": [*LOADS, error, "  what():  shard 7", "exit", "later"]}, failed=True)
    assert [(each.line, each.text[:31]) for each in answer.worth] == [
        *((second, f"2026-08-10 15:36:0{second} loading sha") for second in range(3, 8)),
        (9, "what(): shard 7"),
        (10, "exit"),
    ]
    said = render.text(answer)
    assert "line " in said
    assert "Tr0ub4dor" not in said
    assert "lines before it" not in said


def test_they_are_not_printed_beside_an_error_that_is_known(tmp_path):
    answer = judge(tmp_path, {"rank0.log": [*LOADS, "RuntimeError: CUDA error: uncorrectable ECC error encountered"]})
    assert answer.worth == ()
