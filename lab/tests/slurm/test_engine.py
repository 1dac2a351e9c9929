"""Nodes reached through Slurm: what is lent, what is left where anything in between dies, and the same by SSH."""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import subprocess
import time
from typing import TYPE_CHECKING

import pytest

from nodegate.engines.registry import engine
from nodegate.errors import Unreachable, UsageError
from nodegate.inventory import inventory
from nodegate.node import Connection, Node
from nodegate.scheduler.hold import NAME
from nodegate.transport import Options, connect
from nodegate.transport.call import Request
from nodegate.transport.session import Busy, NodeLock

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lab.nodes.node import LabNode
    from lab.slurm.bench import Bench
    from lab.slurm.cluster import Cluster
    from nodegate.transport import Session

_SECONDS = itertools.count(7_000_000 + os.getpid())
LEASE_S = 15.0


@pytest.fixture(autouse=True)
def programs(slurm: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The controller's own programs: we are outside the cluster."""
    monkeypatch.setenv("PATH", f"{slurm.programs(tmp_path)}:{os.environ['PATH']}")


def node_of(there: LabNode, transport: str = "slurm", command: tuple[str, ...] = ()) -> Node:
    return Node(there.name, Connection(transport=transport, command=command, lease_s=LEASE_S))


def at_work(there: LabNode) -> list[str]:
    """What is there of ours: guards, and what they run."""
    words = ("nodegate-guard", "sleep 70")
    return [args for args in there.processes().values() if any(word in args for word in words)]


def wait_until(true: object, within_s: float) -> float:
    begun = time.monotonic()
    while not true():  # type: ignore[operator]
        assert time.monotonic() - begun < within_s, "not in time"
        time.sleep(0.2)
    return time.monotonic() - begun


@contextlib.contextmanager
def allocated(slurm: Cluster, *benches: Bench) -> Iterator[str]:
    """A job of an ordinary kind that has these nodes."""
    names = ",".join(each.node.name for each in benches)
    job = slurm.submit("sleep 3000", "-w", names, f"-N{len(benches)}", "--exclusive", "--mem=0")
    slurm.wait_for(lambda: slurm.job(job), "RUNNING")
    try:
        yield job
    finally:
        slurm.controller.run("scancel", job)
        for each in benches:
            each.becomes("idle")


@contextlib.contextmanager
def by_command(worker: Bench, *words: str) -> Iterator[Session]:
    with contextlib.closing(connect(node_of(worker.node, "command", words), Options())) as session:
        yield session


def test_the_inventory_is_what_slurm_has(slurm: Cluster) -> None:
    found = inventory.read(["slurm:[gpu]"])
    assert [(node.name, node.connection.transport, node.connection.lease_s) for node in found.nodes] == [
        (worker.name, "slurm", 30.0) for worker in slurm.workers
    ]
    assert found.groups["gpu"] == found.names
    with pytest.raises(UsageError, match="no nodes in partition cpu - it has: gpu"):
        inventory.read(["slurm:[cpu]"])


def test_a_file_beside_it_has_the_last_word(slurm: Cluster, tmp_path: Path) -> None:
    first, second = (worker.name for worker in slurm.workers)
    (tmp_path / "site.ini").write_text(f"{first} nodegate_platform=dgx-h100\n{second} ansible_connection=ssh\nother\n")
    nodes = {node.name: node for node in inventory.read(["slurm:", str(tmp_path / "site.ini")]).nodes}
    assert {name: node.connection.transport for name, node in nodes.items()} == {
        first: "slurm",
        second: "ssh",
        "other": "ssh",
    }
    assert nodes[first].platform == "dgx-h100"


def test_srun_as_a_command(slurm: Cluster, worker: Bench) -> None:
    with allocated(slurm, worker) as job:
        srun = ("srun", f"--jobid={job}", "--overlap", "--quiet", "-N1", "-n1", "-w", worker.node.name)
        with by_command(worker, *srun) as session, by_command(worker, *srun) as other:
            output = session.run(["sh", "-c", "hostname; cat; exit 3"], timeout_s=30, stdin=bytes(range(256)) * 4000)
            assert output.stdout == worker.node.name.encode() + b"\n" + bytes(range(256)) * 4000
            assert output.exit_code == 3
            assert session.run(["sleep", "60"], timeout_s=1.0).timed_out
            assert isinstance(session.hold_lock(), NodeLock)
            assert isinstance(other.hold_lock(), Busy)
        assert at_work(worker.node) == []
        for words, kind in ((("-w", "gpu-1"), "unresolved"), (("--jobid=999999",), "dropped")):
            with by_command(worker, *srun, *words) as session, pytest.raises(Unreachable) as caught:
                session.run(["true"], timeout_s=10)
            assert caught.value.kind == kind, str(caught.value)


def test_systemd_run_as_a_command(worker: Bench) -> None:
    into = ("nsenter", "-t", str(worker.node.first), "-m", "-u", "-i", "-n", "-p", "-T", "--")
    with by_command(worker, *into, "systemd-run", "--pipe", "--wait", "--quiet") as session:
        assert session.run(["sh", "-c", "hostname; exit 3"], timeout_s=30).exit_code == 3
        seconds = str(next(_SECONDS))
        running = session.start(["sleep", seconds], timeout_s=100)
        wait_until(lambda: any(seconds in line for line in at_work(worker.node)), 20)
        worker.node.run("pkill", "-9", "systemd-run")
        assert not running.ended(2.0), "it has handed our pipes to the program"
        running.stop()
    wait_until(lambda: at_work(worker.node) == [], 10)


ENDS = {  # what dies: what is left ends in so many seconds at most
    "srun": ("pkill -9 -o srun", LEASE_S + 15),
    "srun and its shepherd": ("pkill -9 srun", LEASE_S + 15),
    "the step": ("scancel {job}.{step}", 15.0),
    "the job": ("scancel {job}", 30.0),
    "slurmstepd": ("pkill -9 slurmstepd", LEASE_S + 15),
    "slurmd": ("pkill -9 slurmd; scancel {job}", 45.0),
}


@pytest.mark.parametrize("what", ENDS)
def test_whatever_dies_in_between_nothing_is_left(slurm: Cluster, worker: Bench, what: str) -> None:
    command, limit_s = ENDS[what]
    with allocated(slurm, worker) as job:
        srun = ("srun", f"--jobid={job}", "--overlap", "--quiet", "-N1", "-n1", "-w", worker.node.name)
        with by_command(worker, *srun) as session:
            seconds = str(next(_SECONDS))
            running = session.start(["sh", "-c", f"setsid sleep {seconds} & sleep {seconds}"], timeout_s=300)
            wait_until(lambda: sum(seconds in line for line in at_work(worker.node)) >= 2, 20)
            steps = slurm.controller.run("squeue", "-h", "-s", "-j", job, "-o", "%i").split()
            step = next(each.partition(".")[2] for each in steps if each.partition(".")[2].isdecimal())
            there = worker.node if what in {"slurmstepd", "slurmd"} else slurm.controller
            there.run("sh", "-c", command.format(job=job, step=step))
            try:
                wait_until(lambda: at_work(worker.node) == [], limit_s)
            finally:
                worker.node.run("systemctl", "start", "slurmd")
            with contextlib.suppress(Unreachable):  # where the guard was told to end, it says so
                assert running.ended(LEASE_S + 45)
                assert running.stop().exit_code is None


def test_many_nodes_are_asked_in_one_step(slurm: Cluster, worker: Bench, neighbour: Bench) -> None:
    nodes = [node_of(each.node) for each in (worker, neighbour)]
    reach = engine("slurm").reach(nodes)
    try:
        held = reach.hold([node.name for node in nodes], time.time() + 600, ended=lambda: False)
        assert held.refused == {}
        (job,) = set(slurm.controller.run("squeue", "-h", "-n", NAME, "-o", "%i").split())
        request = Request(["sh", "-c", "hostname; cat; echo bad >&2; exit 4"], 30, bytes(range(256)) * 2000)
        answers = reach.at_once(request, nodes)
        outputs = {name: (answer.output.exit_code, answer.output.stderr) for name, answer in answers.items()}
        assert outputs == {node.name: (4, b"bad\n") for node in nodes}
        steps = slurm.controller.run("scontrol", "show", "job", job)
        assert "NumNodes=2" in steps
        for name, answer in answers.items():
            assert answer.output.stdout == name.encode() + b"\n" + bytes(range(256)) * 2000
    finally:
        assert reach.give_back() == ""
    worker.becomes("idle")


def test_the_job_ends_by_itself_when_nothing_is_heard_of_us(slurm: Cluster, worker: Bench, tmp_path: Path) -> None:
    (tmp_path / "hold.py").write_text(
        "import sys, time\n"
        "from nodegate.engines.registry import engine\n"
        "from nodegate.node import Connection, Node\n"
        f"node = Node({worker.node.name!r}, Connection(transport='slurm', lease_s=15.0))\n"
        "reach = engine('slurm').reach([node])\n"
        "print(reach.hold([node.name], time.time() + 3000, ended=lambda: False), flush=True)\n"
        "time.sleep(3000)\n"
    )
    python = "/opt/nodegate/bin/python3"
    script = worker.slurm.controller.root / "root/hold.py"
    script.write_text((tmp_path / "hold.py").read_text())
    into = ["nsenter", "-t", str(slurm.controller.first), "-m", "-u", "-i", "-n", "-p", "-T", "--"]
    with subprocess.Popen([*into, python, "/root/hold.py"], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert f"nodes=('{worker.node.name}',)" in process.stdout.readline()
        with pytest.raises(AssertionError, match="not in time"):  # longer than the lease
            wait_until(lambda: worker.state == "idle", 75)
        slurm.controller.run("pkill", "-9", "-f", "hold.py")
        process.send_signal(signal.SIGKILL)
    assert wait_until(lambda: worker.state == "idle", 120) > 20
