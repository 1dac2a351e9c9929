"""What a campaign measures on which nodes, and how it reaches them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from nodegate.measure.registry import FACTS_AFTER

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from nodegate.measure.durations import Durations
    from nodegate.measure.measurement import Measurement
    from nodegate.node import Node
    from nodegate.scheduler.hold import Holder
    from nodegate.toolbox.toolbox import Toolbox
    from nodegate.transport.session import Session

NODES_AT_ONCE = 64


@dataclass(frozen=True)
class Plan:
    """The nodes to measure and how.

    `take_lock`: hold the node's lock while it is measured, so that two runs never use a node at once.
    `keep`: evidence that is already in the run folder is used (a resumed run).
    `holders` keep jobs off the nodes that they know while these are under load.
    `judged_here`: the reader of `arrivals` judges, and the load waits for that; else the gate judges alone.
    """

    nodes: Sequence[Node]
    durations: Durations
    measurements: tuple[Measurement, ...] = ()
    facts_after: bool = False
    take_lock: bool = False
    keep: bool = False
    judged_here: bool = True
    nodes_at_once: int = NODES_AT_ONCE
    facts_s: float | None = None  # --facts-within
    holders: Sequence[Holder] = ()

    @property
    def under_load(self) -> bool:
        """Whether more than facts is requested."""
        return bool(self.measurements) or self.facts_after

    @property
    def names(self) -> tuple[str, ...]:
        """The evidence that a node must have at the end, without facts."""
        return (*(each.name for each in self.measurements), *((FACTS_AFTER,) if self.facts_after else ()))


@dataclass(frozen=True)
class Connections:
    """How the campaign reaches nodes and finds their tools."""

    connect: Callable[[Node], Session]
    toolbox: Callable[[Session], Toolbox]
