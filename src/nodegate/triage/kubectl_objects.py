"""Objects that `kubectl -o json` or `-o yaml` printed, written as the lines of its tables: those a log is read by."""

import json
import re
from collections.abc import Iterator

import yaml

MOST_BYTES = 32 << 20  # three thousand pods
_OBJECTS = re.compile(
    r"\A\s{0,20}(?:\{[^{}]{0,200}\"(?:apiVersion|kind|items)\":|(?:---\s{1,4})?(?:apiVersion|kind|items):)"
)
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_STARTS = re.compile(r"^(?: {8}\{| {0,2}- apiVersion:)", re.MULTILINE)
_WELL = ("Completed", "PodInitializing", "ContainerCreating")  # for how long, the object does not say
_NO_SPACE = re.compile(r"\S")


def looks_like(head: str) -> bool:
    """Whether a log begins as objects of Kubernetes do."""
    return _OBJECTS.match(head) is not None and "apiVersion" in head


def parsed(text: str) -> list[object]:
    """The objects of one or several documents, lists of them opened.

    Raises:
        ValueError: it is neither JSON nor YAML.
    """
    found: list[object] = []
    try:
        if not text.lstrip().startswith("{"):
            documents = list(yaml.load_all(text, _LOADER))
        else:  # JSON objects one after the other, as `kubectl get -w` prints them
            documents, decoder, at = [], json.JSONDecoder(), _after_space(text, 0)
            while at < len(text):
                document, at = decoder.raw_decode(text, at)
                documents.append(document)
                at = _after_space(text, at)
    except (RecursionError, yaml.YAMLError) as broken:
        raise ValueError(str(broken)[:200]) from None
    for document in documents:
        items = document.get("items", [document]) if isinstance(document, dict) else []
        found += items if isinstance(items, list) else []
    return found


def _after_space(text: str, at: int) -> int:
    found = _NO_SPACE.search(text, at)
    return found.start() if found else len(text)


def as_lines(text: str) -> str | None:
    """The objects as lines of tables, each where its object begins in the text; None if they cannot be read."""
    try:
        objects = parsed(text)
    except ValueError:
        return None
    starts = [text.count("\n", 0, match.start()) for match in _STARTS.finditer(text)] if len(text) < MOST_BYTES else []
    lines: list[str] = []
    places = starts if len(starts) == len(objects) else [0] * len(objects)
    for place, each in zip(places, objects, strict=True):
        lines += [""] * (place - len(lines))
        one = each if isinstance(each, dict) else {}
        read = {"Event": _event, "Pod": _pod, "Node": _node}.get(text_at(one, "kind"))
        lines += [" ".join(row.split("\n")) for row in read(one)] if read else []
    return "\n".join([*lines, ""])


def _event(one: dict[str, object]) -> Iterator[str]:
    about = inside(one, "involvedObject") or inside(one, "regarding")
    times = (one, "lastTimestamp"), (one, "deprecatedLastTimestamp"), (one, "eventTime"), (one, "firstTimestamp")
    when = next((said for of, key in times if (said := text_at(of, key))), "")
    host = text_at(inside(one, "source") or inside(one, "deprecatedSource"), "host")
    by = f" kubelet, {host}" if host else ""
    said = text_at(one, "message") or text_at(one, "note")
    named = f"{text_at(about, 'kind').lower()}/{text_at(about, 'name')}"
    yield f"{when} {text_at(one, 'type')} {text_at(one, 'reason')} {named}{by} {said[:1000]}".lstrip()


def _pod(one: dict[str, object]) -> Iterator[str]:
    name, status = text_at(inside(one, "metadata"), "name"), inside(one, "status")
    node, own = text_at(inside(one, "spec"), "nodeName"), _list(status, "containerStatuses")
    if node:
        yield f"pod={name} node={node}"
    ready = f"{sum(each.get('ready') is True for each in own)}/{len(own)}"
    restarts = sum(count for each in own if isinstance(count := each.get("restartCount"), int))
    for state, when in _states(status):
        yield f"{when} {name}   {ready}   {state}   {restarts}   -   <none>   {node or '<none>'}".lstrip()
    for each in _list(status, "conditions"):
        if text_at(each, "reason") == "Unschedulable":
            yield f"{text_at(each, 'lastTransitionTime')} FailedScheduling pod/{name} {text_at(each, 'message')[:1000]}"


def _states(status: dict[str, object]) -> Iterator[tuple[str, str]]:
    """What the pod and its containers are in, with the time of an end; what ended a container before it waits."""
    if reason := text_at(status, "reason"):
        yield reason, ""
    for each in (*_list(status, "initContainerStatuses"), *_list(status, "containerStatuses")):
        state = inside(each, "state")
        waiting, ended = text_at(inside(state, "waiting"), "reason"), inside(state, "terminated")
        if waiting and waiting not in _WELL:
            yield waiting, ""
            ended = inside(inside(each, "lastState"), "terminated")
        if (reason := text_at(ended, "reason")) and reason not in _WELL:
            yield reason, text_at(ended, "finishedAt")
    yield text_at(status, "phase"), ""


def _node(one: dict[str, object]) -> Iterator[str]:
    name, held = text_at(inside(one, "metadata"), "name"), inside(one, "spec").get("unschedulable") is True
    for each in _list(inside(one, "status"), "conditions"):
        if text_at(each, "type") == "Ready":
            well = text_at(each, "status") == "True"
            state = f"{'Ready' if well else 'NotReady'}{',SchedulingDisabled' if held else ''}"
            when = "" if well else f"{text_at(each, 'lastTransitionTime')} "
            yield f"{when}{name}   {state}   <none>   0s   v1"


def inside(one: dict[str, object], key: str) -> dict[str, object]:
    """An object in an object; empty if it is none."""
    inner = one.get(key)
    return inner if isinstance(inner, dict) else {}


def _list(one: dict[str, object], key: str) -> list[dict[str, object]]:
    inner = one.get(key)
    return [each for each in inner if isinstance(each, dict)] if isinstance(inner, list) else []


def text_at(one: dict[str, object], key: str) -> str:
    """A text of an object; a time, which YAML reads as one, as RFC 3339 writes it."""
    inner = one.get(key)
    if hasattr(inner, "isoformat"):
        return str(inner.isoformat()).replace("+00:00", "Z")
    return inner if isinstance(inner, str) else ""
