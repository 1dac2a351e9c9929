"""Claims that a site knows cannot be proven on a node, signed for in the inventory: `nodegate_gaps`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from nodegate.claims.table import claims
from nodegate.files.strict_yaml import did_you_mean
from nodegate.inventory.hostlist import fold
from nodegate.judge.waivers import Waiver, day

if TYPE_CHECKING:
    from collections.abc import Iterable

    from nodegate.errors import UsageError
    from nodegate.node import Node

VARIABLE = "nodegate_gaps"
GAPS = "gaps"  # without the prefix, as a node has it
_WORDS = ("reason", "owner", "expires")
_EXAMPLE = "for example {rails_gpu_memory: {reason: ticket 4711, owner: lee, expires: 2026-12-31}}"


def signed_gaps(nodes: Iterable[Node]) -> tuple[Waiver, ...]:
    """The gaps of all nodes, as waivers of claims: one for all nodes that have the same.

    Raises:
        UsageError: an unknown claim, or a gap without reason, owner or day, with the file and line that set it.
    """
    found: dict[Waiver, set[str]] = {}
    for node in nodes:
        for gap in _gaps(node):
            found.setdefault(gap, set()).add(node.name)
    return tuple(replace(gap, node=fold(names), nodes=frozenset(names)) for gap, names in found.items())


def _gaps(node: Node) -> Iterable[Waiver]:
    known = [claim.name for claim in claims()]
    for claim, entry in node.settings.gaps.items():
        if claim not in known:
            raise _wrong(node, f"{VARIABLE}: unknown claim {claim[:60]!r}", did_you_mean(claim, known))
        yield _gap(node, claim, entry)


def _gap(node: Node, claim: str, entry: object) -> Waiver:
    if not isinstance(entry, dict):
        raise _wrong(node, f"{VARIABLE}: {claim} is not a mapping with {', '.join(_WORDS)}", _EXAMPLE)
    odd = next((str(word) for word in entry if word not in _WORDS), None)
    if odd is not None:
        raise _wrong(node, f"{VARIABLE}: {claim}: unknown word {odd[:60]!r}", did_you_mean(odd, _WORDS))
    for word in _WORDS:
        if not isinstance(entry.get(word), str) or not entry[word].strip():
            raise _wrong(node, f"{VARIABLE}: {claim} has no {word}", "every gap that is signed for needs one")
    expires = day(entry["expires"])
    if expires is None:
        message = f"{VARIABLE}: {claim}: expires must be a day, not {entry['expires'][:60]!r}"
        raise _wrong(node, message, "write it as 2026-12-31")
    file, line = node.place(GAPS)
    return Waiver("", "", entry["reason"], entry["owner"], expires, claim=claim, file=file, line=line)


def _wrong(node: Node, message: str, advice: str) -> UsageError:
    return node.wrong(message, advice, variable=GAPS)
