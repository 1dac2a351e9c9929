"""What nodegate writes decides where pods start: a real scheduler, a real kubelet, pods with GPUs."""

from __future__ import annotations

from lab.kubernetes.cluster import Cluster
from lab.kubernetes.node import IMAGE
from lab.processes import wait_until
from lab.tests.kubernetes.test_inventory import LISTED, WRITTEN, python


def job(name: str, gpus: int) -> dict[str, object]:
    asks = {"name": "job", "image": IMAGE, "imagePullPolicy": "Never",
            "resources": {"limits": {"nvidia.com/gpu": str(gpus)}}}  # fmt: skip
    spec = {"hostNetwork": True, "containers": [asks], "automountServiceAccountToken": False, "restartPolicy": "Never"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"}, "spec": spec}


def runs(kube: Cluster, name: str, limit_s: float = 60.0) -> bool:
    asks = ("get", "pod", name, "-o", "jsonpath={.status.phase}")
    return wait_until(lambda: kube.kubectl(*asks) == "Running", limit_s)


def has_jobs(kube: Cluster) -> bool:
    return "has_gpu_jobs" in python(kube, LISTED, "kubernetes:")["real-1"][0]


def test_a_pod_with_gpus_makes_a_node_busy_and_a_taint_keeps_the_next_one_away(real: Cluster) -> None:
    assert not has_jobs(real)
    real.apply(job("first", 4))
    assert runs(real, "first")
    assert has_jobs(real)
    assert python(real, WRITTEN, "5")[1] == 1
    real.apply(job("second", 4))
    assert not runs(real, "second", 10.0)
    assert "had untolerated taint" in real.kubectl("describe", "pod", "second")
    assert runs(real, "first", 1.0)  # it goes on: nothing is evicted
    real.kubectl("taint", "node", "real-1", "nodegate.io/unfit-")
    assert runs(real, "second")
    real.kubectl("delete", "pod", "first", "second", "--grace-period=1")
    assert not has_jobs(real)


def test_a_kubelet_keeps_the_condition(real: Cluster) -> None:
    """It writes its own conditions every few seconds, and leaves ours as it is."""
    python(real, WRITTEN, "5")
    real.stop("kubelet")
    real.start("kubelet")
    asks = ("get", "node", "real-1", "-o", "jsonpath={.status.conditions[?(@.type=='NodegateUnfit')].reason}")
    assert wait_until(lambda: real.has("wait", "--for=condition=Ready", "node/real-1", "--timeout=5s"))
    assert real.kubectl(*asks) == "GpuLost"
