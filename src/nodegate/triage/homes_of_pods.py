"""On which node each pod ran, as far as the logs say: a word in a pod's first lines, a table of kubectl, its events."""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from nodegate.errors import UsageError
from nodegate.files.text_file import read_text
from nodegate.triage import kubectl_objects, place
from nodegate.triage.events import Names
from nodegate.triage.kubectl_objects import inside, text_at
from nodegate.triage.log import Log
from nodegate.triage.writers import Writer

_NAME = r"[A-Za-z](?:[\w-]{0,80}[0-9][\w-]{0,20})(?:\.[\w.-]{1,80})?"
_SAYS = re.compile(
    r"\b(?:NODE_?NAME|node[_ ]?name|MY_NODE_NAME|K8S_NODE|node|host|on)\b"
    rf"[ \t]{{0,3}}[:=]?[ \t]{{0,3}}[\"']?(?P<node>{_NAME})"
)
# What can follow "on" without being a node: models of GPUs, versions of programs.
_NO_NODE = re.compile(
    r"(?:[ABHVLT][0-9]{2,3}|GB[0-9]{3})(?:-(?:SXM|PCIE|NVL)\w{0,4})?(?:-[0-9]{1,3}GB)?"
    r"|(?:cuda|python|torch|pytorch|ubuntu|nccl|rank|port|step|epoch|tp|pp|dp|gpu|gpus|eth|mlx5_|ib)[0-9._]*",
    re.IGNORECASE,
)
_POD_ON = re.compile(
    r"\bpod[=: ]{1,3}(?P<pod>[a-z0-9][\w.-]{0,120})[ ,;]{1,3}"
    rf"(?:on node|on|(?:NODE_NAME|node)[=: ]?)[=: ]{{0,2}}(?P<node>{_NAME})"
)
_WORD = re.compile(r"[\w.-]{2,120}")
_OBJECTS = re.compile(r"\A\s{0,20}\{|(?m:^(?:apiVersion|kind):)")
_MOST_BYTES = 256 << 20  # a thousand pods are 10 MB of YAML


def learn(logs: Iterable[Log], names: Names) -> None:
    """Fill `names.home` and `names.pods`, then put the nodes in the place of the pods."""
    logs = list(logs)
    nodes = {node for log in logs if log.kernel for node in ({*log.nodes, log.place.node}) if node}
    jobs = [log for log in logs if not log.kernel]
    for writer in (writer for log in jobs for writer in log.writers.by_name.values()):
        said = (match for text in writer.hello if (match := _POD_ON.search(text)))
        for pod, node in (*_table(writer.hello), *((each["pod"], each["node"].rstrip(".-,")) for each in said)):
            names.pods.add(pod)
            names.home.setdefault(pod, node)
    for log in jobs:
        for writer in log.writers.by_name.values():
            if pod := _pod(writer, log, nodes):
                names.pods.add(pod)
                if node := _said(writer, nodes, pod):
                    names.home.setdefault(pod, node)
            elif not writer.name and not log.nodes and not log.place.node and (node := _said(writer, nodes, "")):
                log.nodes.add(node)
    names.settle()


def read_map(path: Path) -> dict[str, str]:
    """Pod and node of each row of a file: `POD,NODE`, or what `kubectl get pods -o wide`, yaml or json printed.

    Raises:
        UsageError: it cannot be read, or names no pod with its node.
    """
    text = read_text(path, max_bytes=_MOST_BYTES)
    found = dict(_objects(text, path) if _OBJECTS.search(text) else _rows(text.splitlines()))
    if not found:
        raise UsageError("names no pod and node", file=str(path), hint="write POD,NODE a line")
    return found


def _rows(lines: list[str]) -> Iterator[tuple[str, str]]:
    """Rows of `kubectl get pods -o wide`; where there is none, `POD,NODE` a line."""
    if any(place.POD_ROW.match(line) for line in lines):
        return _table(lines)
    cells = ((*(cell.strip() for cell in line.split(",")), "", "")[:2] for line in lines)
    return ((pod, node) for pod, node in cells if pod and node)


def _objects(text: str, path: Path) -> Iterator[tuple[str, str]]:
    """Pods and their nodes of Kubernetes objects, one or a list of them, one or several documents."""
    try:
        objects = kubectl_objects.parsed(text)
    except ValueError as broken:
        raise UsageError(f"is neither JSON nor YAML of kubectl: {str(broken)[:200]}", file=str(path)) from None
    pods = [one for one in objects if isinstance(one, dict) and one.get("kind", "Pod") == "Pod"]
    found = ((text_at(inside(one, "metadata"), "name"), text_at(inside(one, "spec"), "nodeName")) for one in pods)
    yield from ((pod, node) for pod, node in found if pod and node)


def _pod(writer: Writer, log: Log, nodes: set[str]) -> str:
    """The pod that this writer is; "" for a node, or for an unknown writer."""
    if writer.place.pod:
        return str(writer.place.pod)
    name = writer.name or writer.place.node or log.place.node
    said_so = re.compile(rf"\bpod[=:/ ] ?{re.escape(name)}\b").search
    is_pod = place.POD_NAME.search(name) or any(map(said_so, writer.hello))
    return name if name and name not in nodes and is_pod else ""


def _said(writer: Writer, nodes: set[str], pod: str) -> str:
    """The node that the pod's first lines name: one whose kernel log was given, or what follows a word like node."""
    words = (str(word).strip(".-") for text in writer.hello for word in _WORD.findall(text))
    if known := next((word for word in words if word in nodes and word != pod), ""):
        return known
    named = (match["node"].rstrip(".-,") for text in writer.hello for match in _SAYS.finditer(text))
    return next(
        (name for name in named if name != pod and not place.POD_NAME.search(name) and not _NO_NODE.fullmatch(name)), ""
    )


def _table(lines: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Pod and node of each row of `kubectl get pods -o wide`."""
    rows = (match for line in lines if (match := place.POD_ROW.match(line)))
    yield from ((row["pod"], row["node"]) for row in rows if row["node"])
