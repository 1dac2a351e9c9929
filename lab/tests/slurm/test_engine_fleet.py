"""Sixteen nodes reached through Slurm, as a site may have set it: the same verdicts as by SSH, bad nodes among them."""

from __future__ import annotations

import contextlib
import os
import signal
import time
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


def test_a_hung_slurmd_costs_its_node_alone(fleet: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hung = fleet.workers[7]
    monkeypatch.setenv("PATH", f"{fleet.programs(tmp_path)}:{os.environ['PATH']}")
    nodes = [Node(each.name, Connection(transport="slurm", lease_s=30.0)) for each in fleet.workers]
    reach = engine("slurm").reach(nodes)
    try:
        assert reach.hold([node.name for node in nodes], time.time() + 900, ended=lambda: False).refused == {}
        hung.run("pkill", "-STOP", "slurmd")
        begun = time.monotonic()
        answers = reach.at_once(Request(["sh", "-c", "hostname; exit 3"], 30), nodes)
        took_s = time.monotonic() - begun
    finally:
        hung.run("pkill", "-CONT", "slurmd")
        reach.give_back()
    assert set(answers) == {node.name for node in nodes} - {hung.name}
    assert all(answer.output.exit_code == 3 for answer in answers.values())
    assert took_s < 180
    fleet.wait_for(lambda: ours(fleet) or "none", "none")


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGSTOP])
def test_a_killed_or_stopped_controller_leaves_nothing(
    fleet: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: signal.Signals
) -> None:
    with start(fleet, tmp_path / "run", "--inventory", "slurm:[gpu]", monkeypatch=monkeypatch) as run:
        run.wait_for(lambda: ours(fleet).endswith("RUNNING"))
        run.process.send_signal(end)
        fleet.wait_for(lambda: ours(fleet) or "none", "none", LENT_S)
        fleet.wait_for(lambda: " ".join(at_work(fleet)) or "none", "none", 60)
