"""SSH host keys that a run took without knowing them: whoever answered with one is believed to be the node."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from nodegate.inventory.hostlist import fold
from nodegate.text import counted, visible

NEW, UNVERIFIED = "new", "not verified"
_MOST_CHARACTERS = 300
_SAID = {
    NEW: "unknown, and accepted at first use",
    UNVERIFIED: "not verified, as host key checking is off",
}
_STEP = "compare them with the nodes' own (ssh-keygen -lf); the fingerprints are in evidence/NODE/facts.json"


@dataclass(frozen=True, slots=True)
class TakenKey:
    """A key that was accepted without being known: its server, its fingerprint, and how it was taken.

    `host` is the node as known_hosts would name it, or the jump host before it. The ssh program tells no fingerprint.
    """

    host: str
    how: str
    fingerprint: str = ""


def from_json(value: object) -> tuple[TakenKey, ...]:
    """As evidence holds them, an object each; what is no such thing is left out."""
    listed = value if isinstance(value, list) else []
    found = [each for each in listed if isinstance(each, dict) and each.get("how") in _SAID]
    return tuple(TakenKey(_text(each, "host"), each["how"], _text(each, "fingerprint")) for each in found)


def notes(taken: Mapping[str, tuple[TakenKey, ...]]) -> Iterator[str]:
    """What is said of the keys that were taken, for the keys of each node: nodes of which the same is true together."""
    nodes: defaultdict[str, set[str]] = defaultdict(set)
    for node, keys in taken.items():
        for key in keys:
            nodes[key.how].add(node)
    for how, names in sorted(nodes.items()):
        said = f"host keys on the way to {counted(len(names), 'node')} were {_SAID[how]}: {fold(names)}"
        yield f"{said}; {_STEP}"


def _text(value: Mapping[str, object], name: str) -> str:
    return visible(str(value.get(name, "")))[:_MOST_CHARACTERS]
