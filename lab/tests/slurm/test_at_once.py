"""Forty hooks that decide at the same moment, by a wrong limit: what stays drained, in real Slurm.

Each hook measures its node; then it waits at its first call of scontrol until the others are there too.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from typing_extensions import Self

from lab import needs
from lab.nodes.node import LabNode
from lab.nodes.nodes import why_not
from lab.slurm.cluster import Cluster, cluster
from lab.slurm.config import RELEASES

COUNT, MOST = 40, 2  # of 40 nodes 5 % are 2
OVER_LIMIT_S = 5.0
MEET_LIMIT_S = 500.0
CONF = f"PrologEpilogTimeout={MEET_LIMIT_S:.0f}\nHealthCheckInterval=0\nTreeWidth=64\n"
# 10 degrees less than the memory of a healthy GPU of the lab has: wrong, and nothing in the machine says so.
WRONG = "  gpu.memory_temperature_max_c: {value: 35, unit: °C, source: a typo}\n"
_SCONTROL = """#!/bin/sh
if [ -p /etc/meet ]; then read -r _ </etc/meet; fi
exec /usr/bin/scontrol "$@"
"""
OTHER_BOARD = "--platform hgx-a100-80gb-8"
OPS = "maintenance by ops"


def wrong_limit(node: LabNode) -> None:
    site = node.root / "etc/nodegate/site.yaml"
    site.write_text(site.read_text() + WRONG)
    waits = node.root / "usr/local/sbin/scontrol"
    waits.write_text(_SCONTROL)
    waits.chmod(0o755)


@pytest.fixture(scope="module")
def forty(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    needs.require(why_not())
    folder, suite = tmp_path_factory.mktemp("forty"), RELEASES[request.param]
    with cluster(
        COUNT, folder, prepare_more=wrong_limit, conf=CONF, answer_limit_s=MEET_LIMIT_S, suite=suite
    ) as running:
        yield running


class Watch:
    """How many nodes nodegate had drained, over time."""

    def __init__(self, slurm: Cluster) -> None:
        self._slurm = slurm
        self._ended = threading.Event()
        self.seen: list[tuple[float, int]] = []

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._look)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._ended.is_set():
            self.seen.append((time.monotonic(), len(ours(self._slurm))))
            self._ended.wait(0.1)

    def over_s(self) -> float:
        """For how long it was more than the limit, at the longest."""
        longest, since = 0.0, None
        for at, count in self.seen:
            since = (at if since is None else since) if count > MOST else None
            longest = max(longest, at - since if since is not None else 0.0)
        return longest


def ours(slurm: Cluster) -> list[str]:
    found = slurm.controller.run("sinfo", "-h", "-N", "-o", "%N|%T|%E").splitlines()
    rows = [line.split("|", 2) for line in found]
    return [name for name, state, reason in rows if state.startswith("drain") and reason.startswith("nodegate:")]


def meet(slurm: Cluster) -> None:
    """Wait until the hook of each node is at its first call of scontrol, then let all go on."""
    held, end = list[int](), time.monotonic() + MEET_LIMIT_S
    for node in slurm.workers:
        while True:
            try:
                held.append(os.open(node.root / "etc/meet", os.O_WRONLY | os.O_NONBLOCK))
                break
            except OSError:  # nobody reads there yet
                assert time.monotonic() < end, node.name
                time.sleep(0.1)
    for node in slurm.workers:
        (node.root / "etc/meet").unlink()
    for each in held:
        os.close(each)


def begin(slurm: Cluster) -> None:
    for node in slurm.workers:
        node.run("rm", "-f", "/run/nodegate/verdict.json", "/var/lib/nodegate/spool.jsonl")
        slurm.hook(node, limit_s=f"{MEET_LIMIT_S:.0f}")
        if slurm.state(node) != "idle":
            slurm.resume(node)
        os.mkfifo(node.root / "etc/meet")
    slurm.drain(slurm.workers[7], OPS)


def the_limit_holds(slurm: Cluster, watch: Watch) -> None:
    drained = ours(slurm)
    said = {node.name: node.run("cat", "/var/lib/nodegate/spool.jsonl") for node in slurm.workers}
    assert len(drained) == MOST, said
    assert max(count for _, count in watch.seen) > MOST, "they did not meet"
    assert watch.over_s() <= OVER_LIMIT_S
    assert [name for name, text in said.items() if '"done": "drained"' in text] == drained
    assert all('"answer": "unfit"' in text for text in said.values())


@pytest.mark.parametrize("forty", RELEASES, indirect=True, scope="module")
def test_by_the_health_check(forty: Cluster) -> None:
    begin(forty)
    command = ["env", "-i"]
    check = "/opt/nodegate/deploy/slurm-healthcheck.sh"
    with ThreadPoolExecutor(COUNT) as pool, Watch(forty) as watch:
        running = [
            pool.submit(node.run, *command, f"SLURMD_NODENAME={node.name}", check, limit_s=MEET_LIMIT_S)
            for node in forty.workers
        ]
        meet(forty)
        for each in running:
            each.result()
        time.sleep(1)
    the_limit_holds(forty, watch)
    assert forty.reason(forty.workers[7]) == OPS


@pytest.mark.parametrize("forty", ["22.05"], indirect=True, scope="module")
def test_by_the_prolog_and_the_job_starts(forty: Cluster) -> None:
    begin(forty)
    forty.resume(forty.workers[7])  # a job needs all of them
    for node in forty.workers:
        node.run("ln", "-sfn", "/opt/nodegate/deploy/slurm-prolog.sh", "/etc/slurm/prolog")
    with Watch(forty) as watch:
        jobs = [forty.submit("true", "-w", node.name, "--exclusive") for node in forty.workers]
        meet(forty)
        forty.wait_for(lambda: str(sum(forty.job(job) == "COMPLETED" for job in jobs)), str(COUNT - MOST), 300)
    the_limit_holds(forty, watch)


@pytest.mark.parametrize("forty", ["22.05"], indirect=True, scope="module")
def test_the_limits_of_another_board_drain_none(forty: Cluster) -> None:
    for node in forty.workers:
        site = node.root / "etc/nodegate/site.yaml"
        site.write_text(site.read_text().replace(WRONG, ""))
        node.run("rm", "-f", "/run/nodegate/verdict.json", "/var/lib/nodegate/spool.jsonl")
        forty.hook(node, limit_s=f"{MEET_LIMIT_S:.0f}", options=OTHER_BOARD)
        if forty.state(node) != "idle":
            forty.resume(node)
    check = "/opt/nodegate/deploy/slurm-healthcheck.sh"
    words = ["env", "-i", "sh", "-c", f"SLURMD_NODENAME=$(hostname) exec {check}"]
    with ThreadPoolExecutor(COUNT) as pool:
        list(pool.map(lambda node: node.run(*words, limit_s=MEET_LIMIT_S), forty.workers))
    assert {name: forty.controller.run("scontrol", "show", "node", name) for name in ours(forty)} == {}
    said = [node.run("cat", "/var/lib/nodegate/spool.jsonl") for node in forty.workers]
    assert all('"answer": "unknown"' in each and "your settings contradict the machine" in each for each in said), said
