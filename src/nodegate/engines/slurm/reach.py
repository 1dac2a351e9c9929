"""The way of a run to its nodes in Slurm: batch jobs of our own that lend them, and srun in these.

A job ends by itself 60 s after our last sign of life, which Slurm brings as a signal to its script, and at its time
limit. sbatch(1), scancel(1), srun(1); written for Slurm 22.05 and later.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from nodegate.engines.engine import Answer
from nodegate.engines.messages import MESSAGES
from nodegate.engines.slurm.fan_out import fan_out
from nodegate.errors import Unreachable
from nodegate.node import Node
from nodegate.scheduler.hold import NAME, Held, owner
from nodegate.scheduler.programs import NoAnswer, path_of
from nodegate.scheduler.slurm import SlurmHold, reservation_name, slurm_says
from nodegate.transport.beat import BEAT
from nodegate.transport.call import Request
from nodegate.transport.command import CommandSession

MOST_IN_A_JOB = 512  # an allocation that is lost takes no more nodes with it
START_S = 60.0  # that Slurm has to start a job on nodes that are free
LEASE_S, SIGN_EVERY = 60, 4  # of the job; one sign of life in so many beats
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_STAYS = ("SLURM_CONF", "SLURM_CONF_SERVER", "SLURM_JWT")  # of our own environment; the rest is of a job around us
_SCRIPT = f"""\
later() {{ end=$(($(date +%s) + {LEASE_S})); }}
trap later USR1
later
while [ "$(date +%s)" -lt "$end" ]; do sleep 2 & wait $!; done
"""
_DRAINED = "it is drained in Slurm, which then starts nothing on it: reach it with ansible_connection: ssh"


def own_environ() -> dict[str, str]:
    """Our own environment without that of a job around us: srun and sbatch would take their options from it."""
    own = os.environ.items()
    return {key: value for key, value in own if not key.startswith(("SLURM_", "SBATCH_", "SRUN_")) or key in _STAYS}


@dataclass(eq=False)
class SlurmReach(SlurmHold):
    """See `Reach`. `jobs`: Slurm's name of a node -> the number of the job that has it."""

    jobs: dict[str, str] = field(default_factory=dict, init=False)
    lease_s: float = field(default=LEASE_S, init=False)
    _beats: int = field(default=0, init=False)
    _signs: list[subprocess.Popen[bytes]] = field(default_factory=list, init=False)

    def hold(self, nodes: Sequence[str], until: float, *, ended: Callable[[], bool] = lambda: False) -> Held:
        """See `Holder`; a drained node is not reached."""
        held = super().hold(nodes, until, ended=ended)
        drained = dict.fromkeys(self._drained.values(), _DRAINED)
        self._held = {name: node for name, node in self._held.items() if node not in drained}
        self._drained.clear()
        return Held(tuple(self._held.values()), {**held.refused, **drained})

    def give_back(self) -> str:
        """See `Holder`."""
        if not (why := super().give_back()):
            BEAT.leave(self)
            for sign in self._signs:
                sign.kill()  # its jobs are gone
                sign.wait()
        return why

    def connect(self, node: Node) -> CommandSession:
        """See `Reach`."""
        name = self.names[node.name]
        if name not in self.jobs:
            raise Unreachable("refused", "Slurm does not lend it now", next_step="see squeue -w NODE", whose=node.name)
        job = self.jobs[name]
        # Launchers on the node take Slurm's variables of a step for the hosts and ranks of theirs; srun needs the job.
        words = [*self._srun(job, (name,)), "env", "-i", f"PATH={PATH}", f"SLURM_JOB_ID={job}"]
        return CommandSession(node, words, MESSAGES["srun"], environ=own_environ())

    def at_once(self, request: Request, nodes: Sequence[Node]) -> Mapping[str, Answer]:
        """See `Reach`: one step for each job; a second one without the nodes that the first one named as bad."""
        by_job: defaultdict[str, dict[str, Node]] = defaultdict(dict)
        for node in nodes:
            if (name := self.names[node.name]) in self.jobs:
                by_job[self.jobs[name]][name] = node
        with ThreadPoolExecutor(max(1, len(by_job))) as pool:
            found = pool.map(lambda job: self._in_job(job, request, by_job[job]), by_job)
            return {name: answer for part in found for name, answer in part.items()}

    def _in_job(self, job: str, request: Request, members: Mapping[str, Node]) -> dict[str, Answer]:
        found: dict[str, Answer] = {}
        wanted = list(members)
        for _ in range(2):
            if not wanted:
                break
            step = self._srun(job, wanted)
            answers, bad = fan_out(step, request, members[wanted[0]].connection, wanted, environ=own_environ())
            found |= {members[name].name: answer for name, answer in answers.items()}
            wanted = [name for name in wanted if name not in answers and name not in bad]
        return found

    def _srun(self, job: str, names: Sequence[str]) -> list[str]:
        """The words of a step with one task on each of these nodes, before the task's own."""
        number = str(len(names))
        words = [path_of("srun"), f"--jobid={job}", "--overlap", "--quiet", "-N", number, "-n", number]
        words += ["--ntasks-per-node=1", "-w", ",".join(names), "--mpi=none", "--cpu-bind=none"]
        return [*words, "--kill-on-bad-exit=0", "--wait=0", f"--export=PATH={PATH}"]

    # Allocations --------------------------------------------------------------------------------------------------

    def _taken(
        self, by_name: Mapping[str, str], partitions: Mapping[str, str], minutes: int, ended: Callable[[], bool]
    ) -> dict[str, str]:
        """See `SlurmHold`: one job for all nodes that are asked for in the same way, in the reservation if any."""
        refused = self._reserved(by_name, minutes) if self.reservation else {}
        alike: defaultdict[tuple[tuple[str, str], ...], list[str]] = defaultdict(list)
        for name in (each for each in by_name if each not in refused):
            own = self._options(by_name[name], partitions[name])
            alike[tuple(sorted((key, value) for key, value in own.items() if key != "nodelist"))].append(name)
        for same, names in alike.items():
            for at in range(0, len(names), MOST_IN_A_JOB):
                refused |= self._job(names[at : at + MOST_IN_A_JOB], dict(same), minutes, ended)
        return refused

    def _job(
        self, names: Sequence[str], own: Mapping[str, str], minutes: int, ended: Callable[[], bool]
    ) -> dict[str, str]:
        """One job for these nodes, else one for each half of them; why single ones have none."""
        why = "the run was ended" if ended() else self._submit(names, own, minutes, ended)
        if not why:
            return {}
        if len(names) == 1 or ended():
            return dict.fromkeys(names, why)
        with ThreadPoolExecutor(2) as pool:
            halves = (names[: len(names) // 2], names[len(names) // 2 :])
            parts = pool.map(lambda half: self._job(half, own, minutes, ended), halves)
            return {name: said for part in parts for name, said in part.items()}

    def _submit(self, names: Sequence[str], own: Mapping[str, str], minutes: int, ended: Callable[[], bool]) -> str:
        """Why no job of ours runs on these nodes; empty if it does."""
        asked = {**own, "nodes": str(len(names)), "nodelist": ",".join(names), "mem": "0", "time": str(minutes)}
        asked |= {"job-name": NAME, "comment": owner(), "output": "/dev/null", "chdir": "/", "wrap": _SCRIPT}
        asked["export"] = f"PATH={PATH}"
        asked |= {"reservation": reservation_name(self.reservation)} if self.reservation else {}
        words = ["--parsable", "--exclusive", "--no-kill", "--no-requeue"]
        try:
            options = [f"--{key}={value}" for key, value in asked.items()]
            job = slurm_says("sbatch", *words, *options, environ=own_environ()).strip().partition(";")[0]
            BEAT.keep(self)
            if why := _starts(job, ended):
                slurm_says("scancel", job)
        except NoAnswer as refusal:
            return str(refusal)
        if not why:
            self.jobs |= dict.fromkeys(names, job)
        return why

    def beat(self) -> None:
        """See `Leased`: the jobs live on."""
        self._beats += 1
        self._signs = [each for each in self._signs if each.poll() is None]
        jobs = sorted(set(self.jobs.values()))
        if jobs and self._beats % SIGN_EVERY == 1 and not self._signs:
            quiet = subprocess.DEVNULL
            words = [path_of("scancel"), "--batch", "--signal=USR1", *jobs]
            self._signs.append(subprocess.Popen(words, stdin=quiet, stdout=quiet, stderr=quiet, env=own_environ()))

    def expired(self, _silent_s: float) -> None:
        """See `Leased`: what runs there says so itself."""


def _starts(job: str, ended: Callable[[], bool]) -> str:
    """Wait until a job runs; why it does not."""
    limit, reason = time.monotonic() + START_S, "it does not start"
    while time.monotonic() < limit and not ended():
        state, _, reason = slurm_says("squeue", "-h", "-j", job, "-t", "all", "-o", "%T|%r").strip().partition("|")
        if state == "RUNNING":
            return ""
        if state not in ("PENDING", "CONFIGURING", "REQUEUED"):
            break
        time.sleep(0.3)
    return f"Slurm did not start our job on it within {START_S:g} s ({reason or 'no reason'})"
