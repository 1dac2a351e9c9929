"""What labels say that a node should have: a wish, that a run measures against; never a measurement.

GPU feature discovery counts the GPUs that answer. A node that has lost one says 7, and must be asked for 8: so a count
holds where two nodes of the same kind show it, and the largest one wins.
"""

from collections import Counter
from collections.abc import Iterable, Mapping

from nodegate.engines.kubernetes.cluster import COUNT, KubeNode

OWN = "nodegate.io/"  # a site's own labels win: nodegate.io/platform, nodegate.io/rack, nodegate.io/gpus
_OWN_NAMES = ("platform", "rack", "gpus")
# The first label that a node has. The last two: Topograph's and GPU feature discovery's NVLink domain.
_RACKS = ("topology.kubernetes.io/rack", "network.topology.nvidia.com/accelerator", "nvidia.com/gpu.clique")
_LEAVES = ("network.topology.nvidia.com/leaf",)
_INSTANCES = {
    "p5.48xlarge": "aws-p5",
    "Standard_ND96isr_H100_v5": "azure-nd-h100-v5",
    "a3-highgpu-8g": "gcp-a3",
    "a3-megagpu-8g": "gcp-a3",
    "BM.GPU.H100.8": "oci-bm-gpu-h100-8",
}
# By NVML's name of the board as the label writes it, and the number of GPUs. Boards whose servers differ have none.
_PRODUCTS = {
    ("NVIDIA-A100-SXM4-40GB", 8): "hgx-a100-40gb-8",
    ("NVIDIA-A100-SXM4-40GB", 4): "hgx-a100-40gb-4",
    ("NVIDIA-A100-SXM4-80GB", 8): "hgx-a100-80gb-8",
    ("NVIDIA-A100-SXM4-80GB", 4): "hgx-a100-80gb-4",
    ("NVIDIA-A800-SXM4-80GB", 8): "hgx-a800-8",
    ("NVIDIA-H100-80GB-HBM3", 8): "hgx-h100-8",
    ("NVIDIA-H100-80GB-HBM3", 4): "hgx-h100-4",
    ("NVIDIA-H200", 8): "hgx-h200-8",
    ("NVIDIA-H200", 4): "hgx-h200-4",
    ("NVIDIA-H20", 8): "hgx-h20-8",
    ("NVIDIA-H800", 8): "hgx-h800-8",
    ("NVIDIA-B200", 8): "hgx-b200-8",
    ("NVIDIA-GB200", 4): "gb200-tray",
    ("NVIDIA-GB300", 4): "gb300-tray",
}


def variables(nodes: Iterable[KubeNode]) -> dict[str, dict[str, object]]:
    """The `nodegate_*` variables of each node, and the address that it has in the cluster."""
    nodes = list(nodes)
    counts = _counts(nodes)
    return {node.name: _of(node, counts.get(node.pool, 0)) for node in nodes}


def _of(node: KubeNode, gpus: int) -> dict[str, object]:
    found: dict[str, object] = {"ansible_host": node.address} if node.address else {}
    platform = _INSTANCES.get(node.pool[0], "")
    if not platform and not node.pool[0]:  # a cloud's machine of another kind is left to its hardware
        platform = _PRODUCTS.get((node.product, gpus), "")
    rack, leaf = (next((node.labels[key] for key in keys if node.labels.get(key)), "") for keys in (_RACKS, _LEAVES))
    wishes: dict[str, str | int] = {"platform": platform, "rack": rack, "leaf": leaf, "gpus": 0 if platform else gpus}
    for name in _OWN_NAMES:
        if (value := node.labels.get(OWN + name, "")) and (name != "gpus" or value.isdecimal()):
            wishes[name] = int(value) if name == "gpus" else value
    return found | {f"nodegate_{name}": value for name, value in wishes.items() if value}


def _counts(nodes: Iterable[KubeNode]) -> Mapping[tuple[str, str], int]:
    """By kind of node the largest number of GPUs that two of them show."""
    seen = Counter((node.pool, int(count)) for node in nodes if (count := _count(node)))
    found: dict[tuple[str, str], int] = {}
    for (pool, gpus), times in seen.items():
        if times > 1:
            found[pool] = max(gpus, found.get(pool, 0))
    return found


def _count(node: KubeNode) -> str:
    """Its number of GPUs; empty where it is one of shares or of parts of GPUs."""
    count = node.labels.get(COUNT, "")
    is_whole = node.product and not any(mark in node.product for mark in ("-MIG-", "-SHARED"))
    return count if is_whole and count.isdecimal() and len(count) < 4 else ""
