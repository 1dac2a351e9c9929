"""What a cluster says of its nodes, as variables: hopes, of which none may hide that a GPU is gone."""

from __future__ import annotations

import pytest

from nodegate.baseline.baseline import Baselines
from nodegate.engines.kubernetes import cluster, expected

H100 = "NVIDIA-H100-80GB-HBM3"


def node(name, gpus, product=H100, **labels):
    own = {cluster.PRODUCT: product, cluster.COUNT: str(gpus)}
    return {"metadata": {"name": name, "labels": own | {key.replace("__", "/"): each for key, each in labels.items()}}}


L40S = "NVIDIA-L40S"
ONE_LOST = [node("a", 7), node("b", 8), node("c", 8)]
MACHINE = "node.kubernetes.io__instance-type"
CASES = {
    "one lost a GPU": (ONE_LOST, {"nodegate_platform": "hgx-h100-8"}),
    "alone: nothing says that this is all": ([node("a", 4)], {}),
    "a kind without a platform": ([node(name, count, L40S) for name, count in (("a", 3), ("b", 4), ("c", 4))],
                                  {"nodegate_gpus": 4}),
    "parts are not GPUs": ([node("a", 14, f"{H100}-MIG-1g.10gb"), node("b", 14, f"{H100}-MIG-1g.10gb")], {}),
    "shares are not GPUs": ([node("a", 32, f"{H100}-SHARED"), node("b", 32, f"{H100}-SHARED")], {}),
    "a cloud's machine": ([node("a", 8, **{MACHINE: "p5.48xlarge"})], {"nodegate_platform": "aws-p5"}),
    "a cloud's machine that is not known": ([node("a", 8, **{MACHINE: "x"}), node("b", 8, **{MACHINE: "x"})],
                                            {"nodegate_gpus": 8}),
    "k3s writes its own name": ([node("a", 8, **{MACHINE: "k3s"}), node("b", 8)], {"nodegate_platform": "hgx-h100-8"}),
    "a rack": ([node("a", 1, "", **{"topology.kubernetes.io__rack": "r1"})], {"nodegate_rack": "r1"}),
    "the site's own words win": ([node("a", 8, nodegate__x="", **{"nodegate.io__rack": "r9", "nodegate.io__gpus": "2",
                                  "topology.kubernetes.io__rack": "r1"})], {"nodegate_rack": "r9", "nodegate_gpus": 2}),
    "no numbers": ([node("a", "many", **{"nodegate.io__gpus": "-1"}), node("b", "9" * 40), node("c", "9" * 40)], {}),
    "not its form": ([{"metadata": {"name": "a", "labels": [1]}, "spec": [], "status": {"addresses": "x"}}], {}),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_what_is_expected_of_the_first_node(case):
    raw, wanted = CASES[case]
    assert expected.variables(map(cluster.node_of, raw))["a"] == wanted


def test_every_platform_that_labels_name_has_a_baseline():
    named = {*expected._INSTANCES.values(), *expected._PRODUCTS.values()}
    assert named <= set(Baselines.read().platforms)
