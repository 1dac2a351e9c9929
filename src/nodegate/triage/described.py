"""What `kubectl describe` and Ray say around a line: the pod, its node, and when a container ended."""

import re

from nodegate.triage.clock import Stamp, find_stamp
from nodegate.triage.place import Place

_NEARBY_BYTES = 1 << 15  # the description of a pod with many containers and volumes
_BELOW_BYTES = 2000
_OBJECT = re.compile(r"^Name: {1,40}(?P<name>[\w.-]{1,253})[ \t\r]{0,8}\n(?P<kind>Namespace|Roles): ", re.MULTILINE)
_NODE = re.compile(r"^Node: {1,40}(?P<node>[A-Za-z0-9][\w.-]{0,253})/", re.MULTILINE)
_RAY_IP = re.compile(r"^\s{1,8}ip: (?P<node>[0-9a-fA-F.:]{3,45})\s{0,4}$", re.MULTILINE)  # of a lost actor
_RAY_CHARACTERS = 600
_FINISHED = re.compile(
    r"(?:\r?\n {2,20}(?:Exit Code|Message|Signal|Started):[^\n]{0,400}){0,5}\r?\n {2,20}Finished: ([^\n]{1,80})"
)


def of_line(chunk: bytes, start: int, end: int, *, now_s: float) -> tuple[Place, Stamp | None]:
    """Whose description the line is in, and when its container ended; an empty place and None where in none."""
    above = chunk[max(0, start - _NEARBY_BYTES) : start].decode("utf-8", "replace")
    below = chunk[end : end + _BELOW_BYTES].decode("utf-8", "replace")
    finished = _FINISHED.match(below)
    return _object(above), find_stamp(finished[1], now_s=now_s) if finished else None


def _object(above: str) -> Place:
    """The pod with its node, or the node, that was described last."""
    found = next(reversed(list(_OBJECT.finditer(above))), None)
    if found is None:
        ray = next(_RAY_IP.finditer(above[-_RAY_CHARACTERS:]), None)
        return Place(node=ray["node"]) if ray else Place()
    if found["kind"] == "Roles":
        return Place(node=found["name"])
    node = _NODE.search(above, found.end())
    return Place(pod=found["name"], node=node["node"] if node else "")
