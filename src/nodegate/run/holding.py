"""A run's nodes are held while they are under load, where the inventory names the scheduler that hands them out."""

from __future__ import annotations

import math
import threading
import time
from typing import TYPE_CHECKING

from nodegate.errors import Busy
from nodegate.run.load import MOST_AMONG_NODES

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from nodegate.node import Node
    from nodegate.run.plan import Plan
    from nodegate.scheduler.hold import Holder

SPARE = 2.0  # of the time that the load is to take, and half an hour: it is given back as soon as the load is over
SPARE_S = 1800.0


def holders(nodes: Iterable[Node]) -> tuple[Holder, ...]:
    """Who holds the nodes that the inventory wants held: one for each reservation, one for all allocations."""
    from nodegate.scheduler.slurm import SlurmHold  # noqa: PLC0415 - only a run from a controller holds nodes

    found: dict[str, dict[str, Node]] = {}
    for node in nodes:
        if node.settings.hold and node.connection.transport != "replay":
            found.setdefault(node.settings.slurm_reservation, {})[node.name] = node
    return tuple(
        SlurmHold(
            {name: node.settings.slurm_name or name.partition(".")[0] for name, node in members.items()},
            {name: {key: str(value) for key, value in node.settings.srun.items()} for name, node in members.items()},
            reservation,
        )
        for reservation, members in found.items()
    )


class Holding:
    """What a run holds: from `begin` on, until `give_back` or until its end comes."""

    def __init__(self, plan: Plan) -> None:
        self._plan, self._guard = plan, threading.Lock()
        self._held: list[Holder] = []
        self.until = math.inf  # in seconds since 1970; without a holder jobs may start at any time, as on any node
        self.notes: list[str] = []

    def begin(self, nodes: Sequence[str]) -> dict[str, Busy]:
        """Hold these nodes; returns those that cannot be held, and why."""
        if not self._plan.measurements or not self._plan.holders:
            return {}
        self.until = time.time() + _needed_s(self._plan)
        refused: dict[str, str] = {}
        for holder in self._plan.holders:
            with self._guard:
                self._held.append(holder)
            if left := holder.left_behind():
                self.notes.append(f"given back what a run that was killed had held: {', '.join(left[:20])}")
            refused |= holder.hold([node for node in nodes if node in holder.names], self.until).refused
        step = "wait until its job ends, or give the login the right to hold it; then continue with --resume"
        return {node: Busy(f"the node cannot be held: {why}", next_step=step) for node, why in refused.items()}

    def give_back(self) -> None:
        """Give everything back; harmless twice, also from two threads."""
        with self._guard:
            while self._held:
                if why := self._held.pop().give_back():
                    until = time.strftime("%H:%M UTC", time.gmtime(self.until))
                    self.notes.append(f"nodes are held until {until}, or until they are given back: {why}")


def _needed_s(plan: Plan) -> float:
    once = 0.0
    for measurement in plan.measurements:
        looks = plan.durations.looks[-1] if measurement.alone else MOST_AMONG_NODES
        once += looks * measurement.takes_s(plan.durations) if measurement.takes_s else 0.0
    return SPARE * once + SPARE_S
