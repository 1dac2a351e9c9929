"""The job that this process runs in: its nodes, and steps over some of them. srun(1), INPUT and OUTPUT ENVIRONMENT."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from nodegate.engines.engine import Ended
from nodegate.errors import CannotMeasure, UsageError
from nodegate.inventory.hostlist import expand
from nodegate.launchers.launcher import LaunchSettings, heard
from nodegate.launchers.srun import Srun
from nodegate.scheduler.programs import path_of

_LOOK_S, _END_S = 60.0, 10.0
MOST_BYTES = 1 << 20
_HINT = "type it in the job: in its batch script, or in the shell of salloc or srun --pty"


@dataclass(frozen=True)
class Allocation:
    """See `Job`. `launcher` says by which type of MPI ranks find each other."""

    job: str
    nodes: tuple[str, ...]
    gpus: int
    launcher: Srun

    @classmethod
    def here(cls, environ: Mapping[str, str] = os.environ) -> Allocation:
        """The one that this process is in.

        Raises:
            UsageError: it is in none, or in a prolog or epilog, where no step may begin.
        """
        context, job, nodes = (environ.get(f"SLURM_{key}", "") for key in ("SCRIPT_CONTEXT", "JOB_ID", "JOB_NODELIST"))
        if context and "task" not in context:
            raise UsageError(f"this is a {context}: no step of the job can begin in it", hint=_HINT)
        if not job.isdecimal() or not nodes:
            raise UsageError("this is not inside a job of Slurm (SLURM_JOB_ID, SLURM_JOB_NODELIST)", hint=_HINT)
        gpus = re.match(r"\d+", environ.get("SLURM_GPUS_ON_NODE", ""))
        return cls(job, tuple(expand(nodes)), int(gpus[0]) if gpus else 0, _launcher())

    def step(self, nodes: Sequence[str], ranks: int, words: Sequence[str], limit_s: float, network: str = "") -> Ended:
        """See `Job`."""
        count = str(len(nodes))
        step = [self.launcher.path, f"--jobid={self.job}", "--overlap", "--quiet", "-N", count, "-w", ",".join(nodes)]
        step += ["-n", str(ranks * len(nodes)), f"--ntasks-per-node={ranks}", "--distribution=block"]
        step += [f"--mpi={self.launcher.mpi}", "--cpu-bind=none", "--mem=0", "--kill-on-bad-exit=1"]
        step += ["--time", str(int(limit_s // 60) + 2), *words]  # also where this process is killed
        environ = {**os.environ, **self.launcher.for_ranks(network)}
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            nothing = subprocess.DEVNULL
            program = subprocess.Popen(step, stdin=nothing, stdout=out, stderr=err, env=environ, start_new_session=True)
            try:
                code = program.wait(limit_s)
            except subprocess.TimeoutExpired:
                code = None
            finally:
                _end(program)
            out.seek(0)
            err.seek(0)
            printed = (each.read(MOST_BYTES).decode(errors="replace") for each in (out, err))
            return Ended(code, *printed)


def _launcher() -> Srun:
    path = path_of("srun")
    try:
        look = ["/bin/sh", "-c", Srun.look, "sh", path]
        said = subprocess.run(look, capture_output=True, timeout=_LOOK_S, check=False)
        return Srun.known(path, heard(said.stdout), LaunchSettings())
    except (CannotMeasure, OSError, subprocess.TimeoutExpired) as broken:
        raise UsageError(f"srun cannot start ranks of MPI here: {broken}", hint="srun --mpi=list") from None


def _end(program: subprocess.Popen[bytes]) -> None:
    """The first signal ends the step on its nodes, the second one srun itself."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        if program.poll() is None:
            os.killpg(program.pid, number)
            try:
                program.wait(_END_S)
            except subprocess.TimeoutExpired:
                continue
