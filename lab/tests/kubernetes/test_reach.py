"""A real node reached through its agent pod: what a run says of it, and what is left where something ends."""

from __future__ import annotations

import gzip
import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lab.kubernetes.cluster import ROOT, Cluster
from lab.kubernetes.node import NAME
from lab.processes import wait_until
from lab.tests.kubernetes.conftest import DEPLOY, agent

# Runs `sleep MARK` on the node and says how that ended.
CALL = """
import sys
from nodegate.errors import CannotMeasure
from nodegate.inventory import inventory
from nodegate.transport import Options, connect
(node,) = inventory.read(sys.argv[2:]).nodes
try:
    session = connect(node, Options())
    session.hold_lock(node.connection.lock)
    print("begun", flush=True)
    print(session.run(["sleep", sys.argv[1]], timeout_s=600).exit_code, flush=True)
except CannotMeasure as said:
    print(said.kind, said.reason, flush=True)
"""
MANY = """
import json, sys, time
from concurrent.futures import ThreadPoolExecutor
from nodegate.engines.kubernetes.reach import KubernetesReach
from nodegate.node import Connection, Node
names = [f"n{number}" for number in range(int(sys.argv[1]))]
reach = KubernetesReach(dict.fromkeys(names, "real-1"))
def one(name):
    session = reach.connect(Node(name, Connection("kubernetes", lease_s=60)))
    return session.run(["sleep", sys.argv[2]], timeout_s=200).exit_code
begun = time.monotonic()
with ThreadPoolExecutor(len(names)) as pool:
    codes = list(pool.map(one, names))
print(json.dumps([time.monotonic() - begun, codes.count(0)]))
"""
LOCK = "/run/nodegate.lock"
ASIDE = f"all: {{vars: {{nodegate_lease: 15, nodegate_lock: {LOCK}}}}}\n"


@pytest.fixture
def call(reached: Cluster, user: Path, tmp_path: Path) -> Iterator[Callable[[str], subprocess.Popen[str]]]:
    """Start `sleep MARK` on the node; returns once it runs."""
    begun: list[subprocess.Popen[str]] = []
    (tmp_path / "aside.yaml").write_text(ASIDE)

    def start(mark: str) -> subprocess.Popen[str]:
        script = [sys.executable, "-c", CALL, mark, "kubernetes:", str(tmp_path / "aside.yaml")]
        command = ["env", "-C", str(ROOT), f"KUBECONFIG={user}", *script]
        begun.append(subprocess.Popen(reached.space.in_network(*command), stdout=subprocess.PIPE, text=True))
        assert wait_until(lambda: on_node(reached, mark), 30.0)
        return begun[-1]

    yield start
    for each in begun:
        each.kill()
        each.communicate()


def on_node(kube: Cluster, mark: str) -> list[str]:
    found = subprocess.run(
        kube.space.entered("pgrep", "-f", f"^sleep {mark}"), capture_output=True, text=True, check=False
    )
    return found.stdout.split()


def is_free(kube: Cluster) -> bool:
    """Whether nobody has the lock of the node."""
    asks = kube.space.entered("flock", "-n", LOCK, "true")
    return subprocess.run(asks, check=False).returncode == 0


def verdicts(folder: Path) -> dict[tuple[str, ...], list[str]]:
    """By check the verdict and what was found."""
    with gzip.open(folder / "results.jsonl.gz", "rt") as lines:
        rows = [json.loads(line) for line in lines]
    return {(row["check"], row["verdict"], row["why"]): [each["code"] for each in row["findings"]] for row in rows}


def test_verdicts_are_those_of_a_run_on_the_node_itself(reached: Cluster, user: Path, tmp_path: Path) -> None:
    (tmp_path / "local.ini").write_text(f"{NAME} ansible_connection=local\n")
    words = ["-m", "nodegate.cli", "test", "--profile", "bootcheck", "-q", "--inventory"]
    for name, space, inventory in (
        ("pod", reached.space.in_network, "kubernetes:"),
        ("local", reached.space.entered, str(tmp_path / "local.ini")),
    ):
        command = space("env", "-C", str(ROOT), sys.executable, *words, inventory, "--run-dir", str(tmp_path / name))
        done = reached.run(command, user)
        assert done.returncode == 1, done.stdout + done.stderr
    assert verdicts(tmp_path / "pod") == verdicts(tmp_path / "local")
    assert len(verdicts(tmp_path / "pod")) > 100


@pytest.mark.parametrize(("how", "within_s"), [(signal.SIGKILL, 10.0), (signal.SIGSTOP, 40.0)])
def test_a_client_that_is_killed_or_stopped_leaves_nothing(
    reached: Cluster, call: Callable[[str], subprocess.Popen[str]], how: signal.Signals, within_s: float
) -> None:
    client = call("4321")
    assert not is_free(reached)
    client.send_signal(how)
    assert wait_until(lambda: not on_node(reached, "4321") and is_free(reached), within_s)


def test_a_pod_that_is_deleted_ends_what_runs_in_it_and_the_next_one_is_found(
    reached: Cluster, call: Callable[[str], subprocess.Popen[str]]
) -> None:
    client, old = call("4322"), agent(reached)
    reached.kubectl("delete", "pod", "-n", "nodegate", old, "--wait=false")
    assert wait_until(lambda: not on_node(reached, "4322") and is_free(reached), 30.0)
    assert "dropped" in client.communicate(timeout=60)[0]
    assert wait_until(lambda: agent(reached) not in ("", old), 60.0)
    call("4323")


def test_an_api_server_that_dies_ends_it_and_serves_again(
    reached: Cluster, call: Callable[[str], subprocess.Popen[str]]
) -> None:
    client = call("4324")
    reached.stop("kube-apiserver")
    try:
        assert wait_until(lambda: not on_node(reached, "4324") and is_free(reached), 40.0)
        assert "dropped" in client.communicate(timeout=60)[0]
    finally:
        reached.start("kube-apiserver")
        reached.wait_ready()
    call("4325")


def test_what_is_missing_is_one_message(reached: Cluster, user: Path) -> None:
    script = reached.space.in_network("env", "-C", str(ROOT), sys.executable, "-c", CALL, "0", "kubernetes:")
    reached.kubectl("delete", "rolebinding", "nodegate-exec", "-n", "nodegate")
    said = reached.run(script, user).stdout
    assert said.startswith("authentication real-1: https://10.0.0.1: not allowed: get pods/exec: "), said
    assert said.endswith(" - bind it to Role nodegate-exec in the namespace nodegate (deploy/kubernetes)\n")
    reached.kubectl("apply", "-k", str(DEPLOY / "agent"))
    reached.kubectl("label", "node", NAME, "nodegate.io/agent-")
    assert wait_until(lambda: agent(reached) == "", 60.0)
    said = reached.run(script, user).stdout
    reached.kubectl("label", "node", NAME, "nodegate.io/agent=true")
    assert said == "refused real-1: the cluster has no agent pod that runs on it\n"
    assert wait_until(lambda: agent(reached) != "", 60.0)


def test_programs_at_once_and_what_they_cost(reached: Cluster, user: Path) -> None:
    command = reached.space.in_network("env", "-C", str(ROOT), f"KUBECONFIG={user}", sys.executable, "-c", MANY)
    with subprocess.Popen([*command, "80", "14"], stdout=subprocess.PIPE, text=True) as client:
        most = 0
        while client.poll() is None:
            most = max(most, len(on_node(reached, "14")))
            time.sleep(0.3)
        assert client.stdout is not None
        took_s, good = json.loads(client.stdout.read())
    assert (good, most <= 64) == (80, True)
    done = reached.run([*command, "32", "0"], user)
    took_s, good = json.loads(done.stdout)
    assert good == 32
    print(f"32 programs at once in a pod: {took_s:.1f} s; of 80 at most {most} at once")  # noqa: T201
