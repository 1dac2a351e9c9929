"""`--inventory kubernetes:` on a real API server: what is in it, who is busy, and what it costs with many nodes."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from lab.kubernetes.cluster import Cluster, gpu_node

LISTED = """
import json, sys
from nodegate.inventory.inventory import read
found = read(sys.argv[1:])
print(json.dumps({node.name: [node.groups, dict(node.expected)] for node in found.nodes}))
"""
WRITTEN = """
import json, sys, time
from nodegate.engines.kubernetes import api, cluster, verdict, write
from nodegate.hook.guard import Rules
server, percent = api.connect(), float(sys.argv[1])
word = lambda node: verdict.Word(node.name, "True", "GpuLost", "unfit", time.time(), "gpu_lost")
begun = time.monotonic()
done = list(write.Writer(server, Rules(percent=percent)).write(map(word, cluster.nodes(server))))
print(json.dumps([time.monotonic() - begun, sum(each.code == write.TAINTED for each in done)]))
"""


def python(kube: Cluster, script: str, *words: str) -> Any:
    command = kube.space.in_network(sys.executable, "-c", script, *words)
    return json.loads(kube.run(command, kube.admin).stdout)


def pod(name: str, node: str, gpus: int) -> dict[str, object]:
    asks = {"name": "job", "image": "none", "resources": {"limits": {"nvidia.com/gpu": str(gpus)} if gpus else {}}}
    spec = {"nodeName": node, "containers": [asks], "automountServiceAccountToken": False}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"}, "spec": spec}


def test_labels_selection_jobs_and_a_file_beside_it(kube: Cluster, tmp_path: Path) -> None:
    plain = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "control-1"}}
    kube.apply(*[gpu_node(f"gpu{number}") for number in range(1, 4)], gpu_node("card1", "NVIDIA-L40S", 4), plain)
    kube.kubectl("label", "node", "gpu1", "topology.kubernetes.io/rack=r1", "team=a")
    kube.kubectl("wait", "--for=create", "serviceaccount/default", "--timeout=60s")
    kube.apply(pod("job", "gpu2", 8), pod("no-gpu", "gpu3", 0))
    found = python(kube, LISTED, "kubernetes:")
    assert sorted(found) == ["card1", "gpu1", "gpu2", "gpu3"]
    assert found["gpu1"][1] == {"platform": "hgx-h100-8", "rack": "r1"}
    assert {name: "has_gpu_jobs" in groups for name, (groups, _) in found.items()} == {
        **dict.fromkeys(found, False),
        "gpu2": True,
    }
    beside = tmp_path / "beside.yaml"
    beside.write_text("all: {vars: {nodegate_site: here}, hosts: {card1: {nodegate_rack: b7}}}\n")
    one = python(kube, LISTED, "kubernetes:[team=a]", str(beside))
    assert one["gpu1"][1] == {"platform": "hgx-h100-8", "rack": "r1", "site": "here"}
    assert one["card1"][1]["rack"] == "b7"
    done = kube.nodegate("test", "--inventory", "kubernetes:team in (b)", "--collect-only", "-q", user=kube.nobody)
    assert (done.returncode, "not allowed: list nodes" in done.stderr) == (4, True)


@pytest.mark.parametrize("count", [256, 1250])
def test_what_it_costs(kube: Cluster, count: int) -> None:
    kube.kubectl("delete", "--raw", "/api/v1/nodes")
    kube.apply(*[gpu_node(f"gpu{number:04}") for number in range(count)])
    begun_s = time.monotonic()
    assert len(python(kube, LISTED, "kubernetes:")) == count
    listed_s = time.monotonic() - begun_s
    took_s, tainted = python(kube, WRITTEN, "5")
    assert tainted == int(count * 0.05)
    print(f"{count} nodes: inventory {listed_s:.1f} s, {count} conditions and events, {tainted} taints: {took_s:.1f} s")  # noqa: T201
    assert listed_s < 30.0
    assert took_s < 300.0
