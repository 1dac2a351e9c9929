"""Nodes and pods of a cluster, from what the API server says of them; whatever is not of its form is not there."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nodegate.engines.kubernetes.api import Api

GPU = "nvidia.com/gpu"
NAMESPACE = "nodegate"  # of what deploy/kubernetes makes
PRODUCT, COUNT = "nvidia.com/gpu.product", "nvidia.com/gpu.count"  # of GPU feature discovery
_OF_MIG = "nvidia.com/mig-"
# How node feature discovery and GPU feature discovery say that there is an NVIDIA GPU, also where no driver runs.
_SIGNS = ("nvidia.com/gpu.present", "feature.node.kubernetes.io/pci-10de.present")
_NOT_OVER = "status.phase!=Succeeded,status.phase!=Failed"
_NO_MACHINES = ("k3s", "rke2")  # distributions that write their own name there


@dataclass(frozen=True)
class Taint:
    """A taint of a node as the API server has it."""

    key: str
    value: str
    effect: str
    raw: Mapping[str, Any]


@dataclass(frozen=True)
class KubeNode:
    """A node as the cluster knows it. `capacity` are its resources, `conditions` by their types."""

    name: str
    uid: str
    version: str
    labels: Mapping[str, str]
    capacity: Mapping[str, str]
    taints: tuple[Taint, ...]
    conditions: Mapping[str, Mapping[str, str]]
    address: str = ""
    joined_epoch_s: float = 0.0

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


def nodes(api: Api, selector: str = "") -> list[KubeNode]:
    """The nodes with these labels, or all, by name.

    Raises:
        Refused: the server did not say.
    """
    query = {"labelSelector": selector} if selector else {}
    found = (node_of(each) for each in api.listed("/api/v1/nodes", **query))
    return sorted((each for each in found if each.name), key=lambda node: node.name)


def busy(api: Api) -> set[str]:
    """The nodes with pods that asked for GPUs and are not over, of all namespaces.

    Raises:
        Refused: the server did not say.
    """
    specs = (_mapping(each.get("spec")) for each in api.listed("/api/v1/pods", fieldSelector=_NOT_OVER))
    return {_text(spec.get("nodeName")) for spec in specs if _asks_for_gpus(spec)} - {""}


def running(api: Api, selector: str) -> dict[str, str]:
    """By node the pod (NAMESPACE/NAME) in nodegate's namespace with these labels whose container runs.

    Raises:
        Refused: the server did not say.
    """
    found: dict[str, str] = {}
    for pod in api.listed(f"/api/v1/namespaces/{NAMESPACE}/pods", labelSelector=selector):
        meta, spec, status = (_mapping(pod.get(key)) for key in ("metadata", "spec", "status"))
        containers = _objects(status.get("containerStatuses"))
        runs = any(_mapping(each.get("state")).get("running") is not None for each in containers)
        if runs and not meta.get("deletionTimestamp"):
            found[_text(spec.get("nodeName"))] = f"{NAMESPACE}/{_text(meta.get('name'))}"
    return found


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
            Taint(_text(each.get("key")), _text(each.get("value")), _text(each.get("effect")), each)
            for each in _objects(spec.get("taints"))
        ),
        conditions={_text(each.get("type")): _texts(each) for each in _objects(status.get("conditions"))},
        address=addresses.get("InternalIP", ""),
        joined_epoch_s=epoch_s(_text(meta.get("creationTimestamp"))),
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


def _asks_for_gpus(spec: Mapping[str, Any]) -> bool:
    """Whether a pod asks for GPUs, shares or parts of them, as a limit (which is the request too) or by a claim."""
    containers = [each for kind in ("containers", "initContainers") for each in _objects(spec.get(kind))]
    limits = [_texts(_mapping(each.get("resources")).get("limits")) for each in containers]
    asked = {key for each in limits for key, value in each.items() if value != "0"}
    return bool(spec.get("resourceClaims")) or any(key.startswith((GPU, _OF_MIG)) for key in asked)


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _objects(value: object) -> Iterable[Mapping[str, Any]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _texts(value: object) -> dict[str, str]:
    return {key: each for key, each in _mapping(value).items() if isinstance(each, str)}
