"""Claims that a site knows cannot be proven on a node, signed for in the inventory: `nodegate_gaps`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from nodegate.claims.table import claims
from nodegate.files.strict_yaml import did_you_mean
from nodegate.inventory.hostlist import fold
from nodegate.judge.waivers import Waiver
from nodegate.node import Node

GAPS = "gaps"  # without the prefix, as a node has it


def signed_gaps(nodes: Iterable[Node]) -> tuple[Waiver, ...]:
    """The gaps of all nodes, as waivers of claims: one for all nodes that have the same.

    Raises:
        UsageError: an unknown claim, or a gap without reason, owner or day, with the file and line that set it.
    """
    known = [claim.name for claim in claims()]
    found: dict[Waiver, set[str]] = {}
    for node in nodes:
        for gap in _gaps(node, known):
            found.setdefault(gap, set()).add(node.name)
    return tuple(replace(gap, node=fold(names), nodes=frozenset(names)) for gap, names in found.items())


def _gaps(node: Node, known: Sequence[str]) -> Iterator[Waiver]:
    file, line = node.place(GAPS)
    for claim, gap in node.settings.gaps.items():
        if claim not in known:
            hint = did_you_mean(claim, known)
            raise node.wrong(f"nodegate_gaps: unknown claim {claim[:60]!r}", hint, variable=GAPS)
        yield Waiver("", "", gap.reason, gap.owner, gap.expires, claim=claim, file=file, line=line)
