"""Before a run: which claims can be proven of a node at all, and what is missing for the others."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from nodegate.baseline.baseline import Baseline
from nodegate.metric import Metric
from nodegate.numbers.limits import of_platform
from nodegate.records.claim import Claim
from nodegate.records.finding import AnyLimit


@dataclass(frozen=True)
class Provable:
    """A claim, the limits that can prove it, and what keeps it from being proven; nothing missing: it can be."""

    claim: Claim
    limits: tuple[tuple[str, AnyLimit], ...]
    missing: tuple[str, ...]


def provable(
    claims: Iterable[Claim], baseline: Baseline, *, lacking: Collection[str] = (), nodes: int | None = None
) -> list[Provable]:
    """What can be proven.

    Args:
        claims: those of the profile.
        baseline: the limits of the node.
        lacking: programs that the node lacks.
        nodes: how many nodes the run has; None where that does not matter.
    """
    found = []
    for claim in claims:
        limits: dict[str, AnyLimit | None] = {}
        for key in (key for _, keys in claim.limits for key in keys):
            stored, entry = baseline.find(key), baseline.entry(key)
            if stored is None:  # the share of its peak that a good device reaches; None where neither is
                stored = of_platform(Metric(key, (0.0,), entry.unit if entry else "GB/s"), baseline).least
            limits[key] = stored
        missing = [
            f"no limit {' or '.join(keys)}"
            for _, keys in claim.limits
            if not any(limit is not None and limit.kind.proves for limit in map(limits.get, keys))
        ]
        missing += [f"no {tool}" for tool in claim.tools if tool in lacking]
        if nodes is not None and nodes < claim.nodes:
            missing.append(f"{claim.nodes} nodes in one run, of {nodes}")
        there = tuple((key, limit) for key, limit in limits.items() if limit is not None)
        found.append(Provable(claim, there, tuple(missing)))
    return found
