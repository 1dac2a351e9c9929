"""`--inventory kubernetes:` on a real API server: what is in it, who is busy, and what it costs with many nodes."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from lab.kubernetes.cluster import Cluster, gpu_node, next_second

LISTED = """
import json, sys
from nodegate.inventory.inventory import read
found = read(sys.argv[1:])
print(json.dumps({node.name: [node.groups, dict(node.expected)] for node in found.nodes}))
"""
RANKS = """
import json, sys
from nodegate.engines.registry import pods_of
told = {job: pods_of(f"kubernetes:job:{job}") for job in sys.argv[1:]}
print(json.dumps({job: [[pod.pod, pod.node, pod.rank] for pod in pods] for job, pods in told.items()}))
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


# How a job's pods are labelled -> the ranks of its pods a, b, c, d, and which of them ask for no GPUs.
K, V, B = "training.kubeflow.org/", "volcano.sh/", "batch.kubernetes.io/"
J, L = "jobset.sigs.k8s.io/", "leaderworkerset.sigs.k8s.io/"
LABELS: dict[str, tuple[list[dict[str, str]], list[int | None], str]] = {
    "indexed": ([{f"{B}job-name": "x", f"{B}job-completion-index": str(index)} for index in (2, 3, 0, 1)],
                [2, 3, 0, 1], ""),
    "no-index": ([{f"{B}job-name": "x"}, {f"{B}job-name": "x"}], [None, None], ""),
    "one-gone": ([{f"{B}job-name": "x", f"{B}job-completion-index": index} for index in "02"], [None, None], ""),
    "one-twice": ([{f"{B}job-name": "x", f"{B}job-completion-index": index} for index in "100"], [1, 0], ""),
    "jobset": ([{f"{J}jobset-name": "x", f"{B}job-name": "x-a", f"{J}job-global-index": job,
                 f"{B}job-completion-index": index} for job, index in ("11", "00", "10", "01")], [3, 0, 2, 1], ""),
    "jobset-old": ([{f"{J}jobset-name": "x", f"{B}job-completion-index": "0"} for _ in "ab"], [None, None], ""),
    "pytorch": ([{f"{K}job-name": "x", f"{K}replica-type": role, f"{K}replica-index": index} for role, index in
                 (("worker", "1"), ("worker", "0"), ("master", "0"))], [2, 1, 0], ""),
    "mpi": ([{f"{K}job-name": "x", f"{K}job-role": "launcher"}, *({f"{K}job-name": "x", f"{K}job-role": "worker",
             f"{K}replica-index": index} for index in "10")], [None, 1, 0], "a"),
    "volcano": ([{f"{V}job-name": "x", f"{V}task-spec": role, f"{V}task-index": index} for role, index in
                 (("worker", "0"), ("master", "0"), ("worker", "1"))], [1, 0, 2], ""),
    "leaders": ([{f"{L}name": "x", f"{L}group-index": group, f"{L}worker-index": index} for group, index in
                 ("10", "01", "00")], [2, 1, 0], ""),
}  # fmt: skip


def test_pods_of_a_job_their_nodes_and_ranks(kube: Cluster, tmp_path: Path) -> None:
    kube.kubectl("wait", "--for=create", "serviceaccount/default", "--timeout=60s")
    kube.apply(*[gpu_node(f"node-{letter}") for letter in "abcd"])
    kube.apply(*[{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": space}} for space in LABELS])
    made: list[list[dict[str, object]]] = [[], []]
    for space, (labels, _, without) in LABELS.items():
        kube.kubectl("wait", "--for=create", "serviceaccount/default", "-n", space, "--timeout=60s")
        for letter, own in zip("abcd", labels, strict=False):
            meta = {"name": f"{space}-{letter}", "namespace": space, "labels": own}
            one = pod("", f"node-{letter}", 0 if letter in without else 8)
            made[meta["name"] == "one-twice-c"].append({**one, "metadata": meta})
    for some in made:
        kube.apply(*some)
        next_second()
    told = python(kube, RANKS, *[f"{space}/x" for space in LABELS])
    for space, (_, ranks, _) in LABELS.items():
        named = "ac" if space == "one-twice" else "abcd"
        wanted = [[f"{space}-{letter}", f"node-{letter}", rank]
                  for letter, rank in zip(named, ranks, strict=False)]  # fmt: skip
        assert sorted(told[f"{space}/x"]) == wanted
    assert "10 jobs are named x: Job indexed/x, " in kube.nodegate("kubernetes", "job", "x").stderr
    assert sorted(python(kube, LISTED, "kubernetes:job:pytorch/x")) == ["node-a", "node-b", "node-c"]
    printed = kube.nodegate("kubernetes", "job", "mpi/x").stdout
    assert printed == "mpi-c,node-c,0\nmpi-b,node-b,1\nmpi-a,node-a,\n"
    queries = ("--prometheus", "http://127.0.0.1:1", "--print-queries")
    assert "mpi-c|mpi-b|mpi-a" in kube.nodegate("job", "--pods", "kubernetes:job:mpi/x", *queries).stdout.replace(
        "\\", ""
    )
    line = "RuntimeError: CUDA error: uncorrectable ECC error encountered\n"
    (tmp_path / "job.log").write_text(f"[pod/mpi-b/job] {line}")
    triaged = kube.nodegate("triage", tmp_path / "job.log", "--map", "kubernetes:job:mpi/x").stdout
    assert "node-b" in triaged, triaged
    for bad, said_of_it in (("a/b/c", "not the name of a job"), ("none/x", "no pod has the label of a job none/x")):
        done = kube.nodegate("kubernetes", "job", bad)
        assert (done.returncode, said_of_it in done.stderr) == (2, True), done.stderr


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
