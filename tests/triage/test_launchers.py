"""Who ended first, where only a launcher or Kubernetes says so, and what a lost worker leaves in a log."""

import pytest
from support.job_logs import iteration, judge, times_out, torchrun_report

from nodegate.knowledge.words import Cause
from nodegate.triage import render

HOST, PROGRAM = {"cause": Cause.HOST}, {"cause": Cause.PROGRAM}
CRASH = (
    "[gpu-8:04711] *** Process received signal ***",
    "[gpu-8:04711] Signal: Segmentation fault (11)",
    "[gpu-8:04711] [ 0] /lib/x86_64-linux-gnu/libc.so.6(+0x3c050)[0x7f3c11]",
)
ENDED = "{by} noticed that process rank {rank} with PID 0 on node gpu-8 exited on{wrap}signal {signal}."
BOTH = [ENDED.format(by="mpirun", rank=rank, wrap=" ", signal="11 (Segmentation fault)") for rank in (10, 11)]
STEP_KILLED = "slurmstepd: error: Detected 1 oom_kill event in StepId=4.0. Some of the step tasks have been OOM Killed."
NO_DRIVER = (
    "slurmstepd: error: pyxis:     nvidia-container-cli: initialization error: nvml error: driver/library version"
)
NO_DRIVER += " mismatch"
DESCRIBED = """\
Name:             {pod}
Namespace:        lab
Node:             {node}/10.4.0.9
Containers:
  trainer:
    State:          Running
      Started:      Mon, 10 Aug 2026 07:41:02 +0000
    Last State:     Terminated
      Reason:       {reason}
      Exit Code:    {code}
      Started:      Mon, 10 Aug 2026 06:00:00 +0000
      Finished:     Mon, 10 Aug 2026 15:40:40 +0800
"""
NODE = """\
Name:               gpu-9
Roles:              <none>
Events:
  Warning  SystemOOM  4m   kubelet  System OOM encountered, victim process: python3, pid: 4711"""
PODS = [("moe-worker-0", "gpu-7", "Completed", 0), ("moe-worker-1", "gpu-8", "OOMKilled", 137)]


def first(process):
    return [
        "prterun detected that one or more processes exited with non-zero status,",
        "thus causing the job to be terminated. The first process to do so was:",
        *("", f"   Process name: {process}", "   Exit code:    137"),
    ]


def crashed(by, wrap, prefix):
    said = ENDED.format(by=by, rank=11, wrap=wrap, signal="11 (Segmentation fault)").split("\n")
    return [prefix + line for line in (*CRASH, "-" * 74, *said, "-" * 74)]


CASES = {
    **{
        f"{by} names a crash{prefix}": (crashed(by, wrap, prefix), {**PROGRAM, "node": "gpu-8", "rank": 11})
        for by, wrap in (("mpirun", " "), ("prterun", "\n"))
        for prefix in ("", "mpi-launcher-0  | ")
    },
    "a rank that Open MPI saw killed is a suspicion of its host": (
        [ENDED.format(by="mpirun", rank=3, wrap=" ", signal="9 (Killed)")],
        {**HOST, "sure": False, "node": "gpu-8", "rank": 3},
    ),
    "a process of Open MPI 4 names the launcher's machine": (first("[[4871,1],6]"), {**HOST, "node": "", "rank": 6}),
    "and of Open MPI 5": (first("[prterun-login2-80749@1,6]"), {**HOST, "node": "", "rank": 6}),
    "two ranks of a node: no rank of it": ([*CRASH, BOTH[0], *"-------", BOTH[1]], {"node": "gpu-8", "rank": None}),
    "a call of MPI_Abort follows from an error above it": (
        ["MPI_ABORT was invoked on rank 5 in communicator MPI_COMM_WORLD", "with errorcode 1."],
        {"cause": Cause.UNKNOWN, "root": "", "says": "they show only what follows"},
    ),
    "what NCCL's watchdog throws is no error of its own": (
        ["terminate called after throwing an instance of 'c10::DistBackendError'"],
        {"root": "error_line"},
    ),
    **{
        f"Slurm names the task and node of an end: {why}": (
            [before, f"srun: error: gpu-8: task 13: {why}", "srun: error: gpu-7: tasks 0-7: Terminated"],
            {**HOST, "node": "gpu-8", "rank": 13},
        )
        for before, why in ((STEP_KILLED, "Out Of Memory"), ("the run begins", "Bus error (core dumped)"))
    },
    "an error without any place is of the one task that Slurm saw fail": (
        [NO_DRIVER, "srun: error: gpu-8: task 4: Exited with exit code 1", "srun: error: gpu-7: tasks 0-3: Terminated"],
        {**HOST, "node": "gpu-8", "rank": 4},
    ),
    "an event of a described node is of this node": (NODE.splitlines(), {**HOST, "node": "gpu-9", "pod": ""}),
}


@pytest.mark.parametrize(("lines", "expected"), CASES.values(), ids=CASES)
def test_who_ended_first(tmp_path, lines, expected):
    judge(tmp_path, {"launcher.out": lines}, **expected)


def test_a_cpp_exception_has_the_rank_that_torchrun_saw_end_on_its_node(tmp_path):
    throws = ("terminate called after throwing an instance of 'std::length_error'", "  what():  basic_string::append")
    files = {
        "gpu-7/job.log": [iteration("07:10:00", 8), *torchrun_report("gpu-7", 2, 2, -15, "07:10:09")],
        "gpu-8/job.log": [iteration("07:10:00", 8), *throws, *torchrun_report("gpu-8", 13, 5, -6, "07:10:04")],
    }
    said = "cannot tell (rank 13): a C++ exception that the program did not catch"
    assert judge(tmp_path, files, said, node="gpu-8", rank=13).where.local_rank == 5


def test_a_described_pod_has_its_name_its_node_and_the_time_of_its_end(tmp_path):
    texts = [DESCRIBED.format(pod=pod, node=node, reason=why, code=code) for pod, node, why, code in PODS]
    expected = {**HOST, "node": "gpu-8", "pod": "moe-worker-1"}
    found = judge(tmp_path, {"describe.txt": "\n\n".join(texts).splitlines()}, **expected)
    assert "2026-08-10 07:40:40.0 UTC" in render.text(found)


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


LEFT = {
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


@pytest.mark.parametrize(("lines", "expected"), LEFT.values(), ids=LEFT)
def test_what_a_lost_worker_leaves(tmp_path, lines, expected):
    judge(tmp_path, {"job.log": lines}, **expected)
