"""A real node under load is held, by a real scheduler against real pods; and what is left of a hold that was killed."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lab.kubernetes.cluster import ROOT, Cluster
from lab.kubernetes.node import NAME
from lab.processes import wait_until
from lab.tests.kubernetes.conftest import DEPLOY
from lab.tests.kubernetes.test_real_node import job, runs

# Holds the node for so many seconds, until its standard input ends.
HOLD = """
import json, sys, time
from nodegate.engines.kubernetes.hold import KubernetesHold
holder = KubernetesHold({"node": "real-1"})
held = holder.hold(["node"], time.time() + float(sys.argv[1]), ended=lambda: False)
print(json.dumps([held.nodes, dict(held.refused)]), flush=True)
sys.stdin.readline()
print(json.dumps([holder.lost(), holder.give_back()]), flush=True)
"""
LEFT = """
import json, time
from nodegate.engines.kubernetes.hold import KubernetesHold
print(json.dumps(KubernetesHold({}).left_behind()))
"""
Start = Callable[[float], tuple["subprocess.Popen[str]", list[object]]]


def python(kube: Cluster, user: Path, script: str, *words: str) -> list[str]:
    return kube.space.in_network("env", "-C", str(ROOT), f"KUBECONFIG={user}", sys.executable, "-c", script, *words)


@pytest.fixture
def hold(reached: Cluster, user: Path) -> Iterator[Start]:
    """Hold the node in a process of its own; says what it got."""
    begun: list[subprocess.Popen[str]] = []

    def start(seconds: float) -> tuple[subprocess.Popen[str], list[object]]:
        pipe = subprocess.PIPE
        begun.append(subprocess.Popen(python(reached, user, HOLD, str(seconds)), stdin=pipe, stdout=pipe, text=True))
        assert begun[-1].stdout is not None
        return begun[-1], json.loads(begun[-1].stdout.readline())

    yield start
    for each in begun:
        each.kill()
        each.communicate()


def of_runs(kube: Cluster) -> list[str]:
    """The values of the taint."""
    form = "-ojsonpath={.spec.taints[?(@.key=='nodegate.io/testing')].value}"
    return kube.kubectl("get", "node", NAME, form).split()


def holds(kube: Cluster) -> str:
    """The phases of the pods that hold."""
    return kube.kubectl(
        "get", "pods", "-n", "nodegate", "-l", "nodegate.io/hold", "-ojsonpath={.items[*].status.phase}"
    )


def ended(client: subprocess.Popen[str]) -> list[object]:
    found: list[object] = json.loads(client.communicate("\n", timeout=60)[0])
    return found


def test_no_pod_starts_on_a_node_that_is_held(reached: Cluster, hold: Start) -> None:
    client, (nodes, refused) = hold(600.0)
    assert (nodes, refused, holds(reached)) == (["node"], {}, "Running")
    run, _, end = of_runs(reached)[0].partition(".")
    assert (len(run), time.time() + 500 < int(end) < time.time() + 602) == (12, True)
    bold = job("bold", 1)
    bold["spec"]["tolerations"] = [{"operator": "Exists"}]  # type: ignore[index]
    reached.apply(job("waits", 1), bold)
    assert not runs(reached, "waits", 6.0)
    assert not runs(reached, "bold", 3.0)  # it tolerates our taint: the GPUs are given away
    assert ended(client) == [[], ""]
    assert (of_runs(reached), holds(reached)) == ([], "")
    assert runs(reached, "waits")
    reached.kubectl("delete", "pod", "waits", "bold", "--grace-period=1")


def test_a_node_with_a_job_is_not_held_and_the_job_goes_on(reached: Cluster, hold: Start) -> None:
    reached.apply(job("first", 3))
    assert runs(reached, "first")
    _, (nodes, refused) = hold(600.0)
    assert (nodes, refused) == ([], {"node": "pods with GPUs are on it"})
    assert (of_runs(reached), holds(reached)) == ([], "")
    assert runs(reached, "first", 1.0)
    reached.kubectl("delete", "pod", "first", "--grace-period=1")


def test_two_runs_do_not_hold_one_node(reached: Cluster, hold: Start) -> None:
    first, _ = hold(600.0)
    second, (nodes, refused) = hold(600.0)
    assert nodes == []
    assert "another run holds it: nodegate.io/testing=" in str(refused)
    assert (ended(second)[1], len(of_runs(reached)), holds(reached)) == ("", 1, "Running")
    assert ended(first) == [[], ""]
    assert (of_runs(reached), holds(reached)) == ([], "")


def test_the_next_start_ends_what_was_left_and_nothing_else(reached: Cluster, user: Path, hold: Start) -> None:
    client, _ = hold(600.0)
    theirs = f"{'a' * 12}.{int(time.time()) + 900}"
    client.kill()
    client.wait()
    assert reached.run(python(reached, user, LEFT), user).stdout == '["real-1"]\n'
    assert (of_runs(reached), holds(reached)) == ([], "")
    run = ["test", "--inventory", "kubernetes:", "--profile", "bootcheck", "-q"]
    start = reached.space.in_network("env", "-C", str(ROOT), sys.executable, "-m", "nodegate.cli", *run)
    over = f"{'b' * 12}.{int(time.time()) - 1}"
    for value, command, left in (
        (theirs, python(reached, user, LEFT), [theirs]),
        ("words", python(reached, user, LEFT), ["words"]),
        (over, start, []),
    ):
        reached.kubectl("taint", "node", NAME, f"nodegate.io/testing={value}:NoSchedule", "--overwrite")
        done = reached.run(command, user)
        assert of_runs(reached) == left, done.stdout
    reached.kubectl("taint", "node", NAME, "example.com/theirs=1:NoSchedule", "--overwrite")
    reached.run(python(reached, user, LEFT), user)
    assert "example.com/theirs" in reached.kubectl("get", "node", NAME, "-ojsonpath={.spec.taints[*].key}")
    reached.kubectl("taint", "node", NAME, "example.com/theirs-")


def test_a_hold_ends_by_itself_and_is_then_lost(reached: Cluster, hold: Start) -> None:
    client, _ = hold(8.0)
    assert wait_until(lambda: holds(reached) == "Failed", 40.0)
    assert ended(client)[0] == ["node"]
    assert (of_runs(reached), holds(reached)) == ([], "")


def test_an_api_server_that_dies_keeps_a_hold_until_the_next_start(reached: Cluster, user: Path, hold: Start) -> None:
    client, _ = hold(600.0)
    reached.stop("kube-apiserver")
    try:
        lost, trouble = ended(client)
        assert (lost, "the API server did not answer" in str(trouble)) == ([], True)
    finally:
        reached.start("kube-apiserver")
        reached.wait_ready()
    assert reached.run(python(reached, user, LEFT), user).stdout == '["real-1"]\n'
    assert (of_runs(reached), holds(reached)) == ([], "")


def test_a_run_under_load_holds_its_nodes(reached: Cluster, user: Path, hold: Start, tmp_path: Path) -> None:
    words = ["-m", "nodegate.cli", "test", "--inventory", "kubernetes:", "--profile", "delivery", "-q"]
    command = reached.space.in_network("env", "-C", str(ROOT), f"KUBECONFIG={user}", sys.executable, *words)
    seen: set[str] = set()
    with subprocess.Popen([*command, "--run-dir", str(tmp_path / "run")], stdout=subprocess.DEVNULL) as client:
        while client.poll() is None:
            seen |= {*of_runs(reached)} if holds(reached) == "Running" else set()
            time.sleep(0.2)
    assert len(seen) == 1
    assert (of_runs(reached), holds(reached)) == ([], "")
    reached.kubectl("delete", "rolebinding", "nodegate-hold", "-n", "nodegate")
    _, (nodes, refused) = hold(600.0)
    assert nodes == []
    assert "bind it to Role nodegate-hold in the namespace nodegate" in str(refused)
    assert of_runs(reached) == []
    reached.kubectl("apply", "-k", str(DEPLOY / "agent"))
