"""A rank that ran out of GPU memory beside other processes: whose they are, by the node's facts, the log, or not known.

The messages are those of PyTorch (CUDACachingAllocator.cpp) and NCCL.
"""

import pytest
from fleet.machine import Machine
from support.job_logs import NOW_S, iteration, joins, write

from nodegate.knowledge.words import Cause
from nodegate.records.evidence import Evidence
from nodegate.records.run_folder import RunFolder
from nodegate.triage.held_memory import held
from nodegate.triage.triage import triage

STEP = "0::/system.slice/slurmstepd.scope/job_4711/step_0/user/task_0"
LOGIN = "0::/user.slice/user-1002.slice/session-9.scope"
OWN = {"uid": 1000, "cgroup": STEP}
ITS_OWN = joins("gpu01", 0, 0, 8, address="10.9.0.1")[0].replace("4300:4300", "81455:81460")
PROGRAM, IN_PIECES, SAVING = "cuda_oom", "cuda_oom_fragmented", "cuda_oom_saving"
NOT_OURS, BESIDE, FOREIGN = "cuda_oom_not_ours", "cuda_oom_beside", "cuda_oom_foreign"  # of the host


def oom(own, *others, tried="2.50 GiB"):
    listed = " ".join(
        f"Process {pid} has {size} memory in use." for pid, size in zip((81455, 81500), others, strict=False)
    )
    return (
        f"[rank0]: 2026-08-10 15:36:09,120 torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {tried}. GPU 0"
        f" has a total capacity of 79.11 GiB of which 1.02 GiB is free. {listed} Including non-PyTorch memory, this"
        f" process has {own} memory in use. Of the allocated memory 39.80 GiB is allocated by PyTorch."
    )


def contained(*listed, allocated):
    """The same in a container, where the rank does not know its own number."""
    head, _, rest = oom("0 GiB", *listed).partition(" Including")
    return f"{head}{rest[rest.index(' Of the') :]}".replace("39.80 GiB", allocated)


def facts(folder, other):
    """A run folder: the job's process on GPU 0, and another one."""
    machine = Machine.hgx_h100("gpu01", epoch_s=NOW_S)
    users = {100: OWN, **({81455: other} if other else {})}
    machine.set("jobs", "slurm", ["4711"])
    machine.set("jobs", "gpu_users", [{"pid": pid, "comm": "python3", **user} for pid, user in users.items()])
    for pid in users:
        process = {"pid": pid, "kind": "compute", "memory_bytes": 38 << 30, "name": "python3"}
        machine.sections["nvml"]["gpus"][0]["processes"].append(process)
    run = RunFolder.create(folder / "run", profile="troubleshoot", started_epoch_s=NOW_S)
    run.write_evidence(Evidence("gpu01", "facts", NOW_S, 1.0, document=machine.document()))
    return str(folder / "run")


UNALLOCATED = " and {} GiB is reserved by PyTorch but unallocated."
UNUSED = oom("77.00 GiB") + UNALLOCATED
OLD = (
    "RuntimeError: CUDA out of memory. Tried to allocate 2.50 GiB (GPU 0; 79.15 GiB total capacity; {} GiB already"
    " allocated; 1.02 GiB free; 74.02 GiB reserved in total by PyTorch)"
)
FRAME = '  File "/opt/train/run.py", line 41, in {}'


def traceback(*functions):
    return ["Traceback (most recent call last):", *map(FRAME.format, functions), oom("77.00 GiB")]


OTHERS = {"uid": 1002, "cgroup": LOGIN}
CASES = {
    "foreign by the facts": ([oom("41.02 GiB", "38.21 GiB")], OTHERS, NOT_OURS),
    "foreign by the facts and smaller": ([oom("70.02 GiB", "8.21 GiB")], OTHERS, NOT_OURS),
    "the job's by the facts": ([oom("41.02 GiB", "38.21 GiB")], OWN, PROGRAM),
    "not in the facts": ([oom("41.02 GiB", "38.21 GiB")], None, BESIDE),
    "without facts": ([oom("41.02 GiB", "38.21 GiB")], "", BESIDE),
    "in MiB": ([oom("70.02 GiB", "8231.00 MiB")], "", BESIDE),
    "more than the rank, together": ([oom("19.02 GiB", "30.10 GiB", "28.00 GiB")], "", FOREIGN),
    "the job's by its own log": ([ITS_OWN, oom("41.02 GiB", "38.21 GiB")], "", PROGRAM),
    "ranks that only opened this GPU": ([oom("72.00 GiB", "512.00 MiB", "512.00 MiB")], "", PROGRAM),
    "too little to help": ([oom("70.00 GiB", "5.00 GiB", tried="30.00 GiB")], "", PROGRAM),
    "in a container itself alone": ([contained("78.02 GiB", allocated="76.90 GiB")], "", PROGRAM),
    "in a container beside another": ([contained("37.00 GiB", "41.02 GiB", allocated="39.80 GiB")], "", BESIDE),
    "sizes that the driver does not know": ([oom("17179869184.00 GiB", "17179869184.00 GiB")], "", PROGRAM),
    "enough unused, in pieces": ([UNUSED.format("3.92")], "", IN_PIECES),
    "not enough unused": ([UNUSED.format("1.20")], "", PROGRAM),
    "enough unused, as old versions say it": ([OLD.format("70.10")], "", IN_PIECES),
    "not enough unused, as old versions say it": ([OLD.format("73.90")], "", PROGRAM),
    "unused beside another": ([oom("41.02 GiB", "38.21 GiB") + UNALLOCATED.format("3.92")], "", BESIDE),
    "while a checkpoint is saved": (traceback("main", "save_checkpoint", "gather"), "", SAVING),
    "while a state is gathered for one": (traceback("main", "get_model_state_dict"), "", SAVING),
    "while one is loaded": (traceback("main", "load_state_dict"), "", PROGRAM),
    "forward after one was saved": ([*traceback("save_checkpoint")[:2], "ok", *traceback("forward")], "", PROGRAM),
    "nobody else": ([oom("77.00 GiB")], "", PROGRAM),
}


@pytest.mark.parametrize(("lines", "other", "root"), CASES.values(), ids=CASES)
def test_whose_memory_it_is(tmp_path, lines, other, root):
    write(tmp_path / "logs", "gpu01.log", iteration("15:36:00.0", 5), *lines)
    answer = triage([str(tmp_path / "logs"), *([] if other == "" else [facts(tmp_path, other)])], now_s=NOW_S)
    of_host = root in (NOT_OURS, BESIDE, FOREIGN)
    assert (answer.root.kind.id, answer.cause) == (root, Cause.HOST if of_host else Cause.PROGRAM)
    assert not of_host or (answer.sure, answer.nodes_fine) == (False, False)
    assert ("process 81455 has" in answer.sentence.en, "进程 81455 占用" in answer.sentence.zh) == (of_host, of_host)


@pytest.mark.parametrize("line", ["", oom("1.2.3 GiB", "38.21 GiB"), oom(". GiB", "5.00 GiB")])
def test_a_message_that_cannot_be_read_says_nothing(line):
    assert held(line) is None
