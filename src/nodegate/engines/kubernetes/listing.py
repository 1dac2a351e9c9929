"""The inventory source `kubernetes:[SELECTOR]`: a cluster's GPU nodes with what their labels say of them."""

import re
from collections.abc import Mapping, Sequence

from nodegate.engines.engine import BUSY
from nodegate.engines.kubernetes import cluster, expected
from nodegate.engines.kubernetes.api import Api, Refused, connect
from nodegate.engines.kubernetes.cluster import KubeNode
from nodegate.errors import UsageError
from nodegate.text import counted, some

NAME = "kubernetes"
_BY = {"ansible_connection": NAME}
_UNFIT_FOR_A_GROUP = re.compile(r"[^\w.-]+")


def listing(selector: str, api: Api | None = None, *, only: Sequence[str] | None = None) -> Mapping[str, object]:
    """See `Engine`: the nodes with these labels, or `only` those; without either those that have GPUs.

    They are in a group of their kind of machine or GPU, and in `BUSY` while pods with GPUs are on them. A later source
    adds variables or replaces these.

    Raises:
        UsageError: no cluster answers, or none of its nodes is meant.
    """
    api = api or connect()
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
