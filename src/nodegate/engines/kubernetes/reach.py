"""The way of a run to nodes of a cluster: programs in the pod of the DaemonSet nodegate-agent on each of them.

The pod is privileged and in the host's process namespace; nsenter brings a program to the host's own python3, files
and devices. It keeps the pod's cgroup, so that the pod's end is its end.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property

from nodegate.engines.engine import Answer
from nodegate.engines.kubernetes import cluster
from nodegate.engines.kubernetes.api import FORBIDDEN, NOT_FOUND, Api, Refused, connect
from nodegate.engines.kubernetes.hold import KubernetesHold
from nodegate.engines.kubernetes.stream import started
from nodegate.errors import Unreachable
from nodegate.node import Node
from nodegate.scheduler.hold import Held
from nodegate.transport.call import Request
from nodegate.transport.channel import Channel
from nodegate.transport.command import CommandSession, Said

ENTER = ("nsenter", "-t", "1", "-m", "-u", "-i", "-n", "-p", "--")
AT_ONCE = 64  # programs, and streams that are being opened: nothing else protects the API server from them
_DEPLOY = "kubectl apply -k deploy/kubernetes/agent and label the node; or ansible_connection: ssh in a file beside"
_LOOK = "see kubectl -n nodegate get pods -o wide, and the kubelet's log on the node"
# What kubelet and container runtime say where they cannot start a program.
MESSAGES = (
    Said(r"nsenter.{0,80}not found|nsenter.{0,80}no such file", "configuration", "its image needs nsenter: busybox"),
    Said(r"(?i)container not found|not running|container .{0,80}(?:exited|stopped)", "refused", _LOOK),
    Said(r"(?i)dialing backend|i/o timeout|connection refused|no route to host|deadline", "timeout", _LOOK),
    Said(r"(?i)operation not permitted|permission denied", "authentication", "it must be privileged, with hostPID"),
)


class KubernetesReach(KubernetesHold):
    """See `Reach`. It lends all, since what only reads keeps no job away; for a load see `Engine.holder`."""

    def __init__(self, names: Mapping[str, str]) -> None:
        super().__init__(names)
        self.room, self._opening = threading.BoundedSemaphore(AT_ONCE), threading.BoundedSemaphore(AT_ONCE)
        self._guard = threading.Lock()
        self._agents: Mapping[str, str] | None = None
        self._refused: Refused | None = None  # asked once: a server that hangs is not waited for by each node

    def hold(self, nodes: Sequence[str], _until: float, *, ended: Callable[[], bool] = lambda: False) -> Held:  # noqa: ARG002
        """See `Holder`."""
        return Held(tuple(nodes))

    def at_once(self, _request: Request, _nodes: Sequence[Node]) -> Mapping[str, Answer]:
        """See `Reach`: each node has a stream of its own."""
        return {}

    def connect(self, node: Node) -> PodSession:
        """See `Reach`."""
        self._agent(node.name)
        return PodSession(node, self)

    def started(self, node: str, argv: Sequence[str]) -> Channel:
        """Start a program in a node's agent pod, on its host.

        Raises:
            Unreachable: with what to do.
        """
        for is_last in (False, True):
            pod = self._agent(node)
            try:
                with self._opening:
                    return started(self._api, pod, [*ENTER, *argv])
            except Refused as said:
                if said.status != NOT_FOUND or is_last:
                    raise _unreachable(said, node) from None
            with self._guard:
                self._agents = None  # it is another one now, or none
        raise AssertionError

    @cached_property
    def _api(self) -> Api:
        return connect()

    def _agent(self, node: str) -> str:
        """The pod on a node, of those that there were when they were asked for last."""
        with self._guard:
            try:
                if self._agents is None and self._refused is None:
                    agents = cluster.agents(self._api, node if len(self.names) == 1 else "")
                    self._agents = {name: pod.name for name, pod in agents.items()}
            except Refused as said:
                self._refused = said
            if self._agents is None and self._refused:
                raise _unreachable(self._refused, node)
            found = (self._agents or {}).get(self.names[node])
        if found is None:
            raise Unreachable("refused", cluster.NO_AGENT, next_step=_DEPLOY, whose=node)
        return found


class PodSession(CommandSession):
    """A session by programs in a pod."""

    def __init__(self, node: Node, reach: KubernetesReach) -> None:
        super().__init__(node, ("kubectl", "-n", "nodegate", "exec", "POD", "--", *ENTER), MESSAGES)
        self._reach, self._room = reach, reach.room

    def _channel(self, *, as_root: bool) -> Channel:
        return self._reach.started(self.node.name, self._argv(as_root=as_root))


def _unreachable(said: Refused, node: str) -> Unreachable:
    """What is said where no program starts, in the kinds of a node that is not reached."""
    kind = "authentication" if said.status in (401, FORBIDDEN) else "refused"
    found = [each for each in MESSAGES if kind == "refused" and re.search(each.pattern, str(said))]
    known = found[0] if found else Said("", kind, _LOOK)
    return Unreachable(known.kind, str(said), next_step=known.next_step, whose=node)
