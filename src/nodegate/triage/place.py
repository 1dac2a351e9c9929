"""Where a log line comes from: rank, node and GPU, by its prefix, its text, or the name of its file."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from re import Match

from nodegate.knowledge.kernel_signatures import Hit
from nodegate.triage import labels

_MOST_PREFIXES = 8
_STERN = re.compile(r"(?P<pod>[a-z0-9](?:[a-z0-9.-]{0,100}-)[a-z0-9]{1,20}) [a-z][a-z0-9-]{0,60} (?=\S)")
_CAPACITY = re.compile(r"\bGPU (?P<gpu>[0-9]{1,3}) has a total capacity")
# What an event of Kubernetes or a line of a kubelet is about.
_POD = re.compile(
    r"\b[Pp]od/(?P<object>[\w.-]{1,120})|\bpods?=\[?\"(?:[\w.-]{1,120}/)?(?P<quoted>[\w.-]{1,120})\""
    r"|\b[Pp]od [\w.-]{1,120}/(?P<said>[\w.-]{1,120})|\bin pod (?P<container>[\w.-]{1,120})_"
)
_NODE = re.compile(
    r"\b[Nn]ode/(?P<object>[\w.-]{1,120})|\bNode (?P<said>[\w.-]{1,120}) status is now|\bkubelet, (?P<by>[\w.-]{1,253})"
)
# A row of `kubectl get pods`, with and without its namespace, and with -o wide.
_GAP = r"[ \t]{1,80}"
POD_ROW = re.compile(
    rf"(?:[a-z0-9][\w.-]{{0,62}}{_GAP})?(?P<pod>[a-z0-9][\w.-]{{0,252}}){_GAP}\d{{1,3}}/\d{{1,3}}{_GAP}[A-Z]\S{{1,60}}{_GAP}"
    rf"\d{{1,6}}(?: \([^)\n]{{1,20}} ago\))?{_GAP}[0-9a-z-]{{1,12}}"
    rf"(?:{_GAP}[0-9a-fA-F.:<>no]{{3,45}}{_GAP}(?P<node>[a-z0-9][\w.-]{{0,252}}))?"
)
_UNLIKE_POD = re.compile(r"^[\d.-]+$|^(?:epoch|step|iter|iteration)\b")
# Names that operators of training jobs give to pods, and administrators not to nodes.
POD_NAME = re.compile(r"-(?:worker|master|launcher|head|ps|trainer|actor|node-pool)-[0-9]{1,6}(?:-[a-z0-9]{5})?$")
# The names under which collectors of logs export these, the best first.
_POD_KEYS = ("pod_name", "kubernetes.pod_name", "k8s.pod.name", "pod", "kubernetes_pod_name")
_NODE_KEYS = ("node_name", "nodename", "kubernetes.host", "k8s.node.name", "hostname", "_HOSTNAME", "host", "node")
_TEXT_KEYS = ("message", "log", "msg", "MESSAGE", "record.message", "text", "line", "body")
_EVENT_KEYS, _LEVEL_KEYS = ("event",), ("level", "log_level", "severity")  # structlog; else it may be a metric's name
_RANK_KEYS = ("rank", "global_rank", "extra.rank", "record.extra.rank", "labels.rank", "fields.rank")
_RANK = re.compile(r"[0-9]{1,7}")
_OF_ANOTHER_RANK = {  # whom a line names that other ranks print
    "jax_task_lost": re.compile(r"/job:jax_worker/replica:[0-9]{1,6}/task:(?P<rank>[0-9]{1,7})"),
    "sdc_replay": re.compile(r"mismatch: [^\n]{1,99}? rank=(?P<rank>[0-9]{1,7}),"),
}
_RANK_IN_NAME = re.compile(r"(?:^|[^a-z])rank[-_.=]?([0-9]{1,7})(?![0-9])", re.IGNORECASE)
_TORCHRUN = re.compile(r"attempt_[0-9]{1,4}/(?P<local>[0-9]{1,4})/std(?:out|err)")
_BARE_NUMBER = re.compile(r"(?:^|/)([0-9]{1,5})\.(?:out|err|log|txt|std(?:out|err))(?:\.|$)")
_NODE_TOKEN = re.compile(r"[a-z][a-z0-9]*(?:-[a-z0-9]+)*", re.IGNORECASE)
# In the name of a log only what can hardly be anything else counts as a node: gpu7, node-3, or two digits at the end.
_NODE_NAME = re.compile(
    r"(?:.*-)?(?:gpu|node|host|compute|dgx|hgx|worker)-?[0-9]{1,6}|.*[a-z-][0-9]{2,6}", re.IGNORECASE
)
_NO_NODE = re.compile(
    r"(?:global|local)?-?(?:rank|task|job|slurm|attempt|run|s?xid|error|case|logs?|part|iter|epoch|step|proc|std|out|err|tmp|test|exp)"
    r"-?[0-9-]*$|[a-z]-?[0-9-]*$|gb[0-9]{3}$",
    re.IGNORECASE,
)
# Models of GPUs and of language at the end of a job log's name; a kernel log is named after a machine: `dmesg-gpu-a42`.
_MODEL = re.compile(r".*(?:[avbh][0-9]{2,3}|gb[0-9]{3}|bf16|fp[0-9]+|llama-?[0-9]*|gpt-?[0-9]*)$", re.IGNORECASE)
_OF_KERNEL = r"(?:dmesg|kern|kernel|kmsg|journal|journalctl|syslog|messages)"
_NUMBERED = re.compile(r"[a-z]{1,2}[0-9]{2,3}-[0-9]{1,4}", re.IGNORECASE)  # h100-03
_KERNEL_LOG = re.compile(rf"^{_OF_KERNEL}-|-{_OF_KERNEL}$", re.IGNORECASE)
_NO_HOST = re.compile(
    r"(?:rank|epoch|step|iter|cuda|layer|loss|line|gpu|hip|ep|it|mlx|eth|ib|worker|stage|phase)[0-9]?$"
)


@dataclass(frozen=True)
class Place:
    """Where a line comes from; unknown values are None or ""."""

    rank: int | None = None
    local_rank: int | None = None
    node: str = ""
    gpu: int | None = None
    text: str = ""  # the line without its prefixes
    pod: str = ""
    source: str = ""  # who wrote the line as its prefix says it: a pod, a container, a node

    def or_else(self, other: Place) -> Place:
        """This place, with missing values taken from the other."""
        return Place(
            rank=other.rank if self.rank is None else self.rank,
            local_rank=other.local_rank if self.local_rank is None else self.local_rank,
            node=self.node or other.node,
            gpu=other.gpu if self.gpu is None else self.gpu,
            text=self.text or other.text,
            pod=self.pod or other.pod,
            source=self.source or other.source,
        )

    def named(self, hit: Hit, text: str) -> Place:
        """This place, with the node, pod and GPU that a line of this kind names in its text."""
        if (form := _OF_ANOTHER_RANK.get(hit.signature.id)) and (named := form.search(text)):
            return Place(rank=int(named["rank"]), source=self.source)
        gpu, own, rank = hit.group("index"), hit.group("node"), hit.group("at_rank")
        place = replace(self, gpu=int(gpu) if gpu else self.gpu, node=own or self.node)
        place = replace(place, rank=int(rank)) if rank else place
        if not hit.signature.id.startswith(("k8s_", "container_")):
            return place
        if row := POD_ROW.match(text):
            return replace(place, pod=row["pod"], node=row["node"] or "")
        pod, node = _POD.search(text), _NODE.search(text)
        return replace(
            place,
            pod=next(filter(None, pod.groups())) if pod else self.pod,
            node=own or (next(filter(None, node.groups())) if node else "" if pod else self.node),
        )


def of_line(line: str, *, stern: bool = False) -> Place:
    """The place that the line itself names. `stern`: its log begins each line with pod and container."""
    place, at = Place(), 0
    if stern and (match := _STERN.match(line)):
        place, at = Place(pod=match["pod"], source=match["pod"]), match.end()
    for match in _before_text(line, at):
        place, at = place.or_else(_of_prefix(match)), match.end()
    text = said = line[at:]
    if text.startswith("{") and (read := _of_json(text)) is not None:
        return replace(place.or_else(read), text=read.text)
    if place.rank is None and (match := labels.LABEL.search(text, 0, labels.LABEL_CHARACTERS)):
        place, text = replace(place, rank=int(next(filter(None, match.groups())))), text[match.end() :]
    elif place.rank is None and (match := labels.FIELD.search(text, 0, labels.LABEL_CHARACTERS)):
        place = replace(place, rank=int(match[1] or match[2]))
    return replace(place.or_else(_of_text(said[:1000])), text=text)


def clock_of(line: str, *, stern: bool = False) -> float | None:
    """The time of day before the text of a line, in seconds of the day; None without one."""
    pod = _STERN.match(line) if stern else None
    said = next((match["clock"] for match in _before_text(line, pod.end() if pod else 0) if match["clock"]), "")
    found = labels.TIME_OF_DAY.search(said)
    return int(found[1]) * 3600.0 + int(found[2]) * 60.0 + float(found[3].replace(",", ".")) if found else None


def _before_text(line: str, at: int) -> Iterator[Match[str]]:
    """The labels before the text of a line, beginning at this place."""
    for _ in range(_MOST_PREFIXES):
        match = labels.PREFIX.match(line, at)
        if match is None or (match["pdsh"] and not _is_host(match["pdsh_node"])):
            return
        yield match
        at = match.end()


def same_node(one: str, other: str) -> bool:
    """Whether two names mean the same node: one may be without its domain."""
    return one == other or (bool(one and other) and without_domain(one) == without_domain(other))


def without_domain(node: str) -> str:
    """The name of a node up to its first dot."""
    return node.split(".", maxsplit=1)[0]


def is_stern(lines: list[str]) -> bool:
    """Whether most of these lines begin with the name of a pod and of a container, as stern prints them."""
    pods = [match["pod"] for line in lines if (match := _STERN.match(line)) and not _UNLIKE_POD.match(match["pod"])]
    return len(pods) * 2 > len(lines) and any(letter in "0123456789" for name in pods for letter in name)


def _of_json(line: str) -> Place | None:
    """The place and text of a line that a collector of logs exported as JSON; None for any other JSON."""
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(entry, dict):
        return None
    flat = _flat(entry)
    keys = (*_TEXT_KEYS, *_EVENT_KEYS) if any(key in flat for key in _LEVEL_KEYS) else _TEXT_KEYS
    said = next((str(flat[key]) for key in keys if isinstance(flat.get(key), str)), None)
    if said is None:
        return None
    names = (
        next((str(flat[key]) for key in keys if isinstance(flat.get(key), str)), "") for keys in (_POD_KEYS, _NODE_KEYS)
    )
    pod, node = (name if re.fullmatch(labels.HOST, name) else "" for name in names)
    node = "" if node == pod else node
    rank = next((int(str(flat[key])) for key in _RANK_KEYS if _RANK.fullmatch(str(flat.get(key)))), None)
    inner = of_line(said.rstrip("\n")) if not said.startswith("{") else Place(text=said)
    return replace(Place(rank=rank, pod=pod, node=node, source=pod or node).or_else(inner), text=inner.text)


def _flat(entry: Mapping[str, object], levels: int = 3) -> dict[str, object]:
    """The entries of an object, those of objects in it under both names: `record.extra.rank`."""
    flat = dict(entry)
    for key, value in entry.items() if levels > 1 else ():
        if isinstance(value, dict):
            flat.update({f"{key}.{inner}": each for inner, each in _flat(value, levels - 1).items()})
    return flat


def _of_prefix(match: Match[str]) -> Place:
    rank, local, node = (
        next((match[group] for group in groups if match[group]), "")
        for groups in (labels.RANK_GROUPS, labels.LOCAL_GROUPS, labels.NODE_GROUPS)
    )
    pod = match["pod_name"] or match["compose_name"] or match["tag_name"] or ""
    pod = "" if match["compose"] and not _is_host(pod.replace("worker", "w")) else pod
    if match["tag"] and pod.startswith(("node", "host")):
        pod, node = "", pod
    return Place(
        rank=int(rank) if rank else None,
        local_rank=int(local) if local else None,
        node=node,
        pod=pod.replace(" ", "-"),
        source=pod or node,
    )


def _is_host(name: str) -> bool:
    return any(letter in "0123456789" for letter in name) and not _NO_HOST.match(name)


def _of_text(text: str) -> Place:
    for form in labels.SAYS_PLACE:
        if match := form.search(text):
            said = match.groupdict()
            rank, gpu = (int(said[name]) if said.get(name) else None for name in ("rank", "gpu"))
            return Place(rank=rank, node=said.get("node") or "", gpu=gpu)
    capacity, bracket = _CAPACITY.search(text), labels.IN_BRACKETS.search(text)
    return Place(rank=int(bracket["rank"]) if bracket else None, gpu=int(capacity["gpu"]) if capacity else None)


def of_path(name: str) -> Place:
    """The place that the name of a log gives: `gpu007/rank_12.log`, `attempt_0/3/stderr.log`, `12.out`."""
    near = "/".join(name.split("/")[-4:])
    last = "/".join(name.split("/")[-2:])
    local = _TORCHRUN.search(near)
    rank = _RANK_IN_NAME.search(last) or (None if local else _BARE_NUMBER.search(last))
    return Place(
        rank=int(rank[1]) if rank else None, local_rank=int(local["local"]) if local else None, node=_node_of_path(last)
    )


def _node_of_path(path: str) -> str:
    """The part of the path that looks like a host name; the last one of several."""
    found = ""
    for token in re.split(r"[/_.=+@,:\s]+", path):
        name, of_host = _KERNEL_LOG.subn("", token)
        if of_host and _NUMBERED.fullmatch(name):
            return name
        if not _NODE_TOKEN.fullmatch(name) or _NO_NODE.match(name):
            continue
        if of_host:
            return name
        if _NODE_NAME.fullmatch(name) and not _MODEL.match(name):
            found = name
    return found
