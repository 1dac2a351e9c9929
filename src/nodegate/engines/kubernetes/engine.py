"""Kubernetes as an engine."""

from collections.abc import Mapping, Sequence

from nodegate.engines.engine import Engine, Reach
from nodegate.engines.kubernetes.listing import listing
from nodegate.node import Node
from nodegate.scheduler.hold import Holder


class Kubernetes:
    """See `Engine`. The words of its source are those of a label selector, kubernetes:[pool=gpu,zone in (a,b)], or
    name a job: kubernetes:job:NAMESPACE/NAME.
    """  # noqa: D205 - one sentence

    def listing(self, asked: Sequence[str]) -> Mapping[str, object]:
        """See `Engine`."""
        words = ",".join(asked)
        if not words.startswith("job:"):
            return listing(words)
        from nodegate.engines.kubernetes.members import members_of  # noqa: PLC0415 - few inventories are those of jobs

        return listing("", only=[pod.node for pod in members_of(asked)])

    def reach(self, nodes: Sequence[Node]) -> Reach:
        """By the agent pods."""
        from nodegate.engines.kubernetes.reach import KubernetesReach  # noqa: PLC0415 - an inventory needs none

        return KubernetesReach({node.name: node.name for node in nodes})

    def holder(self, nodes: Sequence[Node]) -> Holder:
        """By a taint and a pod on each."""
        from nodegate.engines.kubernetes.hold import KubernetesHold  # noqa: PLC0415 - only a load holds nodes

        return KubernetesHold({node.name: node.name for node in nodes})

    def obstacles(self, _nodes: Sequence[Node]) -> tuple[()]:
        """None: which pod or right is missing is said where a node is reached."""
        return ()


ENGINE: Engine = Kubernetes()
