"""The pods of a job, their nodes and their order: by the labels that whoever made them puts on them."""

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from nodegate.engines.engine import Member
from nodegate.engines.kubernetes import cluster
from nodegate.engines.kubernetes.api import Api, Refused, connect
from nodegate.engines.kubernetes.cluster import Pod
from nodegate.errors import UsageError
from nodegate.text import some


@dataclass(frozen=True)
class Form:
    """How one kind of job labels its pods.

    `jobs`: the label with its name, one of these. `numbers`: labels or annotations whose numbers together give a pod
    its place. `roles`: the label that says what a pod is, one of these.
    """

    kind: str
    jobs: tuple[str, ...]
    numbers: tuple[str, ...]
    roles: tuple[str, ...] = ()


_INDEX = "batch.kubernetes.io/job-completion-index"
_KUBEFLOW, _VOLCANO = "training.kubeflow.org/", "volcano.sh/"
_LWS, _JOBSET = "leaderworkerset.sigs.k8s.io/", "jobset.sigs.k8s.io/"
_KUBEFLOW_ROLES = (f"{_KUBEFLOW}replica-type", f"{_KUBEFLOW}job-role")
FORMS = (
    Form("JobSet", (f"{_JOBSET}jobset-name",), (f"{_JOBSET}job-global-index", _INDEX)),
    Form("Kubeflow", (f"{_KUBEFLOW}job-name",), (f"{_KUBEFLOW}replica-index",), _KUBEFLOW_ROLES),
    Form("Volcano", (f"{_VOLCANO}job-name",), (f"{_VOLCANO}task-index",), (f"{_VOLCANO}task-spec",)),
    Form("LeaderWorkerSet", (f"{_LWS}name",), (f"{_LWS}group-index", f"{_LWS}worker-index")),
    Form("Job", ("batch.kubernetes.io/job-name", "job-name"), (_INDEX,)),
)
_FIRST = ("master", "chief", "launcher", "leader", "head")  # roles whose pods come before all others
_NAME = re.compile(r"(?:([a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?)/)?([a-z0-9](?:[a-z0-9.-]{0,61}[a-z0-9])?)", re.ASCII)


def members(api: Api, written: str) -> list[Member]:
    """The pods of a job, [NAMESPACE/]NAME, in their order; of a place that was filled again the newest.

    A rank is the place among the pods that ask for GPUs, or among all where none does: what launchers call the rank
    of the node. It is None for all where one of them has no place, one is missing, or two have the same.

    Raises:
        UsageError: the name is none, no pod has it, two jobs do, or the server did not say.
    """
    if (named := _NAME.fullmatch(written)) is None:
        raise UsageError(f"{written[:100]}: not the name of a job", hint="kubernetes:job:NAMESPACE/NAME, or NAME alone")
    space, name = named[1] or "", named[2]
    try:
        found = [(form, pods) for form in FORMS if (pods := _labelled(api, form, name, space))]
    except Refused as said:
        raise UsageError(f"no pods of job {written}: {said}") from None
    if not found:
        kinds, hint = ", ".join(form.kind for form in FORMS), "is it over, and were its pods deleted?"
        raise UsageError(f"no pod has the label of a job {written} ({kinds})", hint=hint)
    ways = sorted({f"{form.kind} {pod.namespace}/{name}" for form, pods in found for pod in pods})
    if len(ways) > 1:
        raise UsageError(f"{len(ways)} jobs are named {written}: {some(ways, 3)}", hint="say NAMESPACE/NAME")
    ((form, pods),) = found
    newest = _newest(form, pods)
    counted = [pod for pod in newest if pod.has_gpus] or newest
    places = [_place(form, pod) for pod in counted]
    are_known = all(places) and len(set(places)) == len(places) and _has_no_gap(_place(form, pod) for pod in newest)
    ordered = [pod for _, pod in sorted(zip(places, counted, strict=True), key=lambda each: each[0])]
    ranks = {pod.name: rank for rank, pod in enumerate(ordered)} if are_known else {}
    others = [pod for pod in newest if pod not in counted]
    return [Member(pod.name, pod.namespace, pod.node, ranks.get(pod.name)) for pod in (*ordered, *others)]


def _labelled(api: Api, form: Form, name: str, space: str) -> Sequence[Pod]:
    return next(filter(None, (cluster.pods(api, f"{label}={name}", space) for label in form.jobs)), [])


def _newest(form: Form, pods: Iterable[Pod]) -> list[Pod]:
    """Of each place the pod that was made last, and all that have none."""
    return list({_place(form, pod) or pod.name: pod for pod in sorted(pods, key=lambda pod: pod.made)}.values())


def _place(form: Form, pod: Pod) -> tuple[object, ...]:
    """Where a pod stands among the others: they are in the order of this; empty where that is not known."""
    said = {**pod.annotations, **pod.labels}
    role = next((said[label] for label in form.roles if label in said), "").lower()
    numbers = [said.get(label, "") for label in form.numbers]
    if role in _FIRST and not any(numbers):
        return (False, role)  # a launcher has no number
    is_placed = all(number.isdecimal() and len(number) < 8 for number in numbers)
    return (role not in _FIRST, role, *map(int, numbers)) if is_placed else ()


def _has_no_gap(places: Iterable[tuple[object, ...]]) -> bool:
    """Whether the numbers at each level count from 0: else a pod is missing, and those after it are one too early."""
    found: defaultdict[tuple[object, ...], set[object]] = defaultdict(set)
    for place in places:
        for depth in range(2, len(place)):  # after the role
            found[place[:depth]].add(place[depth])
    return all(numbers == set(range(len(numbers))) for numbers in found.values())


def members_of(asked: Sequence[str]) -> list[Member]:
    """The pods of a job by the words of a source: job:[NAMESPACE/]NAME. Raises as `members`."""
    kind, _, name = ",".join(asked).partition(":")
    if kind != "job":
        raise UsageError(f"{kind[:100] or 'no word'}: not a job", hint="kubernetes:job:NAMESPACE/NAME")
    return members(connect(), name)
