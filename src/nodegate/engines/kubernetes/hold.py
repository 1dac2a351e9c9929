"""Nodes held in a cluster while they are under load: a taint keeps pods away, and a pod of ours has all their GPUs.

What a program in the host's namespaces does with GPUs the scheduler does not see. So the scheduler itself gives the
GPUs to the pod: where a job has any of them it does not, and the node is not held. The pod ends by its own deadline.
The taint has its end in its value, RUN.EPOCH, and goes with the next start of any run after that.
"""

import math
import re
import secrets
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from nodegate.engines.kubernetes import cluster, taints
from nodegate.engines.kubernetes.api import NEW, Api, Refused, connect
from nodegate.errors import UsageError
from nodegate.scheduler.hold import Held, has_ended, owner

TESTING = f"{taints.PREFIX}testing"
START_S = 60.0  # that scheduler and kubelet have to start a pod on a node that is free
SETTLE_S = 8.0  # that GPUs of a pod which has ended may take to be free
_PODS = f"/api/v1/namespaces/{cluster.NAMESPACE}/pods"
_VALUE = re.compile(r"([0-9a-f]{12})\.(\d{1,12})", re.ASCII)
_OWNER, _NODE = f"{taints.PREFIX}owner", f"{taints.PREFIX}node"
_POLL_S = 0.5
_NOW = {"gracePeriodSeconds": "0"}
_TAKEN = "pods with GPUs are on it"


@dataclass(eq=False)
class KubernetesHold:
    """See `Holder`. `names`: the cluster's names of the inventory's nodes."""

    names: Mapping[str, str]
    _run: str = field(default_factory=lambda: secrets.token_hex(6), init=False)
    _held: dict[str, str] = field(default_factory=dict, init=False)  # the cluster's name -> the inventory's

    def hold(self, nodes: Sequence[str], until: float, *, ended: Callable[[], bool] = lambda: False) -> Held:
        """See `Holder`."""
        by_name = {self.names[node]: node for node in nodes}
        self._held = dict(by_name)  # what this process leaves behind counts from its first taint
        try:
            api = connect()
            refused = self._taken(api, by_name, until, ended)
        except (Refused, UsageError) as said:
            refused = dict.fromkeys(by_name, str(said))
        self._let_go(refused)
        ours = tuple(node for name, node in by_name.items() if name not in refused)
        return Held(ours, {by_name[name]: why for name, why in refused.items()})

    def _taken(self, api: Api, by_name: Mapping[str, str], until: float, ended: Callable[[], bool]) -> dict[str, str]:
        """Why nodes could not be held: taint first, then look who is there, then have the GPUs given to us."""
        refused: dict[str, str] = {}
        value = f"{self._run}.{math.ceil(until)}"
        for name in by_name:
            refused |= {name: "the run was ended"} if ended() else _tainted(api, name, value)
        known = {node.name: node for node in cluster.nodes(api)}
        refused |= dict.fromkeys(set(by_name) & cluster.busy(api), _TAKEN)
        agents = cluster.agents(api)
        refused |= {name: cluster.NO_AGENT for name in by_name if not (name in known and name in agents)}
        asked = [name for name in by_name if name not in refused]
        for name in asked:
            api.call("POST", _PODS, body=self._pod(known[name], agents[name].container, until), kind=NEW)
        return refused | self._not_started(api, asked, ended)

    def _pod(self, node: cluster.KubeNode, agent: Mapping[str, Any], until: float) -> dict[str, object]:
        """The pod that has a node's GPUs; it runs what the agent pod runs, whose image is there."""
        gpus = {key: count for key, count in node.free.items() if key.startswith(cluster.GPUS)}
        container = {key: agent[key] for key in ("image", "command") if key in agent}
        container["imagePullPolicy"] = "IfNotPresent"  # that of a tag "latest" would be to ask its registry
        only = {"key": "metadata.name", "operator": "In", "values": [node.name]}
        affinity = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchFields": [only]}]}}
        notes = {_OWNER: owner(), _NODE: node.name}
        meta = {"generateName": "hold-", "labels": {cluster.HOLD: self._run}, "annotations": notes}
        spec = {
            "affinity": {"nodeAffinity": affinity},
            "tolerations": [{"operator": "Exists"}],
            "activeDeadlineSeconds": max(1, math.ceil(until - time.time())),
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 0,
            "automountServiceAccountToken": False,
            "hostNetwork": True,  # it takes no address
            "containers": [{"name": "hold", **container, "resources": {"limits": gpus}}],
        }
        return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}

    def _not_started(self, api: Api, names: Sequence[str], ended: Callable[[], bool]) -> dict[str, str]:
        """Wait for the pods on these nodes; why those of some do not run."""
        slow = f"our pod does not start on it within {START_S:g} s"
        began_s, why = time.monotonic(), dict.fromkeys(names, slow)
        while why and not ended() and (waited_s := time.monotonic() - began_s) < START_S:
            pods = self._pods(api)
            why = {name: (name in pods and pods[name].why) or slow for name in why if not _runs(pods, name)}
            if slow not in why.values() and waited_s > SETTLE_S:
                break
            time.sleep(_POLL_S if why else 0.0)
        return {name: f"the scheduler does not give us its GPUs: {said}" for name, said in why.items()}

    def _pods(self, api: Api) -> dict[str, cluster.Pod]:
        """Our pods by the nodes that they are for."""
        return {pod.annotations.get(_NODE, ""): pod for pod in cluster.pods(api, f"{cluster.HOLD}={self._run}")}

    def lost(self) -> tuple[str, ...]:
        """See `Holder`."""
        try:
            pods = self._pods(connect()) if self._held else {}
        except (Refused, UsageError):
            return ()
        return tuple(node for name, node in self._held.items() if not _runs(pods, name))

    def give_back(self) -> str:
        """See `Holder`."""
        return self._let_go(list(self._held))

    def _let_go(self, names: Iterable[str]) -> str:
        """End the hold of these nodes; why that did not work."""
        left = {name for name in names if name in self._held}
        try:
            if left:
                api = connect()
                _delete(api, (pod for name, pod in self._pods(api).items() if name in left))
                for name in left:
                    _untainted(api, name, lambda run, _: run == self._run)
                    del self._held[name]
        except (Refused, UsageError) as said:
            return str(said)
        return ""

    def left_behind(self) -> tuple[str, ...]:
        """See `Holder`; also what processes of other machines hold beyond its time."""
        try:
            api = connect()
            pods = cluster.pods(api, cluster.HOLD)
            dead = [pod for pod in pods if has_ended(pod.annotations.get(_OWNER, ""))]
            runs, now_s = {pod.labels.get(cluster.HOLD) for pod in dead}, time.time()
            _delete(api, (pod for pod in pods if pod in dead or pod.is_over))
            held = [node.name for node in cluster.nodes(api) if node.taint(TESTING)]
            return tuple(name for name in held if _untainted(api, name, lambda run, end: run in runs or end < now_s))
        except (Refused, UsageError):
            return ()  # what is wrong with the cluster is said where nodes are held


def _tainted(api: Api, name: str, value: str) -> dict[str, str]:
    """Why a node could not get our taint."""

    def wanted(node: cluster.KubeNode, _: object) -> taints.Wanted:
        if found := node.taint(TESTING):
            return f"another run holds it: {TESTING}={found.value}"
        return taints.with_taint(node, TESTING, value)

    _, why = taints.changed(api, name, wanted, alone=True)
    return {name: why} if why else {}


def _untainted(api: Api, name: str, is_meant: Callable[[str, float], bool]) -> bool:
    """Take away a taint of a run and an end that are meant; whether there was one. Those of other forms stay."""

    def wanted(node: cluster.KubeNode, _: object) -> taints.Wanted:
        found = node.taint(TESTING)
        said = _VALUE.fullmatch(found.value) if found else None
        return taints.without(node, TESTING) if said and is_meant(said[1], float(said[2])) else ""

    return taints.changed(api, name, wanted, alone=True)[0]


def _delete(api: Api, pods: Iterable[cluster.Pod]) -> None:
    for pod in pods:
        api.call("DELETE", f"{_PODS}/{pod.name}", query=_NOW, missing_is_well=True)


def _runs(pods: Mapping[str, cluster.Pod], name: str) -> bool:
    return name in pods and pods[name].runs
