"""`nodegate gang`: one all_reduce over exactly the nodes of this job, and which of them is to blame if it fails."""

import argparse
import json
import shutil
import time
from collections import defaultdict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from nodegate.engines.engine import Job
from nodegate.engines.registry import job_here
from nodegate.errors import CannotMeasure, UsageError
from nodegate.exit_codes import Exit
from nodegate.inventory.hostlist import fold
from nodegate.launchers.launcher import heard, look
from nodegate.measure.groups.plan import Group, Ties, part
from nodegate.measure.groups.search import search
from nodegate.measure.groups.settings import door, networks
from nodegate.text import counted, number
from nodegate.toolbox.tool_list import USUAL_FOLDERS
from nodegate.tools import nccl_tests

SCHEMA = "nodegate.gang/1"
PROGRAMS = ("all_reduce_perf_mpi", "all_reduce_perf")
# Each node says of itself what it says before any launch, with its name in the job before each line.
_LOOK = f"""\
set -- "" "$1" "${{SLURMD_NODENAME:-$(uname -n)}}"
(
{look(None)}) | sed "s/^/$3 /"
"""
SIZE = 256 << 20  # bytes: large enough for the bandwidth of a fabric, a second for the slowest
LIMIT_S, WITHIN_S = 60.0, 600.0


def add_arguments(command: argparse.ArgumentParser) -> None:
    """The options of the command."""
    option = command.add_argument
    option("--gpus", type=int, default=0, metavar="N", help="GPUs of each node (as Slurm gave them to the job)")
    option(
        "--at-least", type=float, default=0.0, metavar="GB/s", help="bus bandwidth that the nodes must reach together"
    )
    option("--program", default="", metavar="FILE", help="all_reduce_perf of nccl-tests, built with MPI (from PATH)")
    option("--limit", type=float, default=LIMIT_S, metavar="S", help="of one launch (%(default)g)")
    option("--within", type=float, default=WITHIN_S, metavar="S", help="of all launches (%(default)g)")
    option("--json", action="store_true", help="one JSON object")


@dataclass
class Gang:
    """The launches of a job."""

    job: Job
    gpus: int
    program: str
    at_least: float
    limit_s: float
    network: str = ""
    why: dict[tuple[str, ...], str] = field(default_factory=dict)  # of launches that failed
    reached: float = 0.0  # GB/s of the last launch that ended well

    def launch(self, nodes: Sequence[str]) -> bool:
        """Whether an all_reduce over these nodes ends in time, with right data, and fast enough."""
        words = [self.program, "-b", str(SIZE), "-e", str(SIZE), "-w", "2", "-n", "10", "-g", "1", "-c", "1"]
        ended = self.job.step(nodes, self.gpus, words, self.limit_s, self.network)
        why, reached = self._judged(nodes, ended.exit_code, ended.stdout, ended.stderr)
        if why:
            self.why[tuple(nodes)] = why
        else:
            self.reached = reached
        return not why

    def _judged(self, nodes: Sequence[str], exit_code: int | None, stdout: str, stderr: str) -> tuple[str, float]:
        if exit_code is None:
            return f"no end within {self.limit_s:g} s", 0.0
        try:
            found = nccl_tests.parse(stdout, stderr, collective="all_reduce")
        except CannotMeasure as said:
            return f"{said.reason} (exit code {exit_code})", 0.0
        row = found.row(SIZE)
        gaps = found.gaps(ranks=self.gpus * len(nodes), size_bytes=SIZE)
        if found.corrupt:
            return f"wrong data: {found.wrong} elements", 0.0
        if exit_code or gaps or row is None or not found.checked:
            return f"{gaps[0] if gaps else 'it failed, or its data was not compared'} (exit code {exit_code})", 0.0
        reached = row.out_of_place.busbw_gb_per_s
        return (f"{number(reached, 'GB/s')} GB/s" if reached < self.at_least else "", reached)

    def launches(self, groups: Sequence[Group]) -> list[bool]:
        """Several at the same time; no node is in two of them."""
        with ThreadPoolExecutor(max(1, len(groups))) as pool:
            return list(pool.map(lambda group: self.launch(group.nodes), groups))


def run(asked: argparse.Namespace) -> int:
    """Launch over all nodes of the job, then over halves until the guilty one is named; returns 0, 1 or 2.

    Raises:
        UsageError: it is not inside a job, or the program is not found.
    """
    job = job_here()
    gang = Gang(job, asked.gpus or job.gpus, _program(asked.program), asked.at_least, asked.limit)
    if not gang.gpus:
        raise UsageError(
            "how many GPUs the job has on a node is not said (SLURM_GPUS_ON_NODE)", hint="say it: --gpus 8"
        )
    end = time.monotonic() + asked.within
    gang.network = _network(gang)
    if gang.launch(job.nodes):
        limit = f"at least {number(gang.at_least, 'GB/s')}" if gang.at_least else "held to no limit: --at-least"
        return _say(asked, Exit.FIT, job, (), f"all_reduce over them: {number(gang.reached, 'GB/s')} GB/s ({limit})")
    found = search(
        [job.nodes], (), gang.launches, ties=Ties(), everybody=job.nodes, may_go_on=lambda: time.monotonic() < end
    )
    whole, more = gang.why[job.nodes], found.said(part(job.nodes), Ties(), "fail")
    if not found.blamed:
        why = more or "its halves succeed, and no node is bad with others"
        return _say(asked, Exit.UNKNOWN, job, (), f"all_reduce over them: {whole}; which node it is stays open: {why}")
    pairs = {name: why for nodes, why in gang.why.items() if len(nodes) <= 2 for name in nodes}
    reasons = [f"{name}: {pairs.get(name, whole)}" for name in found.blamed]
    return _say(asked, Exit.UNFIT, job, found.blamed, "; ".join(filter(None, (f"all_reduce: {whole}", *reasons, more))))


def _network(gang: Gang) -> str:
    """Where the nodes of the job are reached: not docker0, which has the same address on all of them."""
    nodes, said = gang.job.nodes, defaultdict[str, list[str]](list)
    look_at = ["/bin/sh", "-c", _LOOK, "look", gang.program]
    for line in gang.job.step(nodes, 1, look_at, gang.limit_s).stdout.splitlines():
        name, _, text = line.partition(" ")
        said[name].append(text)
    return networks([door(name, heard("\n".join(said[name]).encode())) for name in nodes])


def _program(named: str) -> str:
    usual = ":".join(USUAL_FOLDERS)
    found = named or next(filter(None, (shutil.which(each) or shutil.which(each, path=usual) for each in PROGRAMS)), "")
    if not found:
        hint = "name it: --program /opt/nccl-tests/build/all_reduce_perf"
        raise UsageError("all_reduce_perf is not on this node's PATH", hint=hint)
    return found


def _say(asked: argparse.Namespace, code: Exit, job: Job, bad: Sequence[str], why: str) -> int:
    if asked.json:
        about = {"job": job.job, "nodes": list(job.nodes), "bad": list(bad)}
        print(json.dumps({"schema": SCHEMA, "verdict": code.word, **about, "why": why}))
        return code
    head = {Exit.FIT: "fit", Exit.UNFIT: f"unfit: {fold(bad)}"}.get(code, "could not tell")
    print(f"nodegate: {head}: job {job.job}, {counted(len(job.nodes), 'node')} ({fold(job.nodes)}): {why}")
    return code
