"""Before a run: which claims can be proven of a node at all, and what is missing for the others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from nodegate.claims.claim import Claim
    from nodegate.finding import AnyLimit


@dataclass(frozen=True)
class Provable:
    """A claim, the limits that can prove it, and what keeps it from being proven; nothing missing: it can be."""

    claim: Claim
    limits: tuple[tuple[str, AnyLimit], ...]
    missing: tuple[str, ...]


def provable(
    claims: Iterable[Claim],
    limit_of: Callable[[str], AnyLimit | None],
    *,
    lacking: Collection[str] = (),
    nodes: int | None = None,
) -> list[Provable]:
    """What can be proven.

    Args:
        claims: those of the profile.
        limit_of: the limit of a key, None where there is none.
        lacking: programs that the node lacks.
        nodes: how many nodes the run has; None where that does not matter.
    """
    found = []
    for claim in claims:
        limits = [(key, limit_of(key)) for _, keys in claim.limits for key in keys]
        missing = [
            f"no limit {' or '.join(keys)}" for _, keys in claim.limits if all(limit_of(key) is None for key in keys)
        ]
        missing += [f"no {tool}" for tool in claim.tools if tool in lacking]
        if nodes is not None and nodes < claim.nodes:
            missing.append(f"{claim.nodes} nodes in one run, of {nodes}")
        there = tuple((key, limit) for key, limit in limits if limit is not None)
        found.append(Provable(claim, there, tuple(missing)))
    return found
