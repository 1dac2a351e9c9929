"""A held node gets no job until it is given back, by us, or by Slurm where we are killed."""

from __future__ import annotations

import json
import os
import subprocess
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

import pytest

from lab.nodes import faults
from lab.run import Run
from nodegate.scheduler.hold import NAME

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lab.slurm.bench import Bench
    from lab.slurm.cluster import Cluster

PYTHON = "/opt/nodegate/bin/python3"
HOLD = """\
import json, sys, time
from nodegate.scheduler.slurm import SlurmHold
nodes, reservation = sys.argv[1].split(","), sys.argv[2]
holder = SlurmHold({name: name for name in nodes}, reservation=reservation)
held = holder.hold(nodes, time.time() + 600)
print(json.dumps({"held": held.nodes, "refused": dict(held.refused)}), flush=True)
while "lost" in sys.stdin.readline():
    print(json.dumps(holder.lost()), flush=True)
print(holder.give_back() or "given back", flush=True)
"""
LEFT = """\
import sys
from nodegate.scheduler.slurm import SlurmHold
print(*SlurmHold({}, reservation=sys.argv[1]).left_behind())
"""
WAYS = pytest.mark.parametrize("reservation", ["", "nodegate"], ids=["allocation", "reservation"])


class Holding(NamedTuple):
    """A process on the controller that holds nodes: what it said, and itself."""

    held: list[str]
    refused: dict[str, str]
    process: subprocess.Popen[str]

    def lost(self) -> list[str]:
        """What it holds no more."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write("lost\n")
        self.process.stdin.flush()
        found: list[str] = json.loads(self.process.stdout.readline())
        return found

    def gives_back(self) -> str:
        """Let it give back, and end."""
        said, _ = self.process.communicate(timeout=60)
        return said.strip()


def _on_controller(slurm: Cluster) -> list[str]:
    return ["nsenter", "-t", str(slurm.controller.first), "-m", "-u", "-i", "-n", "-p", "-T", "--"]


@contextmanager
def holding(slurm: Cluster, *benches: Bench, reservation: str = "", user: str = "") -> Iterator[Holding]:
    names = ",".join(each.node.name for each in benches)
    became = ["setpriv", f"--reuid={user}", "--clear-groups"] if user else []
    command = [*_on_controller(slurm), *became, PYTHON, "-c", HOLD, names, reservation]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        said = json.loads(process.stdout.readline())
        try:
            yield Holding(said["held"], said["refused"], process)
        finally:
            slurm.controller.run("pkill", "-9", "-f", "holder.give_back", check=False)
            process.kill()
            slurm.controller.run("scancel", f"--name={NAME}")
            if reservation:
                slurm.controller.run(PYTHON, "-c", LEFT, reservation)


@WAYS
def test_a_job_waits_until_the_nodes_are_given_back(
    slurm: Cluster, worker: Bench, neighbour: Bench, reservation: str
) -> None:
    with holding(slurm, worker, neighbour, reservation=reservation) as ours:
        assert (ours.held, ours.refused) == ([worker.node.name, neighbour.node.name], {})
        assert "drain" not in worker.state
        job = slurm.submit("true", "-N2")
        slurm.wait_for(lambda: slurm.job(job), "PENDING")
        with pytest.raises(RuntimeError, match="PENDING"):
            slurm.wait_for(lambda: slurm.job(job), "COMPLETED", limit_s=5)
        assert ours.gives_back() == "given back"
        worker.ends(job)


@WAYS
def test_a_busy_node_is_refused_and_its_job_left_alone(
    slurm: Cluster, worker: Bench, neighbour: Bench, reservation: str
) -> None:
    job = slurm.submit("sleep 300", "-w", worker.node.name)
    worker.ends(job, "RUNNING")
    worker.becomes("mixed")
    with holding(slurm, worker, neighbour, reservation=reservation) as ours:
        assert ours.held == [neighbour.node.name]
        assert ours.refused == {worker.node.name: "its state in Slurm is mixed"}
        assert ours.gives_back() == "given back"
    assert slurm.job(job) == "RUNNING"


@WAYS
def test_what_a_killed_run_holds_ends_by_itself_and_at_the_next_start_at_once(
    slurm: Cluster, worker: Bench, reservation: str
) -> None:
    with holding(slurm, worker, reservation=reservation):
        slurm.controller.run("pkill", "-9", "-f", "holder.give_back")
        if reservation:
            assert "Duration=00:10:00" in slurm.scontrol("show", "reservation")
        else:
            listed = slurm.controller.run("squeue", "-h", f"--name={NAME}", "-o", "%T %l")
            assert listed.split() == ["RUNNING", "10:00"]
        assert slurm.controller.run(PYTHON, "-c", LEFT, reservation).split() != []
        worker.becomes("idle")
        assert slurm.controller.run(PYTHON, "-c", LEFT, reservation).split() == []


def test_a_drained_node_stays_drained_with_its_reason(slurm: Cluster, worker: Bench) -> None:
    slurm.drain(worker.node, "power cable")
    with holding(slurm, worker) as ours:
        assert ours.held == [worker.node.name]
        assert ours.gives_back() == "given back"
    assert (worker.state, worker.reason) == ("drained", "power cable")


def test_an_ordinary_user_may_allocate_and_not_reserve(slurm: Cluster, worker: Bench) -> None:
    with holding(slurm, worker, user="nobody") as ours:
        assert ours.held == [worker.node.name]
    with holding(slurm, worker, user="nobody", reservation="nodegate") as ours:
        assert ours.held == []
        assert ours.refused[worker.node.name].endswith("(Invalid user id)")


def test_a_name_that_slurm_does_not_have_is_refused(slurm: Cluster, worker: Bench) -> None:
    script = HOLD.replace("name: name", "name: name + 'x'")
    said = slurm.controller.run(PYTHON, "-c", script, worker.node.name, "")
    assert "Slurm does not know it under this name" in said


def holds(slurm: Cluster, worker: Bench) -> list[list[str]]:
    """The jobs that held a node, number and state: those of tests before this one too."""
    asked = ("-t", "all", f"--name={NAME}", "-w", worker.node.name, "-o", "%i %T")
    return [line.split() for line in slurm.controller.run("squeue", "-h", *asked).splitlines()]


def test_a_run_holds_its_nodes_under_load_and_leaves_busy_ones_alone(
    slurm: Cluster, worker: Bench, neighbour: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run is outside the cluster: Slurm's programs are the controller's own."""
    job = slurm.submit("sleep 300", "-w", neighbour.node.name)
    neighbour.ends(job, "RUNNING")
    neighbour.becomes("mixed")
    monkeypatch.setenv("PATH", f"{slurm.programs(tmp_path)}:{os.environ['PATH']}")
    names = [worker.node.name, neighbour.node.name]
    inventory = slurm.lab.inventory(names, {name: {"nodegate_hold": "slurm"} for name in names})
    asked = ("-k", "burn", "--burn", "1s")
    with Run(tmp_path / "run", inventory, *asked, within=slurm.lab.space.in_network()) as run:
        outcome = run.outcome()
    assert outcome.exit_code == 1, outcome.output
    assert "the node cannot be held: its state in Slurm is mixed" in outcome.words(neighbour.node.name, "burn.complete")
    assert "cannot be held" not in outcome.words(worker.node.name, "burn.complete"), outcome.output
    assert {state for number, state in holds(slurm, worker) if int(number) > int(job)} == {"CANCELLED"}
    assert slurm.job(job) == "RUNNING"
    slurm.controller.run("scancel", job)


@pytest.mark.parametrize(("login", "drained"), [("root", False), ("0", False), ("nobody", True), ("", True)])
def test_our_prolog_lets_our_own_hold_be_and_checks_that_of_others(
    slurm: Cluster, worker: Bench, login: str, drained: bool
) -> None:
    """The node is sick: any other job would find it drained. Here root holds it."""
    worker.hook("prolog", **({"user": login} if login else {}))
    with faults.xid(worker.node), holding(slurm, worker) as ours:
        assert ours.held == ([] if drained else [worker.node.name])
        if not drained:
            assert worker.said() == ""


@pytest.mark.parametrize("end", ["scancel", "reservation", "resumed"])
def test_a_hold_that_others_end_is_lost(slurm: Cluster, worker: Bench, neighbour: Bench, end: str) -> None:
    if end == "resumed":
        slurm.drain(worker.node, "power cable")
    with holding(slurm, worker, neighbour, reservation="nodegate" if end == "reservation" else "") as ours:
        assert ours.lost() == []
        if end == "scancel":
            slurm.controller.run("scancel", f"--name={NAME}", "-w", worker.node.name)
        elif end == "reservation":
            name = slurm.scontrol("show", "reservation").split()[0]
            slurm.scontrol("delete", name)
        else:
            slurm.scontrol("update", f"nodename={worker.node.name}", "state=resume")
        gone = [worker.node.name, *([neighbour.node.name] if end == "reservation" else [])]
        slurm.wait_for(lambda: json.dumps(ours.lost()), json.dumps(gone))
        assert ours.gives_back() == "given back"


def test_what_a_job_has_just_left_is_held(slurm: Cluster, worker: Bench) -> None:
    slow = worker.node.root / "etc/slurm/epilog"
    slow.unlink()
    slow.write_text("#!/bin/sh\nsleep 4\n")
    slow.chmod(0o755)
    slurm.submit("true", "-w", worker.node.name)
    worker.becomes("completing")
    for reservation in ("", "nodegate"):
        with holding(slurm, worker, reservation=reservation) as ours:
            assert (ours.held, ours.refused) == ([worker.node.name], {})
            assert ours.gives_back() == "given back"
