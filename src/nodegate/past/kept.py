"""What a run leaves to the fleet's record: its nodes, what was found on them, where their parts were."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from nodegate.past.keys import Keys, Placed

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from nodegate.metric import Metric
    from nodegate.past.event import Event
    from nodegate.records.cause import Cause
    from nodegate.records.run import NodeReport, Run


@dataclass(frozen=True)
class KeptNode:
    """A node of a run.

    `sound`: whether its numbers are what later runs are compared with. `placed` are its parts, `traits` its versions,
    firmware and models by name, `events` what its kernel log has.
    """

    report: NodeReport
    sound: bool
    causes: tuple[Cause, ...] = ()
    placed: tuple[Placed, ...] = ()
    traits: Mapping[str, str] = field(default_factory=dict)
    events: tuple[Event, ...] = ()

    @property
    def name(self) -> str:
        """Its name in the inventory of that run."""
        return self.report.node


@dataclass(frozen=True)
class KeptRun:
    """A run. `metrics` gives what was measured on a node, one node at a time, which keeps few of them in memory."""

    run: Run
    folder: str
    nodes: Sequence[KeptNode]
    shared: frozenset[str]
    metrics: Callable[[str], Sequence[Metric]]

    def keys(self, node: KeptNode) -> Keys:
        """By what the parts of one of its nodes are known."""
        return Keys(node.name, node.placed, self.shared)
