"""A site that starts NCCL over its nodes: Open MPI and Slurm of Debian, ssh between the nodes, a docker0 on each.

Its docker0 has the same address everywhere, as Docker gives it.
"""

from __future__ import annotations

import shutil
import subprocess
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from lab.slurm.cluster import cluster
from nodegate.errors import CannotMeasure
from nodegate.launchers import LAUNCHERS
from nodegate.launchers.launcher import heard, look
from nodegate.measure.durations import OF_PROFILE
from nodegate.measure.groups.group_node import GroupNode
from nodegate.measure.groups.launch import Launch, plan_of, words
from nodegate.measure.groups.plan import Group
from nodegate.measure.groups.settings import door, launch_settings
from nodegate.measure.measurement import Target
from nodegate.measure.nccl.run import Sweep
from nodegate.node import Connection, Node
from nodegate.profile import Profile
from nodegate.records.program_run import ProgramRun

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from lab.nodes.node import LabNode
    from lab.slurm.cluster import Cluster

PACKAGES = ("libpmi2-0", "libpmix-dev", "openmpi-bin")  # Slurm loads libpmix.so by the name that the last but one has
PROGRAM = "/usr/local/bin/all_reduce_perf_mpi"
GPUS = 2
SIZE = 1 << 26
MARK = "nodegate-launch-lab-"
_SSH = "Host *\n StrictHostKeyChecking no\n UserKnownHostsFile /dev/null\n LogLevel ERROR\n"


class Site:
    """The nodes of the site; `launch` starts the stand-in over all of them with nodegate's own words."""

    def __init__(self, slurm: Cluster) -> None:
        self.slurm, self.nodes = slurm, slurm.workers
        for node in self.nodes:
            self._furnish(node)

    def _furnish(self, node: LabNode) -> None:
        for words_ in ("link add docker0 type bridge", "addr add 172.17.0.1/16 dev docker0", "link set docker0 up"):
            node.run("ip", *words_.split())
        ssh = node.root / "root/.ssh"
        ssh.mkdir(exist_ok=True)
        shutil.copy(self.slurm.lab.user_key, ssh / "id_ed25519")
        (ssh / "id_ed25519").chmod(0o600)
        (ssh / "config").write_text(_SSH)
        program = node.root / PROGRAM.lstrip("/")
        shutil.copy(Path(__file__).with_name("stand_in.py"), program)
        program.chmod(0o755)

    def ready(self, launcher: str, expected: Mapping[str, object]) -> list[GroupNode]:
        """The nodes made ready as for a measurement, each by what it says of itself."""
        found = []
        for lab_node in self.nodes:
            node = Node(lab_node.name, Connection(address=lab_node.address), expected=expected)
            path = f"/usr/bin/{launcher}"
            said = heard(
                lab_node.run("sh", "-c", look(LAUNCHERS[launcher]), "look", path, PROGRAM, node.address).encode()
            )
            settings = launch_settings(node)
            target = Target(node, None, None, None, OF_PROFILE[Profile.NIGHTLY])  # type: ignore[arg-type]
            programs = {"all_reduce": PROGRAM}
            own, place = LAUNCHERS[launcher].known(path, said, settings), door(node.address, said)
            found.append(GroupNode(target, GPUS, "H100", programs, {}, "one", own, settings, place))
        return found

    def launch(self, launcher: str, expected: Mapping[str, object], limit_s: float = 60.0) -> ProgramRun:
        """One launch over all nodes."""
        members = self.ready(launcher, expected)
        head = members[0].launcher
        if isinstance(head, CannotMeasure):
            raise head
        what = Launch("all_reduce", Sweep(SIZE, SIZE, 10, 3), limit_s)
        return self.run(what, members, words(what, members, head, MARK))

    def run(self, what: Launch, members: list[GroupNode], argv: tuple[str, ...]) -> ProgramRun:
        """Run this command on the head, to its end or its limit."""
        plan = plan_of(what, Group("fleet", "fleet", tuple(member.name for member in members)), members)
        began = time.monotonic()
        command = ["timeout", "-k", "2", f"{what.limit_s:g}", *argv]
        done = self._on_head(command, what.limit_s + 30)
        ended = done.returncode not in {124, 137}
        return ProgramRun(
            what.collective,
            stdout=done.stdout,
            stderr=done.stderr,
            exit_code=done.returncode if ended else None,
            timed_out=not ended,
            duration_s=time.monotonic() - began,
            plan=plan,
        )

    def _on_head(self, command: list[str], limit_s: float) -> subprocess.CompletedProcess[str]:
        head = self.nodes[0]
        enter = ["nsenter", "-t", str(head.first), "-m", "-u", "-i", "-n", "-p", "-T", "--", "env", "HOME=/root"]
        return subprocess.run([*enter, *command], capture_output=True, text=True, timeout=limit_s, check=False)

    def left(self) -> list[str]:
        """What runs of a launch on any node."""
        return [line for node in self.nodes for line in node.processes().values() if MARK in line or PROGRAM in line]


@contextmanager
def site(nodes: int, folder: Path, prepare: Callable[[LabNode], None] | None = None) -> Iterator[Site]:
    """So many nodes, and the controller of their Slurm. `prepare`: what else a node gets before it boots."""
    with cluster(nodes, folder, PACKAGES, prepare) as slurm:
        yield Site(slurm)
