"""The pods of a job, their nodes and their order: by the labels that whoever made them puts on them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from nodegate.engines.engine import Member
from nodegate.engines.kubernetes import cluster
from nodegate.engines.kubernetes.api import Refused
from nodegate.errors import UsageError
from nodegate.text import some

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from nodegate.engines.kubernetes.api import Api


@dataclass(frozen=True)
class Form:
    """How one kind of job labels its pods.

    `jobs`: the label with its name, one of these. `numbers`: labels or annotations whose numbers together give a pod
    its place, each with its older names. `roles`: the label that says what a pod is, one of these.
    """

    kind: str
    jobs: tuple[str, ...]
    numbers: tuple[tuple[str, ...], ...]
    roles: tuple[str, ...] = ()


_INDEX = ("batch.kubernetes.io/job-completion-index",)
_KUBEFLOW, _VOLCANO = "training.kubeflow.org/", "volcano.sh/"
_LWS, _JOBSET = "leaderworkerset.sigs.k8s.io/", "jobset.sigs.k8s.io/"
_KUBEFLOW_ROLES = (f"{_KUBEFLOW}replica-type", f"{_KUBEFLOW}job-role")
FORMS = (
    Form("JobSet", (f"{_JOBSET}jobset-name",), ((f"{_JOBSET}job-global-index",), _INDEX)),
    Form("Kubeflow", (f"{_KUBEFLOW}job-name",), ((f"{_KUBEFLOW}replica-index",),), _KUBEFLOW_ROLES),
    Form("Volcano", (f"{_VOLCANO}job-name",), ((f"{_VOLCANO}task-index",),), (f"{_VOLCANO}task-spec",)),
    Form("LeaderWorkerSet", (f"{_LWS}name",), ((f"{_LWS}group-index",), (f"{_LWS}worker-index",))),
    Form("Job", ("batch.kubernetes.io/job-name", "job-name"), (_INDEX,)),
)
_FIRST = ("master", "chief", "launcher", "leader", "head")  # roles whose pods come before all others
_NAME = re.compile(r"(?:([a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?)/)?([a-z0-9](?:[a-z0-9.-]{0,61}[a-z0-9])?)", re.ASCII)
Place = tuple[bool, str, tuple[int, ...]]


def members(api: Api, written: str) -> list[Member]:
    """The pods of a job, [NAMESPACE/]NAME, in their order; of a place that was filled again the newest.

    A rank is the place among the pods that ask for GPUs, or among all where none does: what launchers call the rank
    of the node. It is None for all where one of them has no place, or two have the same.

    Raises:
        UsageError: the name is none, no pod has it, two jobs do, or the server did not say.
    """
    named = _NAME.fullmatch(written)
    if named is None:
        raise UsageError(f"{written[:100]}: not the name of a job", hint="kubernetes:job:NAMESPACE/NAME, or NAME alone")
    path = f"/api/v1/namespaces/{named[1]}/pods" if named[1] else "/api/v1/pods"
    try:
        found = [(form, pods) for form in FORMS if (pods := _labelled(api, path, form, named[2]))]
    except Refused as said:
        raise UsageError(f"no pods of job {written}: {said}") from None
    if not found:
        kinds, hint = ", ".join(form.kind for form in FORMS), "is it over, and were its pods deleted?"
        raise UsageError(f"no pod has the label of a job {written} ({kinds})", hint=hint)
    ways = sorted({f"{form.kind} {_meta(pod, 'namespace')}/{named[2]}" for form, pods in found for pod in pods})
    if len(ways) > 1:
        raise UsageError(f"{len(ways)} jobs are named {written}: {some(ways, 3)}", hint="say NAMESPACE/NAME")
    ((form, pods),) = found
    placed = sorted(((_place(form, pod), pod) for pod in _newest(form, pods)), key=_by_place)
    counted = [(place, pod) for place, pod in placed if cluster.asks_for_gpus(pod.get("spec") or {})] or placed
    places = [place for place, _ in counted]
    are_known = None not in places and len(set(places)) == len(places)
    ranks = {_meta(pod, "name"): rank for rank, (_, pod) in enumerate(counted)} if are_known else {}
    return [_member(pod, ranks.get(_meta(pod, "name"))) for _, pod in placed]


def _labelled(api: Api, path: str, form: Form, name: str) -> Sequence[Mapping[str, Any]]:
    asked = (list(api.listed(path, labelSelector=f"{label}={name}")) for label in form.jobs)
    return next(filter(None, asked), [])


def _newest(form: Form, pods: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Of each place the pod that was made last, and all that have none."""
    found: dict[object, Mapping[str, Any]] = {}
    for pod in sorted(pods, key=lambda pod: _meta(pod, "creationTimestamp")):
        found[_place(form, pod) or _meta(pod, "name")] = pod
    return list(found.values())


def _place(form: Form, pod: Mapping[str, Any]) -> Place | None:
    said = {**_texts(pod, "annotations"), **_texts(pod, "labels")}
    role = next((said[label] for label in form.roles if label in said), "").lower()
    numbers = [next((said[label] for label in names if label in said), "") for names in form.numbers]
    if not all(number.isdecimal() and len(number) < 8 for number in numbers):
        if role not in _FIRST:
            return None
        numbers = []  # a launcher has none
    return (role not in _FIRST, role, tuple(map(int, numbers)))


def _by_place(one: tuple[Place | None, Mapping[str, Any]]) -> tuple[bool, Place, str]:
    place, pod = one
    return place is None, place or (True, "", ()), _meta(pod, "name")


def _member(pod: Mapping[str, Any], rank: int | None) -> Member:
    spec = pod.get("spec")
    node = spec.get("nodeName") if isinstance(spec, dict) else None
    return Member(_meta(pod, "name"), _meta(pod, "namespace"), node if isinstance(node, str) else "", rank)


def nodes_of(found: Sequence[Member]) -> list[str]:
    """Their nodes, in their order."""
    return list(dict.fromkeys(each.node for each in found if each.node))


def _meta(pod: Mapping[str, Any], key: str) -> str:
    found = pod["metadata"].get(key) if isinstance(pod.get("metadata"), dict) else None
    return found if isinstance(found, str) else ""


def _texts(pod: Mapping[str, Any], key: str) -> Mapping[str, str]:
    found = pod["metadata"].get(key) if isinstance(pod.get("metadata"), dict) else None
    return {name: each for name, each in found.items() if isinstance(each, str)} if isinstance(found, dict) else {}
