"""Who works on a node: a job of Slurm, or a process on a GPU."""

from __future__ import annotations

import pytest
from fleet.machine import Machine, facts_of

from nodegate.judge.node_in_use import busy_reason, use_unknown


@pytest.fixture
def machine() -> Machine:
    return Machine.hgx_h100()


def refused_by_nvml(machine: Machine, *holders: str) -> str:
    machine.section_fails("nvml", "failed", "NVML 18: Driver/library version mismatch")
    machine.set("jobs", "gpu_users", [{"pid": 4711, "comm": comm, "uid": 1004} for comm in holders])
    return busy_reason(facts_of(machine))


def test_nobody_works_on_an_idle_node(machine: Machine) -> None:
    assert busy_reason(facts_of(machine)) == ""


def test_a_process_with_a_gpu_open_is_busy_where_nvml_tells_nothing(machine: Machine) -> None:
    said = refused_by_nvml(machine, "nvidia-persiste", "python3")
    assert said == "python3 (pid 4711) holds a GPU, and NVML does not report what it does"


def test_daemons_that_hold_gpus_all_day_are_not_busy(machine: Machine) -> None:
    assert refused_by_nvml(machine, "nvidia-persiste", "nv-hostengine") == ""


def test_where_nvml_tells_its_word_counts_and_not_who_has_a_device_open(machine: Machine) -> None:
    machine.set("jobs", "gpu_users", [{"pid": 4711, "comm": "exporter", "uid": 0}])
    assert busy_reason(facts_of(machine)) == ""


NOT_ROOT = {"why": "denied", "detail": "the open files of 31 processes need root"}
NO_LIST = {"why": "denied", "detail": "NVML 4: Insufficient Permissions"}


def test_the_use_of_a_node_whose_jobs_and_processes_were_all_read_is_known(machine: Machine) -> None:
    assert use_unknown(facts_of(machine)) == ""


def test_nvml_alone_is_enough_without_root_and_without_slurm(machine: Machine) -> None:
    machine.set("jobs", "gpu_users", NOT_ROOT)
    machine.set("jobs", "slurm", [])
    assert use_unknown(facts_of(machine)) == ""


def test_root_who_sees_daemons_alone_on_the_gpus_needs_no_list_of_nvml(machine: Machine) -> None:
    machine.set("jobs", "gpu_users", [{"pid": 911, "comm": "nv-hostengine", "uid": 0}])
    machine.set_gpu(2, "processes", NO_LIST)
    assert use_unknown(facts_of(machine)) == ""
    machine.section_fails("nvml", "failed", "NVML 18: Driver/library version mismatch")
    assert use_unknown(facts_of(machine)) == ""


def test_processes_that_nobody_could_list_may_use_the_node(machine: Machine) -> None:
    machine.set("jobs", "gpu_users", NOT_ROOT)
    machine.set_gpu(2, "processes", NO_LIST)
    machine.set_gpu(5, "processes", NO_LIST)
    assert busy_reason(facts_of(machine)) == ""
    assert use_unknown(facts_of(machine)) == (
        "the processes on GPU 2 and 1 more could not be listed (denied: NVML 4: Insufficient Permissions), "
        "nor who has a GPU open (denied: the open files of 31 processes need root)"
    )


def test_without_nvml_and_without_root_nothing_is_known(machine: Machine) -> None:
    machine.set("jobs", "gpu_users", NOT_ROOT)
    machine.section_fails("nvml", "hung", "took longer than 30 s")
    said = use_unknown(facts_of(machine))
    assert said.startswith("the processes on the GPUs could not be listed (nvml could not be read: hung: took longer")
    assert said.endswith(", nor who has a GPU open (denied: the open files of 31 processes need root)")


def test_who_has_a_gpu_open_may_use_the_one_that_is_not_listed(machine: Machine) -> None:
    machine.set("jobs", "gpu_users", [{"pid": 4711, "comm": "exporter", "uid": 0}])
    machine.set_gpu(2, "processes", NO_LIST)
    assert use_unknown(facts_of(machine)) == (
        "the processes on GPU 2 could not be listed (denied: NVML 4: Insufficient Permissions), "
        "and exporter (pid 4711) has a GPU open"
    )


def test_a_job_may_run_where_jobs_were_not_read(machine: Machine) -> None:
    machine.set("jobs", "slurm", {"why": "failed", "detail": "EIO"})
    assert use_unknown(facts_of(machine)) == "the Slurm jobs could not be read: failed: EIO"
    machine.section_fails("jobs", "hung", "took longer than 10 s")
    assert use_unknown(facts_of(machine)) == "jobs could not be read: hung: took longer than 10 s"
