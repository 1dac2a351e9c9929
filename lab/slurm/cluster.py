"""A Slurm cluster of lab nodes: gpu-1 is the controller, the others run jobs, each with eight made GPUs.

`with cluster(2, tmp_path) as slurm: job = slurm.submit("true", "-w", slurm.workers[0].name)`
"""

from __future__ import annotations

import secrets
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from lab.nodes import gpus
from lab.nodes.image import image
from lab.nodes.nodes import Nodes
from lab.slurm import config, installed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from lab.nodes.node import LabNode

LIMIT_S = 120.0  # what takes a second on an idle machine


class Cluster:
    """The running cluster."""

    def __init__(self, lab: Nodes) -> None:
        self.lab = lab
        self.controller, *self.workers = lab.nodes

    def hook(self, node: LabNode, *names: str, **settings: str) -> None:
        """Which of nodegate's hooks Slurm runs on a node from now on, with these settings (deploy/slurm-hook.sh)."""
        options = f"--baseline /etc/nodegate/site.yaml {settings.pop('options', '')}".strip()
        settings = {"options": options, "limit_s": "100", **settings}
        lines = {f"NODEGATE_{key.upper()}": value for key, value in settings.items()}
        (node.root / "etc/nodegate/hooks.conf").write_text("".join(f"{key}={it}\n" for key, it in lines.items()))
        for name in config.HOOKS:
            target = f"/opt/nodegate/deploy/slurm-{name}.sh" if name in names else "/bin/true"
            node.run("ln", "-sfn", target, f"/etc/slurm/{name}")

    def scontrol(self, *words: str) -> str:
        """What the controller's scontrol prints."""
        return self.controller.run("scontrol", *words)

    def state(self, node: LabNode) -> str:
        """Its state in short: idle, mixed, drained, draining, down ..."""
        return self.controller.run("sinfo", "-h", "-n", node.name, "-o", "%T").strip()

    def reason(self, node: LabNode) -> str:
        """Why it is not in service; "none". Slurm 24.11 keeps the reason of a node that was resumed."""
        state, _, reason = self.controller.run("sinfo", "-h", "-n", node.name, "-o", "%T|%E").strip().partition("|")
        return reason if state.startswith(("drain", "down")) else "none"

    def drain(self, node: LabNode, reason: str) -> None:
        """An operator takes it out."""
        self.scontrol("update", f"nodename={node.name}", "state=drain", f"reason={reason}")

    def resume(self, node: LabNode) -> None:
        """An operator brings it back, if it is out. An idle node may be planned for a job that waits no more."""
        if self.state(node).startswith(("drain", "down")):
            self.scontrol("update", f"nodename={node.name}", "state=resume")
        # "idle*" is one that has not answered yet
        self.wait_for(lambda: f"{self.state(node).replace('planned', 'idle')}.", "idle.")

    def submit(self, script: str, *options: str) -> str:
        """Hand in a batch job; returns its number."""
        command = ["sbatch", "--parsable", "--output=/dev/null", *options, f"--wrap={script}"]
        return self.controller.run(*command).strip()

    def job(self, number: str, field: str = "JobState") -> str:
        """A field of what the controller says of a job."""
        fields = self.scontrol("show", "job", number).split()
        return next(found.partition("=")[2] for found in fields if found.startswith(f"{field}="))

    def hurry(self, number: str) -> None:
        """Let a job that was taken back start now, if it has not yet, and not after cred_expire."""
        self.controller.run("scontrol", "update", f"jobid={number}", "starttime=now", check=False)

    def programs(self, folder: Path) -> Path:
        """A folder with Slurm's programs, for a run outside the cluster: they are the controller's own."""
        inside = f"nsenter -t {self.controller.first} -m -u -i -n -p -T --"
        for program in ("sacctmgr", "salloc", "sbatch", "scancel", "scontrol", "sinfo", "squeue", "srun"):
            script = folder / "programs" / program
            script.parent.mkdir(exist_ok=True)
            script.write_text(f'#!/bin/sh\nexec {inside} {program} "$@"\n')
            script.chmod(0o755)
        return folder / "programs"

    def said(self, node: LabNode) -> list[str]:
        """What hooks on a node have said in its system log, newest last."""
        return node.run("journalctl", "-t", "nodegate", "-o", "cat", "--no-pager").splitlines()

    def wait_for(self, what: Callable[[], str], wanted: str, limit_s: float = LIMIT_S) -> str:
        """Wait until `what()` holds these words.

        Raises:
            RuntimeError: it did not in time.
        """
        end = time.monotonic() + limit_s
        while wanted not in (found := what()):
            if time.monotonic() > end:
                raise RuntimeError(f"still {found!r} after {limit_s:g} s, expected {wanted!r}")
            time.sleep(0.2)
        return found


@contextmanager
def cluster(
    workers: int,
    folder: Path,
    packages: Sequence[str] = (),
    prepare_more: Callable[[LabNode], None] | None = None,
    *,
    conf: str = "",
    answer_limit_s: float = 15.0,
    suite: str = "",
) -> Iterator[Cluster]:
    """A controller and workers, all of them idle; with more packages of Debian, and made ready in more ways.

    `conf` are lines of slurm.conf in place of ours, `answer_limit_s` is how long a hook waits for scontrol,
    `suite` the release of Debian (lab.slurm.config.RELEASES).
    """
    unpacked = installed.unpack(folder / "unpacked", answer_limit_s)
    key = secrets.token_bytes(128)
    count = workers + 1
    addresses = [(f"gpu-{number}", f"192.0.2.{number}") for number in range(1, count + 1)]

    def prepare(node: LabNode) -> None:
        gpus.prepare(node)
        installed.install(node, unpacked)
        config.configure(node, addresses, key, conf)
        if prepare_more:
            prepare_more(node)

    with Nodes(image((*config.PACKAGES, *packages), suite), count, folder, prepare) as lab:
        slurm = Cluster(lab)
        for node in slurm.workers:
            slurm.wait_for(lambda node=node: slurm.state(node), "idle")  # type: ignore[misc]
        yield slurm
