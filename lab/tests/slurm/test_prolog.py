"""The prolog holds a job off a sick node; Slurm gives it to another."""

from __future__ import annotations

import time
from typing import NamedTuple

import pytest

from lab.fault_table import Told
from lab.nodes import fault, faults, gpu_faults
from lab.slurm.bench import Bench
from lab.slurm.cluster import Cluster


class Case(NamedTuple):
    """A fault, in words; how it is set; what the hook says of it, with these options."""

    set: fault.Fault
    fault: str
    injected: str
    words: str
    options: str = ""


LOST = Case(faults.gpu_lost, "GPU lost", "NVML and configuration space", ": off the bus")
CASES = [
    LOST,
    Case(faults.xid, "Xid 48 in the kernel log", "a line for the node's journald", ": memory error (Xid 48)"),
    Case(
        faults.manager_stopped,
        "fabric manager stopped",
        "systemctl stop",
        "nvidia-fabricmanager: not running: inactive",
    ),
    Case(
        gpu_faults.job_left,
        "a process of the last job on a GPU, where jobs have whole nodes",
        "a process holds /dev/nvidia0; NVML lists it (mock)",
        "in use by a left-over process",
        options="--exclusive",
    ),
]


@pytest.mark.parametrize("case", CASES, ids=[case.fault for case in CASES])
def test_a_sick_node_is_drained_and_the_job_runs_on_its_neighbour(
    slurm: Cluster, worker: Bench, neighbour: Bench, told: Told, case: Case
) -> None:
    worker.hook("prolog", options=case.options)
    with case.set(worker.node):
        begun_s = time.monotonic()
        job = slurm.submit("true", "--gpus=8")
        worker.becomes("drained")
        took_s = time.monotonic() - begun_s
        reason, said = worker.reason, worker.said()
        slurm.wait_for(lambda: slurm.job(job, "Restarts"), "1")
        slurm.hurry(job)
        neighbour.ends(job)
        assert slurm.job(job, "BatchHost") == neighbour.node.name
    assert reason.startswith("nodegate: ")
    assert said.startswith("slurm-prolog: unfit: ")
    assert (neighbour.state, neighbour.reason) == ("idle", "none")
    told.hook(
        case.fault,
        case.injected,
        hook="slurm-prolog",
        node_state="drained",
        said=reason,
        words=case.words,
        seconds=took_s,
    )


def test_where_scontrol_is_missing_nothing_is_drained_and_the_job_starts(
    slurm: Cluster, worker: Bench, told: Told
) -> None:
    worker.hook("prolog")
    begun_s = time.monotonic()
    with faults.gpu_lost(worker.node), fault.without(worker.node.root / "usr/bin/scontrol"):
        worker.ends(slurm.submit("true", "-w", worker.node.name))
        worker.becomes("idle")
    assert worker.reason == "none"
    told.hook(
        "GPU lost, and scontrol missing",
        "NVML, configuration space; mv scontrol",
        hook="slurm-prolog",
        node_state="idle",
        said=worker.said(),
        words="not drained: scontrol is not installed on this node",
        seconds=time.monotonic() - begun_s,
    )


def test_a_kept_fit_verdict_lets_the_job_start_at_once_and_an_old_one_is_not_believed(
    slurm: Cluster, worker: Bench
) -> None:
    worker.hook("prolog", options="--fresh 3600")
    worker.ends(slurm.submit("true", "-w", worker.node.name))
    measured_s = worker.measured_s()
    worker.ends(slurm.submit("true", "-w", worker.node.name))
    assert worker.measured_s() == measured_s
    worker.hook("prolog", options="--fresh 0.1")
    worker.ends(slurm.submit("true", "-w", worker.node.name))
    assert worker.measured_s() > measured_s


def test_a_verdict_that_others_could_have_written_is_not_believed(slurm: Cluster, worker: Bench) -> None:
    worker.hook("prolog", options="--fresh 3600")
    worker.ends(slurm.submit("true", "-w", worker.node.name))
    worker.node.run("chmod", "666", "/run/nodegate/verdict.json")
    with faults.gpu_lost(worker.node):
        slurm.submit("true", "-w", worker.node.name)
        worker.becomes("drained")
    assert "GPU 3" in worker.reason


def test_a_repaired_node_is_not_drained_by_what_was_kept_of_it(slurm: Cluster, worker: Bench) -> None:
    worker.hook("prolog", options="--fresh 3600")
    with faults.gpu_lost(worker.node):
        job = slurm.submit("true", "-w", worker.node.name)
        worker.becomes("drained")
        slurm.wait_for(lambda: slurm.job(job, "Restarts"), "1")
    slurm.resume(worker.node)
    slurm.hurry(job)
    worker.ends(job)
