"""Who ended first, where only a launcher or Kubernetes says so: torchrun, Open MPI 4 and 5, `kubectl describe`."""

from functools import partial

import pytest
from support.job_logs import answered, iteration, torchrun_report, write

from nodegate.knowledge.words import Cause
from nodegate.triage import render

CRASH = (
    "[gpu-r2-08:04711] *** Process received signal ***",
    "[gpu-r2-08:04711] Signal: Segmentation fault (11)",
    "[gpu-r2-08:04711] [ 0] /lib/x86_64-linux-gnu/libc.so.6(+0x3c050)[0x7f3c11]",
)
ENDED = "{by} noticed that process rank {rank} with PID 0 on node gpu-r2-08 exited on{wrap}signal {signal}."

judged = partial(answered, name="launcher.out")


@pytest.mark.parametrize("prefix", ["", "mpi-launcher-0  | "])
@pytest.mark.parametrize(("by", "wrap"), [("mpirun", " "), ("prterun", "\n")])
def test_open_mpi_names_node_and_rank_of_a_crash(tmp_path, prefix, by, wrap):
    said = ENDED.format(by=by, rank=11, wrap=wrap, signal="11 (Segmentation fault)").split("\n")
    found = judged(tmp_path, *(prefix + line for line in (*CRASH, "-" * 74, *said, "-" * 74)))
    assert (found.cause, found.where.node, found.where.rank) == (Cause.PROGRAM, "gpu-r2-08", 11)


def test_a_rank_that_open_mpi_saw_killed_is_a_suspicion_of_its_host(tmp_path):
    found = judged(tmp_path, ENDED.format(by="mpirun", rank=3, wrap=" ", signal="9 (Killed)"))
    assert (found.cause, found.sure, found.where.node, found.where.rank) == (Cause.HOST, False, "gpu-r2-08", 3)


@pytest.mark.parametrize("process", ["[[4871,1],6]", "[prterun-login2-80749@1,6]"])
def test_a_process_name_of_open_mpi_ends_with_its_rank_and_names_the_launchers_machine(tmp_path, process):
    found = judged(
        tmp_path,
        "prterun detected that one or more processes exited with non-zero status,",
        "thus causing the job to be terminated. The first process to do so was:",
        "",
        f"   Process name: {process}",
        "   Exit code:    137",
    )
    assert (found.cause, found.where.node, found.where.rank) == (Cause.HOST, "", 6)


def test_where_two_ranks_of_a_node_ended_the_crash_keeps_its_rank_unknown(tmp_path):
    both = [ENDED.format(by="mpirun", rank=rank, wrap=" ", signal="11 (Segmentation fault)") for rank in (10, 11)]
    found = judged(tmp_path, *CRASH, both[0], "-", "-", "-", "-", "-", "-", "-", both[1])
    assert (found.where.node, found.where.rank) == ("gpu-r2-08", None)


def test_a_call_of_mpi_abort_follows_from_an_error_above_it(tmp_path):
    found = judged(tmp_path, "MPI_ABORT was invoked on rank 5 in communicator MPI_COMM_WORLD", "with errorcode 1.")
    assert (found.cause, found.root) == (Cause.UNKNOWN, None)
    assert "they show only what follows" in found.sentence.en


def test_a_cpp_exception_has_the_rank_that_torchrun_saw_end_on_its_node(tmp_path):
    write(tmp_path, "gpu-r2-07/job.log", iteration("07:10:00", 8), *torchrun_report("gpu-r2-07", 2, 2, -15, "07:10:09"))
    found = judged(
        tmp_path,
        iteration("07:10:00", 8),
        "terminate called after throwing an instance of 'std::length_error'",
        "  what():  basic_string::append",
        *torchrun_report("gpu-r2-08", 13, 5, -6, "07:10:04"),
        name="gpu-r2-08/job.log",
    )
    assert found.sentence.en.startswith("cannot tell (rank 13): a C++ exception that the program did not catch")
    assert (found.where.node, found.where.rank, found.where.local_rank) == ("gpu-r2-08", 13, 5)


def test_what_nccls_watchdog_throws_is_no_error_of_its_own(tmp_path):
    found = judged(tmp_path, "terminate called after throwing an instance of 'c10::DistBackendError'")
    assert found.root is None or found.root.kind.id == "error_line"


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


def test_a_described_pod_has_its_name_its_node_and_the_time_of_its_end(tmp_path):
    pods = [("moe-worker-0", "gpu-r2-07", "Completed", 0), ("moe-worker-1", "gpu-r2-08", "OOMKilled", 137)]
    texts = [DESCRIBED.format(pod=pod, node=node, reason=why, code=code) for pod, node, why, code in pods]
    found = judged(tmp_path, *"\n\n".join(texts).splitlines(), name="describe.txt")
    assert (found.cause, found.where.node, found.where.pod) == (Cause.HOST, "gpu-r2-08", "moe-worker-1")
    assert "2026-08-10 07:40:40.0 UTC" in render.text(found)


def test_an_event_of_a_described_node_is_of_this_node(tmp_path):
    found = judged(
        tmp_path,
        "Name:               gpu-r2-09",
        "Roles:              <none>",
        "Events:",
        "  Warning  SystemOOM  4m   kubelet  System OOM encountered, victim process: python3, pid: 4711",
        name="describe.txt",
    )
    assert (found.cause, found.where.node, found.where.pod) == (Cause.HOST, "gpu-r2-09", "")


STEP_KILLED = "slurmstepd: error: Detected 1 oom_kill event in StepId=4.0. Some of the step tasks have been OOM Killed."


@pytest.mark.parametrize(
    ("before", "why"), [(STEP_KILLED, "Out Of Memory"), ("the run begins", "Bus error (core dumped)")]
)
def test_slurm_names_the_task_and_node_of_an_end(tmp_path, before, why):
    ends = (f"srun: error: gpu-r2-08: task 13: {why}", "srun: error: gpu-r2-07: tasks 0-7: Terminated")
    found = judged(tmp_path, before, *ends)
    assert (found.cause, found.where.node, found.where.rank) == (Cause.HOST, "gpu-r2-08", 13)


def test_an_error_without_any_place_is_of_the_one_task_that_slurm_saw_fail(tmp_path):
    found = judged(
        tmp_path,
        "slurmstepd: error: pyxis:     nvidia-container-cli: initialization error: nvml error: driver/library version"
        " mismatch",
        "srun: error: gpu-r2-08: task 4: Exited with exit code 1",
        "srun: error: gpu-r2-07: tasks 0-3: Terminated",
    )
    assert (found.cause, found.where.node, found.where.rank) == (Cause.HOST, "gpu-r2-08", 4)


def test_the_node_on_which_slurm_could_not_start_a_task(tmp_path):
    why = "Communication connection failure"
    found = judged(
        tmp_path,
        f"srun: error: Task launch for StepId=47.0 failed on node gpu-r2-08: {why}",
        f"srun: error: Application launch failed: {why}",
    )
    assert (found.cause, found.where.node) == (Cause.HOST, "gpu-r2-08")
