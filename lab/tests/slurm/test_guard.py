"""What a site lets the hooks do, in real Slurm: observing, the breaker, resuming, and the gate."""

from __future__ import annotations

from lab.nodes import faults, gpus
from lab.slurm.bench import Bench
from lab.slurm.cluster import Cluster

STATE = "/var/lib/nodegate"
# What a run that accepts the node writes there.
ACCEPT = """
import time
from pathlib import Path
from nodegate.hook.passed import text_of
from nodegate.run.bootcheck import bootcheck
own = {"baselines": [Path("/etc/nodegate/site.yaml")], "without": ("idle.", "host.ports")}
while (found := bootcheck(**own)).exit == 75:  # the health check may not have ended yet
    time.sleep(1)
assert found.exit == 0, found.line
Path("/var/lib/nodegate").mkdir(exist_ok=True)
Path("/var/lib/nodegate/passed").write_text(text_of("run", 1.8e9, found.serials))
"""


def spool(worker: Bench) -> str:
    return worker.node.run("cat", f"{STATE}/spool.jsonl", check=False)


def test_observing_drains_nothing_and_says_what_it_would(slurm: Cluster, worker: Bench) -> None:
    worker.node.run("rm", "-rf", STATE)
    worker.hook("prolog", "epilog", "healthcheck", mode="observe")
    with faults.gpu_lost(worker.node):
        worker.ends(slurm.submit("true", "-w", worker.node.name))
        worker.check()
    assert worker.reason == "none"
    assert "would be drained, mode observe (reason nodegate: " in worker.said()
    assert '"done": "observed"' in spool(worker)


def test_one_of_two_nodes_is_drained_and_the_other_gets_its_job(
    slurm: Cluster, worker: Bench, neighbour: Bench
) -> None:
    for each in (worker, neighbour):
        each.hook("prolog", "healthcheck")
    with faults.gpu_lost(worker.node), faults.gpu_lost(neighbour.node):
        worker.check()
        worker.becomes("drained")
        neighbour.ends(slurm.submit("true", "-w", neighbour.node.name))
        assert (neighbour.reason, worker.reason[:9]) == ("none", "nodegate:")
        assert "1 of 2 nodes of partition gpu within 15 minutes, 1 may be" in neighbour.said()


def test_the_gate_opens_for_the_boards_that_passed(worker: Bench) -> None:
    worker.node.run("rm", "-rf", STATE)
    worker.hook("healthcheck", gate="on", options="--resume")
    worker.check()
    worker.becomes("drained")
    assert worker.reason == "nodegate: node: not passed yet: no run has accepted it"
    worker.node.run("/opt/nodegate/bin/python3", "-c", ACCEPT, limit_s=120)
    worker.check()
    worker.becomes("idle")
    worker.hears("; resumed, was nodegate: node: not passed yet")
    healthy = gpus.scenario(worker.node)
    healthy.set(3, "serial", "1659999999999").write(worker.node.root / gpus.SCENARIO)
    try:
        worker.check()
        worker.becomes("drained")
        assert worker.reason.startswith("nodegate: GPU 3: not passed yet: GPU 3 S/N 1659999999999")
    finally:
        gpus.scenario(worker.node).write(worker.node.root / gpus.SCENARIO)
        worker.node.run("rm", "-rf", STATE)
