"""The epilog takes a node out that broke under its job."""

from __future__ import annotations

import time

from lab.fault_table import Told
from lab.nodes import fault, faults
from lab.slurm.bench import Bench
from lab.slurm.cluster import Cluster

WAITS = "touch /tmp/runs; until [ -e /tmp/go ]; do sleep 0.05; done; rm /tmp/go /tmp/runs"


def test_an_xid_during_a_job_drains_the_node_after_it(slurm: Cluster, worker: Bench, told: Told) -> None:
    worker.hook("prolog", "epilog")
    job = slurm.submit(WAITS, "-w", worker.node.name, "--gpus=8")
    slurm.wait_for(lambda: worker.node.run("ls", "/tmp"), "runs")
    assert worker.said() == ""
    with faults.xid(worker.node):
        begun_s = time.monotonic()
        worker.node.run("touch", "/tmp/go")
        worker.becomes("drained")
        took_s = time.monotonic() - begun_s
    assert slurm.job(job) == "COMPLETED"
    told.hook(
        "Xid 48 in the kernel log, during a job",
        "a line for the node's journald",
        hook="slurm-epilog",
        node_state="drained",
        said=worker.reason,
        words=": memory error (Xid 48)",
        seconds=took_s,
    )


def test_an_operators_drain_during_the_job_keeps_its_reason(slurm: Cluster, worker: Bench) -> None:
    worker.hook("epilog")
    slurm.submit(WAITS, "-w", worker.node.name)
    slurm.wait_for(lambda: worker.node.run("ls", "/tmp"), "runs")
    slurm.drain(worker.node, "firmware update")
    with faults.manager_stopped(worker.node):
        worker.node.run("touch", "/tmp/go")
        worker.hears("drained by others: firmware update")
        worker.becomes("drained")
    assert worker.reason == "firmware update"


def test_where_scontrol_is_missing_nothing_is_drained(slurm: Cluster, worker: Bench) -> None:
    worker.hook("epilog")
    with faults.manager_stopped(worker.node), fault.without(worker.node.root / "usr/bin/scontrol"):
        worker.ends(slurm.submit("true", "-w", worker.node.name))
        worker.hears("not drained: scontrol is not installed on this node")
        worker.becomes("idle")
    assert worker.reason == "none"
