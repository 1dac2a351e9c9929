"""Nodes and pods of a cluster, from what the API server says of them; whatever is not of its form is not there.

What asks the server raises `Refused` where that does not say.
"""

import datetime as dt
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from nodegate.engines.kubernetes.api import Api
from nodegate.text import visible

GPU = "nvidia.com/gpu"
NAMESPACE = "nodegate"  # of what deploy/kubernetes makes
AGENT = "app.kubernetes.io/name=nodegate-agent"
NO_AGENT = "the cluster has no agent pod that runs on it"
HOLD = "nodegate.io/hold"  # the label of pods that have GPUs for a run of ours
PRODUCT, COUNT = "nvidia.com/gpu.product", "nvidia.com/gpu.count"  # of GPU feature discovery
_OF_MIG = "nvidia.com/mig-"
GPUS = (GPU, _OF_MIG)
# How node feature discovery and GPU feature discovery say that there is an NVIDIA GPU, also where no driver runs.
_SIGNS = ("nvidia.com/gpu.present", "feature.node.kubernetes.io/pci-10de.present")
_NOT_OVER = "status.phase!=Succeeded,status.phase!=Failed"
_NO_MACHINES = ("k3s", "rke2")  # distributions that write their own name there


@dataclass(frozen=True)
class Taint:
    """A taint of a node as the API server has it."""

    key: str
    value: str
    raw: Mapping[str, Any]


@dataclass(frozen=True)
class KubeNode:
    """A node as the cluster knows it: its resources, of them those for pods (`free`), `conditions` by their types."""

    name: str
    uid: str
    version: str
    labels: Mapping[str, str]
    capacity: Mapping[str, str]
    taints: tuple[Taint, ...]
    conditions: Mapping[str, Mapping[str, str]]
    address: str = ""
    joined_epoch_s: float = 0.0
    free: Mapping[str, str] = field(default_factory=dict)

    @property
    def has_gpus(self) -> bool:
        """Whether anything says that it has GPUs; a node whose device plug-in is dead has a capacity of 0."""
        named = any(key == GPU or key.startswith(_OF_MIG) for key in self.capacity)
        return named or any(self.labels.get(sign) == "true" for sign in _SIGNS) or bool(self.product)

    @property
    def product(self) -> str:
        """What GPU feature discovery calls its GPUs."""
        return self.labels.get(PRODUCT, "")

    @property
    def pool(self) -> tuple[str, str]:
        """What it is alike with: the kind of machine and of GPU."""
        machine = self.labels.get("node.kubernetes.io/instance-type", "")
        return "" if machine in _NO_MACHINES else machine, self.product

    def taint(self, key: str) -> Taint | None:
        """Its taint of this key."""
        return next((each for each in self.taints if each.key == key), None)


@dataclass(frozen=True)
class Pod:
    """A pod as the cluster knows it. `why`: why it does not run, where scheduler or kubelet say so."""

    name: str
    namespace: str
    node: str
    made: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    has_gpus: bool
    runs: bool
    is_over: bool
    why: str
    container: Mapping[str, Any]


def nodes(api: Api, selector: str = "", *, name: str = "") -> list[KubeNode]:
    """The nodes with these labels, or the one of this name, or all, by name."""
    query = {"labelSelector": selector} if selector else {"fieldSelector": f"metadata.name={name}"} if name else {}
    found = (node_of(each) for each in api.listed("/api/v1/nodes", **query))
    return sorted((each for each in found if each.name), key=lambda node: node.name)


def pods(api: Api, selector: str, namespace: str = NAMESPACE, *, fields: str = "") -> list[Pod]:
    """The pods of a namespace (empty: of all) with these labels."""
    path = f"/api/v1/namespaces/{namespace}/pods" if namespace else "/api/v1/pods"
    query = {"labelSelector": selector, **({"fieldSelector": fields} if fields else {})}
    return [pod_of(each) for each in api.listed(path, **query)]


def busy(api: Api) -> set[str]:
    """The nodes with pods that asked for GPUs and are not over, of all namespaces; without the holds of runs."""
    return {pod.node for pod in pods(api, f"!{HOLD}", "", fields=_NOT_OVER) if pod.has_gpus} - {""}


def agents(api: Api, node: str = "") -> dict[str, Pod]:
    """By node the agent pod that runs on it, of all nodes or one."""
    found = pods(api, AGENT, fields=f"spec.nodeName={node}" if node else "")
    return {pod.node: pod for pod in found if pod.runs}


def pod_of(raw: Mapping[str, Any]) -> Pod:
    """A pod from its object."""
    meta, spec, status = (_mapping(raw.get(key)) for key in ("metadata", "spec", "status"))
    phase, containers = _text(status.get("phase")), [*_objects(status.get("containerStatuses"))]
    is_up = any(_mapping(each.get("state")).get("running") is not None for each in containers)
    unplaced = [each for each in _objects(status.get("conditions"))
                if (each.get("type"), each.get("status")) == ("PodScheduled", "False")]  # fmt: skip
    said = [_text(each.get("message")) or "no reason" for each in unplaced or [status] * (phase == "Failed")]
    # GPUs, shares or parts of them are asked for as a limit (which is the request too) or by a claim.
    all_kinds = [each for kind in ("containers", "initContainers") for each in _objects(spec.get(kind))]
    limits = [_texts(_mapping(each.get("resources")).get("limits")) for each in all_kinds]
    asked = {key for each in limits for key, value in each.items() if value != "0"}
    return Pod(
        name=_text(meta.get("name")),
        namespace=_text(meta.get("namespace")),
        node=_text(spec.get("nodeName")),
        made=_text(meta.get("creationTimestamp")),
        labels=_texts(meta.get("labels")),
        annotations=_texts(meta.get("annotations")),
        has_gpus=bool(spec.get("resourceClaims")) or any(key.startswith(GPUS) for key in asked),
        runs=is_up and not meta.get("deletionTimestamp"),
        is_over=phase in ("Succeeded", "Failed"),
        why=visible(said[0], most=200) if said else "",
        container=next(iter(_objects(spec.get("containers"))), {}),
    )


def node_of(raw: Mapping[str, Any]) -> KubeNode:
    """A node from its object."""
    meta, spec, status = (_mapping(raw.get(key)) for key in ("metadata", "spec", "status"))
    addresses = {_text(each.get("type")): _text(each.get("address")) for each in _objects(status.get("addresses"))}
    return KubeNode(
        name=_text(meta.get("name")),
        uid=_text(meta.get("uid")),
        version=_text(meta.get("resourceVersion")),
        labels=_texts(meta.get("labels")),
        capacity=_texts(status.get("capacity")),
        taints=tuple(
            Taint(_text(each.get("key")), _text(each.get("value")), each) for each in _objects(spec.get("taints"))
        ),
        conditions={_text(each.get("type")): _texts(each) for each in _objects(status.get("conditions"))},
        address=addresses.get("InternalIP", ""),
        joined_epoch_s=epoch_s(_text(meta.get("creationTimestamp"))),
        free=_texts(status.get("allocatable")),
    )


def epoch_s(written: str) -> float:
    """A time of the API server, in seconds since the epoch; 0 where it is none."""
    try:
        return dt.datetime.strptime(written, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=dt.timezone.utc).timestamp()
    except ValueError:
        return 0.0


def time_of(epoch_s: float) -> str:
    """A time as the API server writes it."""
    return dt.datetime.fromtimestamp(int(epoch_s), tz=dt.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _objects(value: object) -> Iterable[Mapping[str, Any]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _texts(value: object) -> dict[str, str]:
    return {key: each for key, each in _mapping(value).items() if isinstance(each, str)}
