"""Nodes held in a cluster while they are under load: a taint keeps pods away, and a pod of ours has all their GPUs.

What a program in the host's namespaces does with GPUs the scheduler does not see. So the scheduler itself gives the
GPUs to the pod: where a job has any of them it does not, and the node is not held. The pod ends by its own deadline.
The taint has its end in its value, RUN.EPOCH, and goes with the next start of any run after that.
"""

from __future__ import annotations

import math
import re
import secrets
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from nodegate.engines.kubernetes import cluster, taints
from nodegate.engines.kubernetes.api import Refused, connect
from nodegate.errors import UsageError
from nodegate.scheduler.hold import Held, has_ended, owner

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from nodegate.engines.kubernetes.api import Api

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
        self._held = dict(by_name)  # from the first taint on: what this process leaves behind is all of it
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
        agents = cluster.running(api, cluster.AGENT)
        for name in (each for each in by_name if each not in refused):
            if name not in agents or name not in known:
                refused[name] = "the cluster has no agent pod that runs on it"
                continue
            asked = {key: count for key, count in known[name].free.items() if key.startswith(cluster.GPUS)}
            api.create(_PODS, self._pod(name, agents[name], asked, until))
        return refused | self._not_started(api, [name for name in by_name if name not in refused], ended)

    def _pod(self, node: str, agent: Mapping[str, Any], asked: Mapping[str, str], until: float) -> dict[str, object]:
        """The pod that has a node's GPUs; it runs what the agent pod runs, whose image is there."""
        like = agent["spec"]["containers"][0]
        container = {"name": "hold", **{key: like[key] for key in ("image", "command") if key in like}}
        only = {"key": "metadata.name", "operator": "In", "values": [node]}
        affinity = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchFields": [only]}]}}
        meta = {
            "generateName": "hold-",
            "labels": {cluster.HOLD: self._run},
            "annotations": {_OWNER: owner(), _NODE: node},
        }
        spec = {
            "affinity": {"nodeAffinity": affinity},
            "tolerations": [{"operator": "Exists"}],
            "activeDeadlineSeconds": max(1, math.ceil(until - time.time())),
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 0,
            "automountServiceAccountToken": False,
            "hostNetwork": True,  # it takes no address
            "containers": [{**container, "resources": {"limits": dict(asked)}}],
        }
        return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}

    def _not_started(self, api: Api, names: Sequence[str], ended: Callable[[], bool]) -> dict[str, str]:
        """Wait for the pods on these nodes; why those of some do not run."""
        slow = f"our pod does not start on it within {START_S:g} s"
        began_s, why = time.monotonic(), dict.fromkeys(names, slow)
        while why and not ended() and (waited_s := time.monotonic() - began_s) < START_S:
            pods = {_said(pod, "annotations").get(_NODE, ""): pod for pod in _holds(api, self._run)}
            why = {name: cluster.why_no_start(pods.get(name, {})) or slow for name in why if not _runs(pods.get(name))}
            if slow not in why.values() and waited_s > SETTLE_S:
                break
            time.sleep(_POLL_S if why else 0.0)
        return {name: f"the scheduler does not give us its GPUs: {said}" for name, said in why.items()}

    def lost(self) -> tuple[str, ...]:
        """See `Holder`."""
        try:
            pods = _holds(connect(), self._run) if self._held else ()
            running = {_said(pod, "annotations").get(_NODE) for pod in pods if _runs(pod)}
        except (Refused, UsageError):
            return ()
        return tuple(node for name, node in self._held.items() if name not in running)

    def give_back(self) -> str:
        """See `Holder`."""
        return self._let_go(list(self._held))

    def _let_go(self, names: Iterable[str]) -> str:
        """End the hold of these nodes; why that did not work."""
        left = {name for name in names if name in self._held}
        try:
            if left:
                api = connect()
                _delete(api, [pod for pod in _holds(api, self._run) if _said(pod, "annotations").get(_NODE) in left])
                for name in left:
                    _untainted(api, name, lambda run, _: run == self._run)
                    del self._held[name]
        except (Refused, UsageError) as said:
            return str(said)
        return ""

    def left_behind(self) -> tuple[str, ...]:
        """See `Holder`."""
        try:
            return clear(connect())
        except (Refused, UsageError):
            return ()  # what is wrong with the cluster is said where nodes are held


def clear(api: Api) -> tuple[str, ...]:
    """End the holds of processes that have ended, and those whose time is over; returns the nodes.

    Raises:
        Refused: the server did not.
    """
    holds = list(_holds(api))
    dead = [pod for pod in holds if has_ended(_said(pod, "annotations").get(_OWNER, "")) or _is_over(pod)]
    runs = {_said(pod, "labels").get(cluster.HOLD, "") for pod in dead if not _is_over(pod)}
    _delete(api, dead)
    now_s, held = time.time(), [node.name for node in cluster.nodes(api) if node.taint(TESTING)]
    return tuple(name for name in held if _untainted(api, name, lambda run, end: run in runs or end < now_s))


def _tainted(api: Api, name: str, value: str) -> dict[str, str]:
    """Why a node could not get our taint."""

    def wanted(node: cluster.KubeNode, _: object) -> tuple[list[Mapping[str, object]] | None, str]:
        if found := node.taint(TESTING):
            return None, f"another run holds it: {TESTING}={found.value}"
        return [*(each.raw for each in node.taints), {"key": TESTING, "value": value, "effect": taints.EFFECT}], ""

    _, why = taints.changed(api, name, wanted, alone=True)
    return {name: why} if why else {}


def _untainted(api: Api, name: str, is_meant: Callable[[str, float], bool]) -> bool:
    """Take away a taint of a run and an end that are meant; whether there was one. Those of other forms stay."""

    def wanted(node: cluster.KubeNode, _: object) -> tuple[list[Mapping[str, object]] | None, str]:
        found = node.taint(TESTING)
        said = _VALUE.fullmatch(found.value) if found else None
        if said is None or not is_meant(said[1], float(said[2])):
            return None, ""
        return [each.raw for each in node.taints if each.key != TESTING], ""

    return taints.changed(api, name, wanted, alone=True)[0]


def _holds(api: Api, run: str = "") -> Iterable[Mapping[str, Any]]:
    return api.listed(_PODS, labelSelector=f"{cluster.HOLD}={run}" if run else cluster.HOLD)


def _delete(api: Api, pods: Iterable[Mapping[str, Any]]) -> None:
    for pod in pods:
        api.call("DELETE", f"{_PODS}/{pod['metadata']['name']}", query=_NOW)


def _said(pod: Mapping[str, Any], key: str) -> Mapping[str, str]:
    found = pod["metadata"].get(key)
    return found if isinstance(found, dict) else {}


def _is_over(pod: Mapping[str, Any]) -> bool:
    return cluster.phase_of(pod) in ("Succeeded", "Failed")


def _runs(pod: Mapping[str, Any] | None) -> bool:
    return pod is not None and cluster.phase_of(pod) == "Running"
