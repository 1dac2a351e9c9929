"""A cause, what only follows, and "cannot tell": which of the three, and that no more is claimed than was read."""

import pytest
from support.job_logs import iteration, joins, judge, kernel, remarks, times_out, write, xid

from nodegate.knowledge.words import Cause
from nodegate.triage import render

LOST = "GPU has fallen off the bus."
MEMORY_ERROR = {"root": "xid_48"}
SWITCH_AND_GPU = [
    kernel("15:36:05.0", "nvidia-nvswitch3: SXid (PCI:0000:c7:00.0): 24007, Fatal, Link 44 sourcetrack"),
    kernel("15:36:05.004000", xid("0000:3e:00", 79, LOST)),
]
CONNECT = (
    "2026-08-10 15:05:02 torch.distributed.DistNetworkError: The client socket has timed out after 300s while trying to"
    " connect to (w-0, 23456)."
)


def of_lines(folder, *lines, name="rank3.log"):
    return judge(folder, {name: lines})


def heartbeats(rank, minutes):
    return [f"[rank{rank}]: 2026-08-10 15:{minute:02}:00 waiting for the others" for minute in range(minutes)]


def codes(*order):
    return [kernel("15:36:05.0", xid("0000:3e:00", code, f"text {code}")) for code in order]


CASES = {
    "the end of a p2p test is no failure": (
        {
            "gpu01.log": [
                "Rank 1 received tensor: 7",
                "gpu01:1:2 [0] NCCL INFO [Service thread] Connection closed by localRank 0",
                "gpu01:1:2 [0] NCCL INFO comm 0x5 rank 0 nranks 2 cudaDev 0 busId 19000 - Abort COMPLETE",
            ]
        },
        {"says": "no error in these logs"},
    ),
    "a quiet worker beside progress is no hang": (
        {"gpu00.log": heartbeats(0, 20), "gpu01.log": [iteration(f"15:{at:02}:30.0", at + 1) for at in range(40)]},
        {"failed": False},
    ),
    "a watchdog's line of another shape is a time-out all the same": (
        {
            "job.log": [
                f"[Rank {rank}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=9, OpType::{operation},"
                " Timeout(ms)=60000)"
                for rank, operation in ((0, "ALLREDUCE"), (1, "ALLGATHER"), (2, "ALLGATHER"))
            ]
        },
        {"cause": Cause.PROGRAM, "rank": 0},
    ),
    "and of no shape": ({"job.log": ["Watchdog caught collective operation timeout"]}, {"failed": True}),
    "faults of programs without a time suspect no GPU": (
        {"dmesg-gpu09.txt": [xid("0000:3e:00", 31, f"pid=7, name={name}") for name in ("python3", "nbody", "bert")]},
        {"cause": Cause.PROGRAM},
    ),
    "the memory error stands above what it brings": ({"dmesg-gpu09.txt": codes(63, 94, 48)}, MEMORY_ERROR),
    "in whatever order": ({"dmesg-gpu09.txt": codes(94, 48, 63)}, MEMORY_ERROR),
    "a lost GPU stands above the switch errors before it": ({"dmesg-gpu09.txt": SWITCH_AND_GPU}, {"root": "xid_79"}),
    "or after it": ({"dmesg-gpu09.txt": SWITCH_AND_GPU[::-1]}, {"root": "xid_79"}),
    "the Xid that a line blames is the cause though its own line is gone": (
        {"dmesg-gpu09.txt": [kernel("15:36:05.0", xid("0000:3e:00", 45, "pid=7, name=x, caused by previous Xid 145"))]},
        {"root": "xid_145"},
    ),
    "a kernel message without a date is a suspicion": (
        {
            "gpu09.log": [iteration("15:36:00.0", 5), "[rank3]: RuntimeError: CUDA error: unknown error"],
            "dmesg-gpu09.txt": [f"[ 1234.500000] NVRM: Xid (PCI:0000:3e:00): 79, pid=1, {LOST}"],
        },
        {"cause": Cause.HARDWARE, "sure": False, "node": "gpu09"},
    ),
    "a bare Killed at the end of a log is explained by the kernel after the last time": (
        {
            "gpu09.log": [iteration("15:36:00.0", 5), "Killed"],
            "dmesg-gpu09.txt": [kernel("15:36:55.0", "Memory cgroup out of memory: Killed process 77 (python3)")],
        },
        {"cause": Cause.HOST, "sure": True, "root": "oom_cgroup"},
    ),
    "a fault that may have come after the program's own error is a suspicion": (
        {
            "gpu09.log": [iteration("15:36:00.0", 5), "[rank3]: KeyError: 'attention_mask'"],
            "gpu10.log": [iteration("15:36:00.0", 5), "2026-08-10 15:50:00 INFO still waiting"],
            "dmesg-gpu10.txt": [kernel("15:45:00.0", xid("0000:3e:00", 79, LOST))],
        },
        {"sure": False, "fine": False},
    ),
}


@pytest.mark.parametrize(("files", "expected"), CASES.values(), ids=CASES)
def test_what_is_claimed(tmp_path, files, expected):
    judge(tmp_path, files, **expected)


@pytest.mark.parametrize(
    "line",
    [
        "[rank3]: acme.pipeline.ShardError: shard 3 has no manifest",
        "RuntimeError: the frobnicator is not ready",
        "2026-08-10 15:30:00 OSError: [Errno 71] something of its own",
    ],
)
def test_an_error_that_nobody_knows_says_nothing_of_the_nodes(tmp_path, line):
    found = of_lines(tmp_path, line)
    assert (found.failed, found.cause, found.sure, found.nodes_fine) == (True, Cause.UNKNOWN, False, False)
    assert found.sentence.en.startswith("cannot tell (rank 3): ")
    assert found.sentence.zh.startswith("无法判断")
    assert line.rpartition(": ")[2] in found.sentence.en


def test_a_rank_without_a_heartbeat_is_named_and_is_not_the_cause_itself(tmp_path):
    line = (
        "2026-08-10 15:33:00 [WARNING] [RankMonitorServer:34] Did not get subsequent heartbeat. Waited 171.92 seconds."
    )
    found = judge(tmp_path, {"job.log": [iteration("15:30:00.0", 150), line]}, cause=Cause.UNKNOWN, sure=False)
    (group,) = found.followed
    assert group.ranks == (34,)


def test_an_old_kernel_is_told_beside_a_hang(tmp_path):
    old = "Detected kernel version 4.18.0, which is below the recommended minimum of 5.5.0; this can cause a hang."
    found = of_lines(tmp_path, old, times_out(0, "15:46:05.7"))
    assert any("4.18.0, below 5.5" in reason.en for reason in found.why)


def test_the_worker_that_started_late_is_told_and_the_master_is_where_to_look(tmp_path):
    files = {"w-0.log": ["2026-08-10 15:08:30 RANK: 0 MASTER_ADDR=w-0 calls torchrun"]}
    for worker in (1, 2):
        calls = f"2026-08-10 15:00:0{worker} RANK: {worker} MASTER_ADDR=w-0 calls torchrun"
        files[f"w-{worker}.log"] = [calls, CONNECT]
    found = judge(tmp_path, files, cause=Cause.HOST, sure=False, node="w-0", fine=False)
    assert any("worker 0) came to its launcher 8 min 29 s after the first worker" in reason.en for reason in found.why)


@pytest.mark.parametrize(
    "line",
    [
        "[E810 15:36:05.945860779 Trainer.cpp:12] stage 2 stopped",
        "2026-08-10 15:30:00 | ERROR | stage 2 stopped",
        "FATAL: cannot open the world",
        "worker 7: failed to open the door",
        "Traceback (most recent call last):",
        "free(): invalid pointer; Aborted (core dumped)",
    ],
)
def test_a_line_that_looks_like_an_error_forbids_the_word_that_there_is_none(tmp_path, line):
    found = of_lines(tmp_path, iteration("15:30:00.0", 10), line)
    assert (found.failed, found.cause) == (True, Cause.UNKNOWN)
    assert found.sentence.en.startswith("cannot tell")


def test_a_training_that_came_to_its_end_is_healthy(tmp_path):
    found = of_lines(
        tmp_path,
        *joins("gpu01", 0, 0, 1, address="10.9.0.1"),
        iteration("15:36:00.0", 200),
        "a shard failed to be written and was written again",
        "[after training is done] datetime: 2026-08-10 15:36:06",
        "gpu01:1:2 [0] NCCL INFO [Service thread] Connection closed by localRank 0",
        "gpu01:1:2 [0] NCCL INFO comm 0x5 rank 0 nranks 1 cudaDev 0 busId 19000 - Destroy COMPLETE",
        name="gpu01.log",
    )
    assert not found.failed
    assert "the training came to its end" in [reason.en for reason in found.why]


def test_a_fault_under_a_clock_without_a_zone_keeps_the_nodes_from_being_called_fine(tmp_path):
    write(tmp_path, "gpu09.log", iteration("15:36:00.0", 5), "[2026-08-10 15:36:20.0] KeyError: 'attention_mask'")
    write(tmp_path, "dmesg-gpu09.txt", "[Mon Aug 10 21:10:07 2026] NVRM: Xid (PCI:0000:3e:00): 79, GPU has fallen off.")
    found = judge(tmp_path, {})
    assert (found.cause, found.nodes_fine) == (Cause.PROGRAM, False)
    assert "fine" not in render.text(found)
    assert any("of another time than the job" in note for note in remarks(found))
    write(tmp_path, "dmesg-gpu09.txt", "[Mon Aug  3 21:10:07 2026] NVRM: Xid (PCI:0000:3e:00): 79, GPU has fallen off.")
    assert judge(tmp_path, {}).nodes_fine
