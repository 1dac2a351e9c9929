"""The health check takes a sick node out while nothing runs on it, and leaves to others what others took out."""

from __future__ import annotations

import time

import pytest

from lab.fault_table import Told
from lab.nodes import faults
from lab.slurm import config
from lab.slurm.bench import Bench
from lab.slurm.cluster import Cluster

OPS = "maintenance by ops"


def test_an_idle_sick_node_is_drained_and_stays_so_until_somebody_resumes_it(worker: Bench, told: Told) -> None:
    with faults.manager_killed(worker.node):
        worker.hook("healthcheck")  # it may run at any moment, and a service that is ending is not yet one that failed
        begun_s = time.monotonic()
        worker.becomes("drained")
        took_s = time.monotonic() - begun_s
        reason = worker.reason
    worker.check()
    assert (worker.state, worker.reason) == ("drained", reason)
    told.hook(
        f"fabric manager killed, on an idle node (health check every {config.HEALTH_INTERVAL_S} s)",
        "systemctl kill --signal=KILL",
        hook="slurm-healthcheck",
        node_state="drained",
        said=reason,
        words="nodegate: nvidia-fabricmanager: not running: failed",
        seconds=took_s,
    )


def test_told_to_resume_it_takes_back_its_own_drain_once_the_node_is_fit(worker: Bench, told: Told) -> None:
    with faults.gpu_lost(worker.node):
        worker.hook("healthcheck", options="--resume")  # only now: a check in between would find half of the fault
        begun_s = time.monotonic()
        worker.becomes("drained")
        took_s, reason = time.monotonic() - begun_s, worker.reason
        worker.check()
        assert (worker.state, worker.reason) == ("drained", reason)
    worker.hears("resumed, was nodegate: GPU 3")
    assert worker.reason == "none"
    worker.becomes("idle")
    told.hook(
        "GPU lost, on an idle node",
        "NVML and configuration space",
        hook="slurm-healthcheck",
        node_state="drained",
        said=reason,
        words=": off the bus",
        seconds=took_s,
    )


def test_a_node_that_an_operator_has_drained_keeps_his_reason_sick_or_healthy(
    slurm: Cluster, worker: Bench, told: Told
) -> None:
    slurm.drain(worker.node, OPS)
    worker.hook("healthcheck", options="--resume")
    worker.check()
    assert (worker.state, worker.reason, worker.said()) == ("drained", OPS, "")
    with faults.manager_stopped(worker.node):
        begun_s = time.monotonic()
        worker.check()
        took_s, said = time.monotonic() - begun_s, worker.said()
        assert (worker.state, worker.reason) == ("drained", OPS)
    worker.check()
    assert (worker.state, worker.reason) == ("drained", OPS)
    told.hook(
        "fabric manager stopped, on a node drained by an operator",
        "systemctl stop; scontrol state=drain",
        hook="slurm-healthcheck",
        node_state="drained",
        said=said,
        words=f"drained by others: {OPS}",
        seconds=took_s,
    )


def test_a_node_that_an_operator_has_set_down_stays_down(slurm: Cluster, worker: Bench) -> None:
    slurm.scontrol("update", f"nodename={worker.node.name}", "state=down", f"reason={OPS}")
    worker.hook("healthcheck", options="--resume")
    with faults.manager_stopped(worker.node):
        worker.check()
    assert (worker.state, worker.reason) == ("down", OPS)
    assert "left alone: Slurm reports it as DOWN" in worker.said()


@pytest.mark.parametrize("says", ['Xid\\x0a"; state=resume', "Xid ✗ $(reboot) [root@2020-01-01]"])
def test_what_a_kernel_log_says_is_no_instruction_to_slurm(worker: Bench, says: str) -> None:
    worker.hook("healthcheck")
    worker.node.kernel_says(f"NVRM: Xid (PCI:0000:63:00): 48, pid='{says}, name={says}, DBE {says}")
    worker.check()
    worker.becomes("drained")
    reason = worker.reason
    assert reason.startswith("nodegate: GPU ")
    assert ": memory error (Xid 48)" in reason
    assert reason.isascii()
    assert not set('"$[]\n;') & set(reason)


def test_a_node_that_is_cut_off_waits_for_nobody_and_is_drained_when_it_is_back(worker: Bench, told: Told) -> None:
    with faults.manager_stopped(worker.node):
        with faults.cable_out(worker.node):
            worker.hook("healthcheck")
            begun_s = time.monotonic()
            worker.check()
            took_s = time.monotonic() - begun_s
            said = worker.said()
        worker.node.run("systemctl", "restart", "slurmd")  # or Slurm notices at its next ping, in 100 s
        worker.becomes("drained")
        assert worker.reason.startswith("nodegate: ")
    told.hook(
        "the node's network gone, and its fabric manager stopped",
        "ip link set down; systemctl stop",
        hook="slurm-healthcheck",
        node_state="drained once it was back",
        said=said,
        words="not drained: scontrol",
        seconds=took_s,
    )
