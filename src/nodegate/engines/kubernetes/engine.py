"""Kubernetes as an engine; as an inventory its GPU nodes with what their labels say of them."""

import re
from collections.abc import Mapping, Sequence

from nodegate.engines.engine import BUSY, Engine, Reach
from nodegate.engines.kubernetes import cluster, expected
from nodegate.engines.kubernetes.api import Refused, connect
from nodegate.engines.kubernetes.cluster import KubeNode
from nodegate.engines.kubernetes.hold import KubernetesHold
from nodegate.engines.kubernetes.members import members_of
from nodegate.errors import UsageError
from nodegate.node import Node
from nodegate.scheduler.hold import Holder
from nodegate.text import counted, some

NAME = "kubernetes"
_BY = {"ansible_connection": NAME}
_UNFIT_FOR_A_GROUP = re.compile(r"[^\w.-]+")


class Kubernetes:
    """See `Engine`. The words of its source are those of a label selector, kubernetes:[pool=gpu,zone in (a,b)], or
    name a job: kubernetes:job:NAMESPACE/NAME.
    """  # noqa: D205 - one sentence

    def listing(self, asked: Sequence[str]) -> Mapping[str, object]:
        """See `Engine`."""
        words = ",".join(asked)
        if not words.startswith("job:"):
            return _listing(words)
        return _listing("", [pod.node for pod in members_of(asked)])

    def reach(self, nodes: Sequence[Node]) -> Reach:
        """By the agent pods."""
        from nodegate.engines.kubernetes.reach import KubernetesReach  # noqa: PLC0415 - an inventory needs none

        return KubernetesReach({node.name: node.name for node in nodes})

    def holder(self, nodes: Sequence[Node]) -> Holder:
        """By a taint and a pod on each."""
        return KubernetesHold({node.name: node.name for node in nodes})

    def obstacles(self, _nodes: Sequence[Node]) -> tuple[()]:
        """None: which pod or right is missing is said where a node is reached."""
        return ()


def _listing(selector: str, only: Sequence[str] | None = None) -> Mapping[str, object]:
    """See `Engine`: the nodes with these labels, or `only` those; without either those that have GPUs.

    They are in a group of their kind of machine or GPU, and in `BUSY` while pods with GPUs are on them. A later source
    adds variables or replaces these.

    Raises:
        UsageError: no cluster answers, or none of its nodes is meant.
    """
    api = connect()
    where = f"{NAME}:[{selector}]"
    try:
        found = cluster.nodes(api)  # what is expected of one is known by those alike
        chosen = {node.name for node in cluster.nodes(api, selector)} if selector else set(only or ())
        busy = cluster.busy(api)
    except Refused as said:
        raise UsageError(f"no nodes: {said}", file=where) from None
    meant = [node for node in found if (node.name in chosen if selector or only is not None else node.has_gpus)]
    if not meant:
        names = some((node.name for node in found), 3)
        why = f"none of {counted(len(found), 'node')} of {api.name} says that it has GPUs ({names})"
        why = why if found and not selector else f"{api.name} has no node with these labels"
        raise UsageError(why, file=where, hint="a label selector names them: kubernetes:pool=gpu")
    groups: dict[str, dict[str, list[str]]] = {}
    for node in meant:
        for group in filter(None, (_group(node), BUSY if node.name in busy else "")):
            groups.setdefault(group, {"hosts": []})["hosts"].append(node.name)
    hopes = expected.variables(found)
    return {"_meta": {"hostvars": {node.name: {**_BY, **hopes[node.name]} for node in meant}}, **groups}


def _group(node: KubeNode) -> str:
    """The kind of machine, else of GPU, as the name of a group; empty where neither is known."""
    kind = next(filter(None, node.pool), "")
    return f"kind_{_UNFIT_FOR_A_GROUP.sub('_', kind)}"[:100] if kind else ""


ENGINE: Engine = Kubernetes()
