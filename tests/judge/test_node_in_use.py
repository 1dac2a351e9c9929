"""Who works on a node: a job of Slurm, or a process on a GPU."""

from __future__ import annotations

import pytest
from fleet.machine import Machine, facts_of

from nodegate.judge.node_in_use import busy_reason


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
    assert said == "python3 (pid 4711) holds a GPU, and NVML does not tell what it does"


def test_daemons_that_hold_gpus_all_day_are_not_busy(machine: Machine) -> None:
    assert refused_by_nvml(machine, "nvidia-persiste", "nv-hostengine") == ""


def test_where_nvml_tells_its_word_counts_and_not_who_has_a_device_open(machine: Machine) -> None:
    machine.set("jobs", "gpu_users", [{"pid": 4711, "comm": "exporter", "uid": 0}])
    assert busy_reason(facts_of(machine)) == ""
