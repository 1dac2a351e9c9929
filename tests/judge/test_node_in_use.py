"""Who works on a node: a job of Slurm, or a process on a GPU."""

from collections.abc import Callable

import pytest
from fleet.machine import Machine, facts_of

from nodegate.judge.node_in_use import busy_reason, use_unknown


@pytest.fixture
def machine() -> Machine:
    return Machine.hgx_h100()


def users(machine: Machine, *holders: str) -> None:
    machine.set("jobs", "gpu_users", [{"pid": 4711, "comm": comm, "uid": 1004} for comm in holders])


def no_nvml(machine: Machine) -> None:
    machine.section_fails("nvml", "failed", "NVML 18: Driver/library version mismatch")


@pytest.mark.parametrize(
    ("nvml", "holders", "said"),
    [
        (True, (), ""),
        (True, ("exporter",), ""),  # where NVML tells, its word counts
        (False, ("nvidia-persiste", "nv-hostengine"), ""),
        (
            False,
            ("nvidia-persiste", "python3"),
            "python3 (pid 4711) holds a GPU, and NVML does not report what it does",
        ),
    ],
)
def test_who_is_busy(machine: Machine, nvml: bool, holders: tuple[str, ...], said: str) -> None:
    users(machine, *holders)
    if not nvml:
        no_nvml(machine)
    assert busy_reason(facts_of(machine)) == said


NOT_ROOT = {"why": "denied", "detail": "the open files of 31 processes need root"}
NO_LIST = {"why": "denied", "detail": "NVML 4: Insufficient Permissions"}


UNSEEN = ", nor who has a GPU open (denied: the open files of 31 processes need root)"
NO_SMI = "nvidia_smi could not be read: missing: the node sent no nvidia_smi"
DENIED = "could not be listed (denied: NVML 4: Insufficient Permissions)"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda machine: None, ""),
        (lambda machine: (machine.set("jobs", "gpu_users", NOT_ROOT), machine.set("jobs", "slurm", [])), ""),
        (lambda machine: (users(machine, "nv-hostengine"), machine.set_gpu(2, "processes", NO_LIST)), ""),
        (lambda machine: (users(machine, "nv-hostengine"), no_nvml(machine)), ""),
        (
            lambda machine: (
                machine.set("jobs", "gpu_users", NOT_ROOT),
                machine.set_gpu(2, "processes", NO_LIST),
                machine.set_gpu(5, "processes", NO_LIST),
            ),
            f"the processes on GPU 2 and 1 more {DENIED}{UNSEEN}",
        ),
        (
            lambda machine: (machine.set("jobs", "gpu_users", NOT_ROOT), machine.section_fails("nvml", "hung", "1 s")),
            f"the processes on the GPUs could not be listed (nvml could not be read: hung: 1 s; {NO_SMI}){UNSEEN}",
        ),
        (
            lambda machine: (users(machine, "exporter"), machine.set_gpu(2, "processes", NO_LIST)),
            f"the processes on GPU 2 {DENIED}, and exporter (pid 4711) has a GPU open",
        ),
        (
            lambda machine: machine.set("jobs", "slurm", {"why": "failed", "detail": "EIO"}),
            "the Slurm jobs could not be read: failed: EIO",
        ),
        (lambda machine: machine.section_fails("jobs", "hung", "10 s"), "jobs could not be read: hung: 10 s"),
    ],
)
def test_whether_the_use_of_a_node_is_known(machine: Machine, change: Callable[[Machine], object], said: str) -> None:
    change(machine)
    assert busy_reason(facts_of(machine)) == ""
    assert use_unknown(facts_of(machine)) == said
