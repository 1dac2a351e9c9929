"""Nodegate's own taints, and the breaker before each of them: a limit of how many nodes of a kind may have one.

A limit that is wrong, or a nodegate that is, finds all nodes unfit in the same minute: then a few of each kind are
tainted, and of the others there is a line. The API server is the memory: before each taint it is asked for all nodes,
and without its answer none is set. A taint that others have set is never touched, nor is a cordon. What changes taints
raises `Refused` where the server does not; then nothing is known of it.
"""

from collections.abc import Callable, Iterable, Mapping

from nodegate.engines.kubernetes import cluster
from nodegate.engines.kubernetes.api import CONFLICT, Api, Refused
from nodegate.engines.kubernetes.cluster import KubeNode

Wanted = list[Mapping[str, object]] | str  # the taints that a node is to have; else why it keeps those it has

PREFIX = "nodegate.io/"
UNFIT, NOT_PASSED = f"{PREFIX}unfit", f"{PREFIX}not-passed"
EFFECT = "NoSchedule"
_TRIES = 4


def too_many(nodes: Iterable[KubeNode], node: KubeNode, percent: float) -> str:
    """Why this node may not be tainted as well; empty if it may. Of its kind and of all GPU nodes so many may be."""
    alike = [each for each in nodes if each.has_gpus or each.name == node.name]
    for what, among in (
        (" ".join(filter(None, node.pool)) or "its kind", [each for each in alike if each.pool == node.pool]),
        ("the cluster", alike),
    ):
        used = sum(each.taint(UNFIT) is not None for each in among if each.name != node.name)
        most = max(1, int(len(among) * percent / 100))
        if used >= most:
            return f"{used} of {len(among)} nodes of {what} have {UNFIT}, {most} may have ({percent:g} %)"
    return ""


def unfit(api: Api, name: str, value: str, percent: float) -> tuple[bool, str]:
    """Taint a node as unfit unless too many are; whether anything was changed, and why it was not."""

    def wanted(node: KubeNode, nodes: Iterable[KubeNode]) -> Wanted:
        if own := node.taint(UNFIT):
            return "" if own.value == value else with_taint(node, UNFIT, value)
        return too_many(nodes, node, percent) or with_taint(node, UNFIT, value)

    return changed(api, name, wanted)


def lift(api: Api, name: str) -> tuple[bool, str]:
    """Take nodegate's own taints away from a node that has passed; whether there were any."""

    def wanted(node: KubeNode, _: Iterable[KubeNode]) -> Wanted:
        kept = without(node, UNFIT, NOT_PASSED)
        return kept if len(kept) < len(node.taints) else ""

    return changed(api, name, wanted)


def without(node: KubeNode, *keys: str) -> list[Mapping[str, object]]:
    """The taints of a node but for these."""
    return [each.raw for each in node.taints if each.key not in keys]


def with_taint(node: KubeNode, key: str, value: str) -> list[Mapping[str, object]]:
    """The taints of a node, and this one."""
    return [*without(node, key), {"key": key, "value": value, "effect": EFFECT}]


def changed(
    api: Api, name: str, wanted: Callable[[KubeNode, Iterable[KubeNode]], Wanted], *, alone: bool = False
) -> tuple[bool, str]:
    """Give a node other taints than it has now: the whole list at once, unless it was changed since it was read.

    `wanted` gets the node and all nodes (`alone`: it alone). Returns whether they were changed, and why not.
    """
    for left in reversed(range(_TRIES)):
        nodes = cluster.nodes(api, name=name if alone else "")
        node = next((each for each in nodes if each.name == name), None)
        if node is None:
            return False, "the cluster has it no more"
        taints = wanted(node, nodes)
        if isinstance(taints, str):
            return False, taints
        body = {"metadata": {"resourceVersion": node.version}, "spec": {"taints": taints}}
        try:
            api.call("PATCH", f"/api/v1/nodes/{name}", body=body)
        except Refused as refused:
            if refused.status != CONFLICT or not left:
                raise
            continue
        return True, ""
    raise AssertionError
