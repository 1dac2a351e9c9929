"""What a lost worker leaves in a log: its last words without a time, another's report of it, noise of Python's exit."""

import pytest
from support.job_logs import answered, iteration, times_out

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


def test_an_error_after_which_its_worker_is_silent_ended_the_rank_that_is_missing(tmp_path):
    found = answered(tmp_path, *worker_after_worker("[rank0]: ready", DENIED))
    assert found.sentence.en.startswith("perhaps host (moe-worker-0): a file or folder may not be used")
    assert (found.where.rank, found.where.pod) == (1, "moe-worker-0")
    assert found.overcome == ()


def test_an_error_after_which_its_worker_goes_on_is_none(tmp_path):
    goes_on = ("2026-08-10 07:05:00 the checkpoint is written again",)
    found = answered(tmp_path, *worker_after_worker(DENIED, of_the_first=goes_on))
    assert found.root is None or found.root.kind.id == "watchdog_timeout"
    assert found.overcome


@pytest.mark.parametrize("prefix", ["", "[rank1]: ", SECOND])
def test_what_python_ignores_is_no_error(tmp_path, prefix):
    found = answered(
        tmp_path,
        prefix + iteration("07:10:00", 500),
        *(
            prefix + line
            for line in (
                "Exception ignored in: <function _MultiProcessingDataLoaderIter.__del__ at 0x7f12aa>",
                "Traceback (most recent call last):",
                '  File "/opt/lib/dataloader.py", line 1477, in __del__',
                "    self._shutdown_workers()",
                "AssertionError: can only test a child process",
            )
        ),
    )
    assert (found.failed, found.sentence.en) == (False, "no error in these logs")


def test_the_same_error_without_this_sentence_is_one(tmp_path):
    traceback = ("Traceback (most recent call last):", "    self._shutdown_workers()")
    found = answered(tmp_path, iteration("07:10:00", 500), *traceback, "AssertionError: can only test a child process")
    assert found.cause is Cause.PROGRAM


JAX_ENDS = """\
{rank}: F0810 07:16:44.075587  157 client.h:77] Terminating process because the JAX distributed service detected fatal\
 errors. absl::Status: UNAVAILABLE: The following tasks are unhealthy (stopped sending heartbeats):
{rank}: /job:jax_worker/replica:0/task:5"""


def jax(*before):
    ends = [JAX_ENDS.format(rank=rank) for rank in range(3)]
    return ("0: I0810 07:16:00.123456 140 metric_logger.py:181] completed step: 9, seconds: 3.0", *before, *ends)


def test_the_task_that_jax_lost_is_named_and_not_those_that_report_it(tmp_path):
    found = answered(tmp_path, *jax(), name="slurm.out")
    assert (found.failed, found.cause, found.sure, found.where.rank) == (True, Cause.UNKNOWN, False, 5)
    assert "JAX lost this task" in found.sentence.en


def test_what_that_task_said_itself_is_the_reason(tmp_path):
    said = "5: jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 68719"
    found = answered(tmp_path, *jax(said), name="slurm.out")
    assert (found.cause, found.where.rank, found.root.kind.id) == (Cause.PROGRAM, 5, "cuda_oom")


def test_ray_names_the_address_of_the_node_that_it_lost(tmp_path):
    found = answered(
        tmp_path,
        "ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task.",
        "\tclass_name: Trainer",
        "\tpid: 2211",
        "\tip: 10.4.0.12",
        "The actor is dead because its node has died. Node Id: 56b97436e67393f1",
    )
    assert (found.cause, found.sure, found.where.node) == (Cause.HOST, False, "10.4.0.12")
