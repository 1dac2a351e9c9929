"""What is wrong with a job, and where."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from nodegate.job.look import Look
    from nodegate.knowledge.words import Text


class Class(str, Enum):
    """The classes of answers. Of several the first in this order is the cause, what follows from it is a finding."""

    WORKER_LOST = "worker-lost"
    RANK_GONE = "rank-gone"
    THROTTLED = "throttled"
    SHARED_GPU = "shared-gpu"
    CONGESTED = "congested"
    MEMORY = "memory-soon-full"
    HANG = "hang"
    IMBALANCE = "imbalance"
    INPUT = "input-bound"
    COMMUNICATION = "communication-bound"
    HEALTHY = "healthy"
    CANNOT_TELL = "cannot-tell"


@dataclass(frozen=True)
class Place:
    """A guilty part: `gpu` is None for the whole node, `pod` is empty where no label names one."""

    node: str
    gpu: int | None = None
    pod: str = ""


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong. No `where` means the whole job; `since` is UTC seconds, None before the window."""

    kind: Class
    where: tuple[Place, ...] = ()
    since: float | None = None
    why: tuple[Text, ...] = field(default=())


def places(look: Look, rows: Iterable[int]) -> tuple[Place, ...]:
    """GPUs as places: a node of which all GPUs are meant is one place, and the whole job is none."""
    chosen, parts = set(rows), look.seen.parts
    if chosen >= set(look.rows.tolist()):
        return ()
    of_node: dict[str, list[int]] = {}
    for row in look.rows.tolist():
        of_node.setdefault(parts[row].node, []).append(row)
    found: list[Place] = []
    for node, mine in of_node.items():
        guilty = [row for row in mine if row in chosen]
        if len(guilty) == len(mine) > 1:
            pods = {parts[row].pod for row in mine}
            found.append(Place(node, None, pods.pop() if len(pods) == 1 else ""))
        else:
            found += [Place(node, parts[row].gpu, parts[row].pod) for row in guilty]
    return tuple(found)


def node_places(look: Look, nodes: Iterable[str]) -> tuple[Place, ...]:
    """Whole nodes as places; all nodes of a job are none."""
    pods = {part.node: part.pod for part in look.seen.parts}
    chosen = [node for node in dict.fromkeys(part.node for part in look.seen.parts) if node in set(nodes)]
    return () if len(chosen) == len(pods) > 1 else tuple(Place(node, None, pods[node]) for node in chosen)
