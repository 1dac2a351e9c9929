"""Who works on a node: a job of Slurm, or a process on a GPU."""

from collections.abc import Callable

import pytest
from fleet.machine import Machine, facts_of
from support.judging import both, fails, gpu, plant

from nodegate.judge.node_in_use import busy_reason, use_unknown

Change = Callable[[Machine], object]


NOT_ROOT = {"why": "denied", "detail": "the open files of 31 processes need root"}
NO_LIST = {"why": "denied", "detail": "NVML 4: Insufficient Permissions"}
DENIED = "could not be listed (denied: NVML 4: Insufficient Permissions)"
UNSEEN = ", nor who has a GPU open (denied: the open files of 31 processes need root)"
NO_SMI = "nvidia_smi could not be read: missing: the node sent no nvidia_smi"
NO_NVML = fails("nvml", "failed", "NVML 18: Driver/library version mismatch")
NO_ROOT = plant.set("jobs", "gpu_users", NOT_ROOT)
OPEN, EIO = ", and exporter (pid 4711) has a GPU open", {"why": "failed", "detail": "EIO"}
PYTHON = "python3 (pid 4711) holds a GPU, and NVML does not report what it does"
HUNG = f"the processes on the GPUs could not be listed (nvml could not be read: hung: 1 s; {NO_SMI}){UNSEEN}"


def held_by(*names):
    """Programs that have a GPU open."""
    return plant.set("jobs", "gpu_users", [{"pid": 4711, "comm": name, "uid": 1004} for name in names])


def unlisted(*indices):
    """GPUs whose processes NVML may not list."""
    return both(*(gpu(index, "processes", NO_LIST) for index in indices))


@pytest.mark.parametrize(
    ("change", "busy", "unknown"),
    [
        (both(), "", ""),
        (held_by("exporter"), "", ""),  # where NVML tells, its word counts
        (both(held_by("nvidia-persiste", "nv-hostengine"), NO_NVML), "", ""),
        (both(held_by("nvidia-persiste", "python3"), NO_NVML), PYTHON, None),
        (both(NO_ROOT, plant.set("jobs", "slurm", [])), "", ""),
        (both(held_by("nv-hostengine"), unlisted(2)), "", ""),
        (both(NO_ROOT, unlisted(2, 5)), "", f"the processes on GPU 2 and 1 more {DENIED}{UNSEEN}"),
        (both(NO_ROOT, fails("nvml", "hung", "1 s")), "", HUNG),
        (both(held_by("exporter"), unlisted(2)), "", f"the processes on GPU 2 {DENIED}{OPEN}"),
        (plant.set("jobs", "slurm", EIO), "", "the Slurm jobs could not be read: failed: EIO"),
        (fails("jobs", "hung", "10 s"), "", "jobs could not be read: hung: 10 s"),
    ],
)
def test_who_works_on_a_node_and_whether_that_is_known(change, busy, unknown):
    machine = Machine.hgx_h100()
    change(machine)
    facts = facts_of(machine)
    assert busy_reason(facts) == busy
    assert unknown is None or use_unknown(facts) == unknown
