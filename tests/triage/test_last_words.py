"""What a lost worker leaves in a log: its last words without a time, another's report of it, noise of Python's exit."""

import pytest
from support.job_logs import iteration, judge, times_out

from nodegate.knowledge.words import Cause

FIRST, SECOND = "[pod/moe-worker-0/main] ", "[pod/moe-worker-1/main] "
DENIED = "[rank1]: PermissionError: [Errno 13] Permission denied: '/ckpt/iter_0000080'"


def worker_after_worker(*last_words, of_the_first=()):
    """Two workers of two ranks, one after the other: only the second prints iterations, and its ranks time out."""
    return (
        FIRST + "2026-08-10 07:00:01 starts, MASTER_ADDR=moe-worker-0",
        *(FIRST + line for line in (*last_words, *of_the_first)),
        SECOND + "2026-08-10 07:00:01 starts, MASTER_ADDR=moe-worker-0",
        *(SECOND + iteration(f"07:{minute:02}:00", minute) for minute in range(10, 30)),
        *(SECOND + times_out(rank, "07:39:50.118204311") for rank in (2, 3)),
    )


IGNORED = (
    "Exception ignored in: <function _MultiProcessingDataLoaderIter.__del__ at 0x7f12aa>",
    "Traceback (most recent call last):",
    '  File "/opt/lib/dataloader.py", line 1477, in __del__',
    "    self._shutdown_workers()",
    "AssertionError: can only test a child process",
)
JAX_ENDS = """\
{rank}: F0810 07:16:44.075587  157 client.h:77] Terminating process because the JAX distributed service detected fatal\
 errors. absl::Status: UNAVAILABLE: The following tasks are unhealthy (stopped sending heartbeats):
{rank}: /job:jax_worker/replica:0/task:5"""
JAX_MEMORY = "5: jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 68719"
RAY = (
    "ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task.",
    *("\tclass_name: Trainer", "\tpid: 2211", "\tip: 10.4.0.12"),
    "The actor is dead because its node has died. Node Id: 56b97436e67393f1",
)


def jax(*before):
    ends = [JAX_ENDS.format(rank=rank) for rank in range(3)]
    return ("0: I0810 07:16:00.123456 140 metric_logger.py:181] completed step: 9, seconds: 3.0", *before, *ends)


CASES = {
    "an error after which its worker is silent ended the rank that is missing": (
        worker_after_worker("[rank0]: ready", DENIED),
        {"says": "perhaps host (moe-worker-0): a file or folder may not be used", "rank": 1, "pod": "moe-worker-0"}
        | {"past": []},
    ),
    "an error after which its worker goes on is none": (
        worker_after_worker(DENIED, of_the_first=("2026-08-10 07:05:00 the checkpoint is written again",)),
        {"root": "watchdog_timeout", "past": ["file_denied"]},
    ),
    **{
        f"what Python ignores is no error {prefix}": (
            [prefix + line for line in (iteration("07:10:00", 500), *IGNORED)],
            {"failed": False, "says": "no error in these logs"},
        )
        for prefix in ("", "[rank1]: ", SECOND)
    },
    "without this sentence it is one": ([iteration("07:10:00", 500), *IGNORED[1:]], {"cause": Cause.PROGRAM}),
    "the task that JAX lost is named and not those that report it": (
        jax(),
        {"failed": True, "cause": Cause.UNKNOWN, "sure": False, "rank": 5, "says": "JAX lost this task"},
    ),
    "what the task said is the reason": (jax(JAX_MEMORY), {"cause": Cause.PROGRAM, "rank": 5, "root": "cuda_oom"}),
    "Ray names the address of the node that it lost": (RAY, {"cause": Cause.HOST, "sure": False, "node": "10.4.0.12"}),
}


@pytest.mark.parametrize(("lines", "expected"), CASES.values(), ids=CASES)
def test_what_a_lost_worker_leaves(tmp_path, lines, expected):
    judge(tmp_path, {"job.log": lines}, **expected)
