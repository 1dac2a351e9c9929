"""The way of a run to nodes of a cluster: programs in the pod of the DaemonSet nodegate-agent on each of them.

The pod is privileged and in the host's process namespace; nsenter brings a program to the host's own python3, files
and devices. It keeps the pod's cgroup, so that the pod's end is its end.
"""

from __future__ import annotations

import re
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from nodegate.engines.kubernetes import cluster
from nodegate.engines.kubernetes.api import FORBIDDEN, Refused, connect
from nodegate.engines.kubernetes.hold import clear
from nodegate.engines.kubernetes.stream import started
from nodegate.errors import Unreachable
from nodegate.scheduler.hold import Held
from nodegate.transport.call import guard_argv
from nodegate.transport.command import Said
from nodegate.transport.guarded import GuardedSession

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from nodegate.engines.engine import Answer
    from nodegate.engines.kubernetes.api import Api
    from nodegate.node import Node
    from nodegate.transport.call import Request
    from nodegate.transport.channel import Channel

ENTER = ("nsenter", "-t", "1", "-m", "-u", "-i", "-n", "-p", "--")
AT_ONCE = 64  # programs, and streams that are being opened: nothing else protects the API server from them
_NOT_FOUND = 404
_LOGIN = (401, FORBIDDEN)
_NO_AGENT = "the cluster has no agent pod that runs on it"
_DEPLOY = "kubectl apply -k deploy/kubernetes/agent and label the node; or ansible_connection: ssh in a file beside"
_LOOK = "see kubectl -n nodegate get pods -o wide, and the kubelet's log on the node"
# What kubelet and container runtime say where they cannot start a program.
MESSAGES = (
    Said(r"nsenter.{0,80}not found|nsenter.{0,80}no such file", "configuration", "its image needs nsenter: busybox"),
    Said(r"(?i)container not found|not running|container .{0,80}(?:exited|stopped)", "refused", _LOOK),
    Said(r"(?i)dialing backend|i/o timeout|connection refused|no route to host|deadline", "timeout", _LOOK),
    Said(r"(?i)operation not permitted|permission denied", "authentication", "it must be privileged, with hostPID"),
)


@dataclass(eq=False)
class KubernetesReach:
    """See `Reach`. It lends nothing: what puts load on a node holds it, see `hold`."""

    names: Mapping[str, str]
    room: threading.BoundedSemaphore = field(default_factory=lambda: threading.BoundedSemaphore(AT_ONCE), init=False)
    _opening: threading.BoundedSemaphore = field(
        default_factory=lambda: threading.BoundedSemaphore(AT_ONCE), init=False
    )
    _guard: threading.Lock = field(default_factory=threading.Lock, init=False)
    _pods: Mapping[str, str] | None = field(default=None, init=False)
    _known_api: Api | None = field(default=None, init=False)

    def hold(self, nodes: Sequence[str], _until: float, *, ended: Callable[[], bool]) -> Held:  # noqa: ARG002
        """See `Holder`: all of them, since nothing that reads only keeps a job away."""
        return Held(tuple(nodes))

    def lost(self) -> tuple[str, ...]:
        """See `Holder`."""
        return ()

    def give_back(self) -> str:
        """See `Holder`."""
        return ""

    def left_behind(self) -> tuple[str, ...]:
        """See `Holder`: what put load on nodes and was killed."""
        try:
            return clear(self._api)
        except Refused:
            return ()  # it is said where nodes are held

    def at_once(self, _request: Request, _nodes: Sequence[Node]) -> Mapping[str, Answer]:
        """See `Reach`: each node has a stream of its own."""
        return {}

    def connect(self, node: Node, *, answer_s: float) -> PodSession:
        """See `Reach`."""
        self._pod(node.name)
        return PodSession(node, self, answer_s=answer_s)

    def started(self, node: str, argv: Sequence[str]) -> Channel:
        """Start a program in a node's agent pod, on its host.

        Raises:
            Unreachable: with what to do.
        """
        pod = self._pod(node)
        try:
            with self._opening:
                return started(self._api, pod, [*ENTER, *argv])
        except Refused as said:
            if said.status != _NOT_FOUND:
                raise _unreachable(said, node) from None
        with self._guard:
            self._pods = None  # it is another one now, or none
        try:
            with self._opening:
                return started(self._api, self._pod(node), [*ENTER, *argv])
        except Refused as said:
            raise _unreachable(said, node) from None

    @property
    def _api(self) -> Api:
        if self._known_api is None:
            self._known_api = connect()
        return self._known_api

    def _pod(self, node: str) -> str:
        """The pod on a node, of those that there were when they were asked for last."""
        with self._guard:
            if self._pods is None:
                try:
                    self._pods = {
                        name: pod["metadata"]["name"] for name, pod in cluster.running(self._api, cluster.AGENT).items()
                    }
                except Refused as said:
                    raise _unreachable(said, node) from None
            found = self._pods.get(self.names.get(node, node))
        if found is None:
            raise Unreachable("refused", _NO_AGENT, next_step=_DEPLOY, whose=node)
        return found


class PodSession(GuardedSession):
    """A session by programs in a pod."""

    def __init__(self, node: Node, reach: KubernetesReach, *, answer_s: float) -> None:
        super().__init__(node, answer_s=answer_s)
        self._reach, self._room = reach, reach.room
        self.login_step = f"try it by hand: kubectl -n nodegate exec POD -- {' '.join(ENTER)} true"

    def why(self, said: str) -> Unreachable | None:
        """See `GuardedSession`."""
        found = next((each for each in MESSAGES if re.search(each.pattern, said)), None)
        if found is None:
            return None
        return Unreachable(found.kind, f"its agent pod: {said}", next_step=found.next_step, whose=self.node.name)

    def _channel(self, *, as_root: bool) -> Channel:
        connection = self.node.connection
        argv = guard_argv(connection.python, as_root=as_root, lease_s=connection.lease_s)
        return self._reach.started(self.node.name, argv)


def _unreachable(said: Refused, node: str) -> Unreachable:
    """What the API server says where no program starts, in the kinds of a node that is not reached."""
    known = next((each for each in MESSAGES if re.search(each.pattern, str(said))), None)
    kind = "authentication" if said.status in _LOGIN else known.kind if known else "refused"
    step = known.next_step if known and said.status not in _LOGIN else _LOOK
    return Unreachable(kind, str(said), next_step=step, whose=node)
