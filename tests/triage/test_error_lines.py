"""100 lines of an error, each with its class and place; 60 harmless lines that look like one; whom a launch names."""

# ruff: noqa: RUF001 - Chinese punctuation
import csv
from pathlib import Path

import pytest
from support.job_logs import iteration, judge
from support.schemas import read_output

from nodegate.knowledge.words import Cause
from nodegate.triage import render

_FOLDER = Path(__file__).parents[1] / "knowledge"
_STEPS = [iteration(f"15:{minute:02}:00", minute) for minute in range(1, 6)]
_ECC = "[rank2]: RuntimeError: CUDA error: uncorrectable ECC error encountered"
_WANTED = 90


def _rows(name):
    with (_FOLDER / name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def _wrong(found, row):
    """What is wrong with the answer to a line; "" for nothing."""
    where = found.where
    place = f"{where.node} {where.pod} {where.rank} {found.device}"
    said = f"{found.meaning.en} {found.action.en}".lower()
    if found.cause.value not in row["class"].split("|"):
        return f"class {found.cause.value}"
    if row["where"] not in place:
        return f"place {place}"
    return "" if any(word.lower() in said for word in row["says"].split("|")) else f"says {said[:80]}"


def test_most_error_lines_are_named_and_none_is_sure_and_wrong(tmp_path):
    rows, misses, false = _rows("error_lines.csv"), [], []
    for number, row in enumerate(rows):
        found = judge(tmp_path / str(number), {"job.log": [*_STEPS, row["line"]]})
        if wrong := _wrong(found, row):
            misses.append(f"{row['line'][:90]}: {wrong} {found.root.kind.id if found.root else ''}")
            false += misses[-1:] if found.sure and not wrong.startswith("says") else []
    assert false == []
    assert len(rows) - len(misses) >= _WANTED, "\n".join(misses)


@pytest.mark.parametrize("row", _rows("harmless_lines.csv"), ids=lambda row: row["line"][:50])
def test_a_harmless_line_is_no_error_and_hides_none(tmp_path, row):
    goes_on = judge(tmp_path / "goes_on", {"job.log": [row["line"], *_STEPS[:2], row["line"], *_STEPS[2:]]})
    assert not goes_on.failed
    alone = judge(tmp_path / "starts", {"job.log": ["loading the model", row["line"], "building the model"]})
    assert not alone.sure
    before = judge(tmp_path / "before", {"job.log": [row["line"], "building the model", _ECC]})
    assert (before.root.kind.id, before.sure) == ("cuda_ecc", True)


FAILED_ON = "srun: error: Task launch for StepId=7.0 failed on node {}: Socket timed out on send/recv operation"
STARTS = "gpu00{}:4827:4827 [0] NCCL INFO Bootstrap : Using eth0:10.0.0.7<0>"
NO_GPU = "2026-08-10 15:{}:00 RuntimeError: No CUDA GPUs are available"
CASES = {
    "a launch that fails on all nodes alike is no fault of one": (
        {"srun.out": [FAILED_ON.format(f"gx-{number}") for number in (11, 12, 13)]},
        "all 3 nodes that tried fail alike at the start (gx-11, gx-12, gx-13): ",
        {"cause": Cause.ENVIRONMENT, "node": ""},
    ),
    "one node of many is": (
        {"srun.out": [FAILED_ON.format("gx-11"), *(f"srun: error: gx-{n}: task {n}: Terminated" for n in (12, 13))]},
        "host (gx-11)",
        {"cause": Cause.HOST, "node": "gx-11"},
    ),
    "nodes that fail minutes apart are not alike": (
        {f"gpu00{number}.log": [STARTS.format(number), NO_GPU.format(30 + 5 * number)] for number in (1, 2)},
        "host (gpu001)",
        {"cause": Cause.HOST},
    ),
    "whom a line names is the place: mpirun's other daemon": (
        {
            "mpirun.log": [
                "ORTE has lost communication with a remote daemon.",
                "  HNP daemon   : [[7,0],0] on node login1",
                "  Remote daemon: [[7,0],3] on node gpu-f-014",
            ]
        },
        "host (gpu-f-014)",
        {"root": "launcher_lost_node"},
    ),
    "the rank whose time-out another one reports": (
        {"rank0.log": ["[Rank 0] Received a dump signal due to a collective timeout from  rank 13 and we will try"]},
        "names rank 13",
        {"cause": Cause.UNKNOWN, "rank": 13},
    ),
    "the address that a connection is to": (
        {"a.log": ["gx-1:9:9 [3] NCCL WARN Call to recv from 10.5.9.77<47112> failed : Connection reset by peer"]},
        "names 10.5.9.77",
        {"cause": Cause.UNKNOWN, "node": "10.5.9.77"},
    ),
    "what is killed after a watchdog follows from the hang": (
        {"server.log": ["[2026-08-10 15:36:00 TP1] Watchdog timeout (self.watchdog_timeout=300)", "Killed"]},
        "the serving engine hung",
        {"root": "engine_watchdog", "sure": False},
    ),
    "a GPU that is said in Chinese to be lost": (
        {"job.log": [_STEPS[0], "2026-08-10 15:08:00 错误：节点 gpu021 GPU2 掉卡"]},
        "gpu021",
        {"root": "gpu_lost_zh", "node": "gpu021", "gpu": 2, "sure": False},
    ),
    "and a node": (
        {"job.log": [_STEPS[0], "2026-08-10 15:08:00 错误：节点 gpu033 失联"]},
        "gpu033",
        {"root": "node_lost_zh", "node": "gpu033", "sure": False},
    ),
    "a job that somebody stopped has no other fault": (
        {"train.log": ["Process 7 got signal: 2", "[2026-08-10 15:36:05] Sending process 7 closing signal SIGTERM"]},
        "SIGINT",
        {"root": "stopped_by_interrupt", "sure": False},
    ),
    "the step of a container's start that failed is quoted, not the first line": (
        {
            "slurm.out": [
                "slurmstepd: error: pyxis: container start failed with error code: 1",
                "slurmstepd: error: pyxis:     /etc/enroot/hooks.d/10-a.sh: line 12:  9 Segmentation fault  a",
                "srun: error: gpu-d-031: tasks 4-7: Exited with exit code 1",
            ]
        },
        "environment (gpu-d-031): a hook of the container's start failed",
        {"root": "container_hook_failed", "sure": True},
    ),
}


@pytest.mark.parametrize(("files", "says", "expected"), CASES.values(), ids=CASES)
def test_the_place_and_class_of_a_launch(tmp_path, files, says, expected):
    found = judge(tmp_path, files, says, **expected)
    is_environment = found.cause is Cause.ENVIRONMENT
    assert (read_output(render.as_json(found))["nodes_fine"] is None) == is_environment
