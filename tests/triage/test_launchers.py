"""Who ended first, where only a launcher or Kubernetes says so: torchrun, Open MPI 4 and 5, `kubectl describe`."""

import pytest
from support.job_logs import iteration, judge, torchrun_report

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
NOT_STARTED = "Communication connection failure"
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


def first(process: str) -> list[str]:
    return [
        "prterun detected that one or more processes exited with non-zero status,",
        "thus causing the job to be terminated. The first process to do so was:",
        *("", f"   Process name: {process}", "   Exit code:    137"),
    ]


def crashed(by: str, wrap: str, prefix: str) -> list[str]:
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
    "the node on which Slurm could not start a task": (
        [
            f"srun: error: Task launch for StepId=47.0 failed on node gpu-8: {NOT_STARTED}",
            f"srun: error: {NOT_STARTED}",
        ],
        {**HOST, "node": "gpu-8"},
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
