"""Sixteen nodes reached through Slurm, as a site may have set it: the same verdicts as by SSH, bad nodes among them."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from lab import needs
from lab.nodes import faults
from lab.nodes.nodes import why_not
from lab.run import Outcome, Run
from lab.slurm.cluster import Cluster, cluster
from nodegate.engines.registry import engine
from nodegate.node import Connection, Node
from nodegate.scheduler.hold import NAME
from nodegate.transport.call import Request

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lab.nodes.node import LabNode
    from nodegate.engines.engine import Reach

CONF = "KillOnBadExit=1\nWaitTime=5\nTaskProlog=/etc/slurm/task-prolog\nMessageTimeout=10\n"
FAULTS = {
    3: faults.manager_stopped,
    6: faults.xid,
    9: faults.gpu_lost,
    12: faults.rail_down,
    15: faults.manager_of_another_version,
}
LENT_S = 60 + 60  # the job's lease, and what Slurm takes to notice


def _prolog(node: LabNode) -> None:
    prolog = node.root / "etc/slurm/task-prolog"
    prolog.write_text("#!/bin/sh\necho print a prolog that prints\necho noise >&2\n")
    prolog.chmod(0o755)


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    needs.require(why_not())
    folder = tmp_path_factory.mktemp("fleet")
    with cluster(16, folder, prepare_more=_prolog, conf=CONF, suite="bookworm") as running:
        yield running


def start(fleet: Cluster, folder: Path, *more: str, monkeypatch: pytest.MonkeyPatch) -> Run:
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{fleet.programs(folder)}:{os.environ['PATH']}")
    inventory = fleet.lab.inventory([node.name for node in fleet.workers], {})
    within = fleet.lab.space.in_network()
    usual = ("-p", "lab.slow_probe", "--passive", "--tb=no")
    return Run(folder / "run", inventory, *usual, *more, within=within)


def said(outcome: Outcome) -> set[tuple[str, str, str, str]]:
    """Node, check, verdict and the codes of all that was found."""
    return {
        (each.node, each.check, each.verdict.value, " ".join(sorted({finding.code for finding in each.findings})))
        for each in outcome.records
    }


def ours(fleet: Cluster) -> str:
    return fleet.controller.run("squeue", "-h", "-n", NAME, "-t", "PD,R,CG", "-o", "%i %T").strip()


def at_work(fleet: Cluster) -> list[str]:
    found = [args for node in fleet.workers for args in node.processes().values()]
    return [args for args in found if "nodegate-guard" in args]


def test_the_same_by_slurm_and_by_ssh(fleet: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with contextlib.ExitStack() as broken:
        for number, fault in FAULTS.items():
            broken.enter_context(fault(fleet.workers[number]))
        with start(fleet, tmp_path / "ssh", monkeypatch=monkeypatch) as run:
            by_ssh = run.outcome()
        with start(fleet, tmp_path / "slurm", "--inventory", "slurm:[gpu]", monkeypatch=monkeypatch) as run:
            by_slurm = run.outcome()
    assert len(said(by_ssh)) > 16 * 50, by_ssh.output
    failed = {node for node, _, verdict, _ in said(by_ssh) if verdict == "fail"}
    assert {fleet.workers[number].name for number in FAULTS} <= failed
    # What differs is what a step of Slurm gives its processes, and not what the node is.
    assert said(by_slurm) ^ said(by_ssh) == set()
    assert (ours(fleet), at_work(fleet)) == ("", [])


BAD = 7  # the node on which something ends
ENDS = {  # what ends in a step of sixteen, by a command on the controller or on the bad node: nodes that do not answer
    "nothing": ("controller", "true", "none"),
    "srun": ("controller", "pkill -9 -o srun", "none"),
    "srun and its shepherd": ("controller", "pkill -9 srun", "none"),
    "the step": ("controller", "scancel $(squeue -h -s -n nodegate-hold -o %i | grep -v '[a-z]')", "none"),
    "the job": ("controller", "scancel -n nodegate-hold", "all"),
    "slurmd killed": ("node", "pkill -9 slurmd", "bad"),
    "slurmd stopped": ("node", "pkill -STOP slurmd", "bad"),
    "slurmstepd": ("node", "pkill -9 slurmstepd", "none"),
    "the task": ("node", "pkill -9 -o -f '[n]odegate-guard'", "none"),
}


@contextlib.contextmanager
def lent(fleet: Cluster, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Reach, list[Node]]]:
    """All nodes, lent by a job; afterwards nothing of ours is there and slurmd runs everywhere."""
    monkeypatch.setenv("PATH", f"{fleet.programs(folder)}:{os.environ['PATH']}")
    nodes = [Node(each.name, Connection(transport="slurm", lease_s=15.0)) for each in fleet.workers]
    reach = engine("slurm").reach(nodes)
    try:
        assert reach.hold([node.name for node in nodes], time.time() + 900, ended=lambda: False).refused == {}
        yield reach, nodes
    finally:
        reach.give_back()
        fleet.workers[BAD].run("pkill", "-CONT", "slurmd", check=False)
        fleet.workers[BAD].run("systemctl", "restart", "slurmd")
    fleet.wait_for(lambda: ours(fleet) or "none", "none")
    fleet.wait_for(lambda: " ".join(at_work(fleet)) or "none", "none", 60)
    for node in fleet.workers:
        fleet.wait_for(lambda node=node: f"{fleet.state(node)}.", "idle.")  # type: ignore[misc]


@pytest.mark.parametrize("what", ENDS)
def test_what_ends_in_a_step_of_sixteen_costs_its_node_alone(
    fleet: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    where, command, lost = ENDS[what]
    with lent(fleet, tmp_path, monkeypatch) as (reach, nodes):
        bad = fleet.workers[BAD]
        there = bad if where == "node" else fleet.controller
        # One ends at once with a code: with the site's KillOnBadExit and WaitTime it would end the others.
        request = Request(["sh", "-c", f"hostname; test $(hostname) = {fleet.workers[2].name} && exit 7; sleep 20"], 60)
        begun = time.monotonic()
        if what.startswith("slurmd"):
            there.run("sh", "-c", command)
        with ThreadPoolExecutor(1) as pool:
            asked = pool.submit(reach.at_once, request, nodes)
            fleet.wait_for(
                lambda: "nodegate-guard" if asked.done() else " ".join(bad.processes().values()), "nodegate-guard"
            )
            if not what.startswith("slurmd"):
                there.run("sh", "-c", command)
            answers = asked.result()
        missing = {"none": set(), "bad": {bad.name}, "all": {node.name for node in nodes}}[lost]
        assert set(answers) == {node.name for node in nodes} - missing
        for name, answer in answers.items():
            assert answer.output.stdout == f"{name}\n".encode()
            assert answer.output.exit_code == (7 if name == fleet.workers[2].name else 0)
        assert time.monotonic() - begun < 300  # srun does not end by itself where a slurmstepd was killed


def test_lines_longer_than_a_message_of_slurm_arrive_whole(
    fleet: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Older releases of srun cut a line at 1,024 bytes; what is framed is shorter."""
    with lent(fleet, tmp_path, monkeypatch) as (reach, nodes):
        for size in (1024, 1025):
            lines = f"for i in range(200): print(str(i).rjust({size - 1}, '.'))"
            whole = "".join(f"{i}".rjust(size - 1, ".") + "\n" for i in range(200)).encode()
            answers = reach.at_once(Request(["python3", "-c", lines], 60), nodes)
            assert set(answers) == {node.name for node in nodes}
            assert {answer.output.stdout == whole for answer in answers.values()} == {True}


def test_what_slurm_does_not_reach_is_told_or_goes_by_ssh_where_a_file_says_so(
    fleet: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drained, other, killed, stopped = (fleet.workers[number] for number in (1, 4, 10, 13))
    (tmp_path / "by-ssh.yaml").write_text(
        fleet.lab.inventory([other.name], {other.name: {"ansible_connection": "ssh"}})
    )
    for node in (drained, other):
        fleet.drain(node, "for a test")
    try:
        more = ("--inventory", "slurm:[gpu]", "--inventory", str(tmp_path / "by-ssh.yaml"))
        with start(fleet, tmp_path / "run", *more, monkeypatch=monkeypatch) as run:
            run.wait_for(lambda: ours(fleet).endswith("RUNNING"))
            killed.run("pkill", "-9", "slurmd")
            stopped.run("pkill", "-STOP", "slurmd")
            outcome = run.outcome()
    finally:
        stopped.run("pkill", "-CONT", "slurmd", check=False)
        for node in (killed, stopped):
            node.run("systemctl", "restart", "slurmd")
        for node in (drained, other):
            fleet.resume(node)
    assert "it is drained in Slurm, which then starts nothing on it" in outcome.words(drained.name, "node.reachable")
    bad = {drained.name, killed.name, stopped.name}
    reached = {node for node, check, verdict, _ in said(outcome) if check == "node.reachable" and verdict == "pass"}
    assert reached == {node.name for node in fleet.workers} - bad
    judged = {node for node, check, verdict, _ in said(outcome) if check == "gpu.count" and verdict == "pass"}
    assert judged == reached
    assert at_work(fleet) == []
    fleet.wait_for(lambda: ours(fleet) or "none", "none")  # the node whose slurmd was killed has ended it too


@pytest.mark.parametrize(
    ("end", "and_also"),
    [(signal.SIGKILL, ""), (signal.SIGSTOP, ""), (signal.SIGKILL, "pkill -9 srun; pkill -9 scancel; true")],
    ids=["killed", "stopped", "its machine gone"],
)
def test_a_killed_or_stopped_controller_leaves_nothing(
    fleet: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: signal.Signals, and_also: str
) -> None:
    with start(fleet, tmp_path / "run", "--inventory", "slurm:[gpu]", monkeypatch=monkeypatch) as run:
        run.wait_for(lambda: ours(fleet).endswith("RUNNING"))
        run.wait_for(lambda: len(at_work(fleet)) > 4)
        run.process.send_signal(end)
        fleet.controller.run("sh", "-c", and_also)
        fleet.wait_for(lambda: ours(fleet) or "none", "none", LENT_S)
        fleet.wait_for(lambda: " ".join(at_work(fleet)) or "none", "none", 60)
