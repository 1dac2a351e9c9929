"""One worker of the cluster in front of a test: idle and healthy at first, watched from then on."""

from __future__ import annotations

import json
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lab.nodes.node import LabNode
    from lab.slurm.cluster import Cluster

KEPT, DEMANDS = "/run/nodegate/verdict.json", "/etc/nodegate/demands.yaml"


class Bench:
    """A worker, and what its hooks said since the test began."""

    def __init__(self, slurm: Cluster, node: LabNode) -> None:
        self.slurm, self.node = slurm, node
        self._heard = len(slurm.said(node))

    def hook(self, *names: str, **settings: str) -> None:
        """Which hooks run on it from now on, and how."""
        self.slurm.hook(self.node, *names, **settings)

    @property
    def state(self) -> str:
        """Its state in Slurm."""
        return self.slurm.state(self.node)

    @property
    def reason(self) -> str:
        """Slurm's reason for it."""
        return self.slurm.reason(self.node)

    def said(self) -> str:
        """What its hooks have written into the system's log."""
        return "\n".join(self.slurm.said(self.node)[self._heard :])

    def hears(self, words: str) -> str:
        """Wait until its hooks have said this."""
        return self.slurm.wait_for(self.said, words)

    def becomes(self, state: str) -> None:
        """Wait for a state in Slurm."""
        self.slurm.wait_for(lambda: self.state, state)

    def ends(self, job: str, state: str = "COMPLETED") -> None:
        """Wait until a job has come to this."""
        self.slurm.wait_for(lambda: self.slurm.job(job), state)

    def measured_s(self) -> float:
        """When a hook last measured it, in seconds since boot; 0 for never."""
        text = self.node.run("cat", KEPT, check=False)
        return float(json.loads(text)["measured_s"]) if text else 0.0

    def is_left_alone(self) -> None:
        """Wait until nothing of a hook runs on it any more."""
        _await_hooks(self.slurm, self.node)

    def check(self, limit_s: float = 120) -> None:
        """Run its health check now, with the environment that slurmd gives it; then the log has what it said."""
        environment = ["env", "-i", f"SLURMD_NODENAME={self.node.name}"]
        self.node.run(*environment, "/etc/slurm/healthcheck", check=False, limit_s=limit_s)
        self.node.run("journalctl", "--sync")


@contextmanager
def bench(slurm: Cluster, node: LabNode) -> Iterator[Bench]:
    """A worker as new. What a test leaves on it goes when the next one takes it; only its jobs and hooks end here."""
    _renew(slurm, node)
    yield Bench(slurm, node)
    slurm.controller.run("scancel", "--user=root")
    slurm.hook(node)


def _renew(slurm: Cluster, node: LabNode) -> None:
    slurm.hook(node)
    slurm.wait_for(lambda: slurm.controller.run("squeue", "-h", "-w", node.name) or "none", "none")
    _await_hooks(slurm, node)
    node.run("rm", "-f", KEPT, DEMANDS)
    # What the kernel said of a fault that is taken back is forgotten, as by a reboot. There is always a line of it: a
    # health check may read the journal just now, and without a line it cannot tell.
    node.run("journalctl", "--rotate")
    node.kernel_says("Linux version")
    node.run("journalctl", "--vacuum-time=1us")
    slurm.resume(node)


def _await_hooks(slurm: Cluster, node: LabNode) -> None:
    """Wait for the end of every hook that Slurm has started on a node: it has no other Python."""

    def running() -> str:
        listed = node.processes().values()
        return "hook" if any("python3" in words or "/etc/slurm/" in words for words in listed) else "none"

    slurm.wait_for(running, "none")
