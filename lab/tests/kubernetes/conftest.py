"""One API server for the tests of a file, with forty GPU nodes and a run over sixteen of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from lab import needs
from lab.kubernetes.cluster import ROOT, Cluster, gpu_node, next_second
from lab.kubernetes.node import NAME, node
from lab.kubernetes.parts import why_not
from lab.processes import wait_until

DEPLOY = ROOT / "deploy/kubernetes"
HGX = tuple(f"hgx{number:02}" for number in range(1, 35))  # the first ten are those of the demo
ROCE = tuple(f"roce{number:02}" for number in range(1, 7))
THEIRS = {"key": "example.com/theirs", "value": "x", "effect": "NoSchedule"}
NOT_PASSED = {"key": "nodegate.io/not-passed", "value": "true", "effect": "NoSchedule"}


@pytest.fixture(scope="module")
def kube(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """An API server with nodegate's objects, as an operator makes them."""
    needs.require(why_not())
    with Cluster(tmp_path_factory.mktemp("kube")) as running:
        running.kubectl("apply", "-k", str(DEPLOY))
        yield running


@pytest.fixture(scope="session")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster with one real node."""
    needs.require(why_not())
    with Cluster(tmp_path_factory.mktemp("real")) as running, node(running):
        running.kubectl("wait", "--for=create", "serviceaccount/default", "--timeout=60s")
        yield running


@pytest.fixture(scope="session")
def reached(real: Cluster) -> Cluster:
    """A cluster whose real node has an agent pod."""
    for folder in (DEPLOY, DEPLOY / "agent"):
        real.kubectl("apply", "-k", str(folder))
    real.kubectl("apply", "-f", str(DEPLOY / "taint.yaml"))
    real.kubectl("label", "node", NAME, "nodegate.io/agent=true")
    assert wait_until(lambda: agent(real) != "", 60.0)
    return real


@pytest.fixture
def user(reached: Cluster) -> Path:
    """With the rights that deploy/kubernetes gives."""
    return reached.service_account("nodegate")


@pytest.fixture(scope="module")
def run(kube: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run over the nodes of the demo, with its faults: two accepted, two not all proven, twelve rejected."""
    kube.apply(*[gpu_node(name, _product(name)) for name in HGX + ROCE])
    next_second()
    folder = tmp_path_factory.mktemp("demo") / "run"
    kube.nodegate("test", "--inventory", "inventory/demo.yaml", "--run-dir", folder, "-q", limit_s=600.0)
    return folder


@pytest.fixture
def fleet(kube: Cluster, run: Path) -> Cluster:  # noqa: ARG001 - the nodes are there when it is
    """Forty nodes of which nothing is said yet."""
    kube.kubectl("delete", "--raw", "/api/v1/namespaces/default/events")
    own = {"hgx01": [NOT_PASSED, THEIRS], "hgx02": [NOT_PASSED, THEIRS]}
    spec = {name: {"taints": own.get(name, []), "unschedulable": name == "hgx02"} for name in HGX[:10] + ROCE}
    kube.apply(*[gpu_node(name, _product(name), **each) for name, each in spec.items()])
    nothing = {"type": "NodegateUnfit", "status": "False", "reason": "Reset", "message": "-"}
    kube.apply(*[{**gpu_node(name, _product(name)), "status": {"conditions": [nothing]}} for name in spec], status=True)
    return kube


def _product(node: str) -> str:
    return "NVIDIA-L40S" if node in ROCE else "NVIDIA-H100-80GB-HBM3"


def agent(kube: Cluster) -> str:
    """The pod that runs, by its name."""
    asks = ("get", "pods", "-n", "nodegate", "-l", "app.kubernetes.io/name=nodegate-agent")
    form = '-ojsonpath={range .items[?(@.status.phase=="Running")]}{.metadata.name}{.metadata.deletionTimestamp} {end}'
    return kube.kubectl(*asks, form).strip()
