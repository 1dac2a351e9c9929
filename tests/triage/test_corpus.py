"""Real job logs, judged against what is known of them (the corpus lies outside the project)."""

import csv

import pytest
from support.corpus import corpus, corpus_folder

from nodegate.knowledge.words import Cause
from nodegate.triage.triage import triage

NOW_S = 1_795_248_900.0


def judged(path):
    corpus(path)  # skips where it is not there
    return triage([str(corpus_folder() / path)], now_s=NOW_S)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("trainlog/bloom_gpu_crash_unknown_error.txt", (Cause.HARDWARE, "cuda_unknown")),
        ("trainlog/tr1_bus_error_shm.txt", (Cause.HOST, "loader_shm")),  # a full /dev/shm
        # An assertion of PyTorch, and GID changes that are no fault.
        ("trainlog/mlperf_maskrcnn_dgxa100_nccl.log", (Cause.PROGRAM, "torch_assert")),
        ("trainlog/hf_ds_killing_subprocess.txt", (Cause.UNKNOWN, "")),  # its cause is elsewhere
    ],
)
def test_what_is_known_of_a_log(path, expected):
    found = judged(path)
    assert (found.cause, found.root.kind.id if found.root else "") == expected
    assert found.failed
    assert found.nodes_fine == (expected[0] is Cause.PROGRAM)


def test_a_contained_memory_error_beside_time_outs(tmp_path):
    """A collection of lines from many jobs: those of one job, taken together."""
    lines = corpus("trainlog/nvrx_watchdog_variants.txt").splitlines()
    chosen = [line for line in lines if line.startswith(("115:", "171:", "4717:"))]
    path = tmp_path / "job.log"
    path.write_text("\n".join(chosen))
    found = triage([str(path)], now_s=NOW_S)
    assert (found.cause, found.where.rank) == (Cause.HARDWARE, 171)


def test_an_mpirun_that_did_not_start():
    found = judged("nccl/gcm_mpirun_no_slots.txt")
    assert not found.sure or found.cause is not Cause.HARDWARE


def _healthy():
    index = corpus_folder() / "index.csv"
    if not index.is_file():
        return []
    failing = ("bloom_gpu", "tr1_bus", "mlperf_mask", "hf_ds_killing", "nvrx_watch", "mpirun_no_slots", "mock_fail_oob")
    with index.open(encoding="utf-8", newline="") as stream:
        names = [row["file"] for row in csv.DictReader(stream)]
    wanted = [name for name in names if name.startswith(("trainlog/", "nccl/"))]
    return [name for name in wanted if not any(part in name for part in failing)]


@pytest.mark.parametrize("path", _healthy() or [pytest.param("", marks=pytest.mark.skip(reason="no corpus here"))])
def test_a_log_without_a_fault_is_not_blamed_on_a_node(path):
    found = judged(path)
    assert found.cause in (Cause.UNKNOWN, Cause.PROGRAM)
    assert found.root is None or found.root.kind.role.value != "primary"
