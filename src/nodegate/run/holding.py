"""A run's nodes are held while they are under load, where the inventory names the scheduler that hands them out."""

from __future__ import annotations

import math
import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING

from nodegate.engines.registry import ENGINES, engine
from nodegate.errors import Busy, CannotMeasure
from nodegate.run.load import AGAIN_BURN_S, MOST_AMONG_NODES

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from nodegate.node import Node
    from nodegate.run.plan import Plan
    from nodegate.scheduler.hold import Holder

SPARE = 1.5  # of the time that the load is to take, and half an hour: it is given back as soon as the load is over
SPARE_S = 1800.0
PAUSES_S = (1.0, 5.0, 0.0)  # after a try to give back that failed
REFUSED_STEP = "see squeue -w NODE or kubectl describe node, limits, what the login may do; continue with --resume"
LOST_STEP = "look why: scontrol show job, slurm.conf (InactiveLimit), kubectl get events; then continue with --resume"


def holders(nodes: Iterable[Node]) -> tuple[Holder, ...]:
    """Who holds the nodes under load: their engines, one for each Slurm reservation, one for all allocations."""
    from nodegate.scheduler.jobs import slurm_name  # noqa: PLC0415 - only a run from a controller holds nodes
    from nodegate.scheduler.slurm import SlurmHold  # noqa: PLC0415

    found: dict[str, dict[str, Node]] = {}
    of_engines: dict[str, list[Node]] = {}
    for node in nodes:
        if node.connection.transport in ENGINES:
            of_engines.setdefault(node.connection.transport, []).append(node)
        elif node.settings.hold and node.connection.transport != "replay":
            found.setdefault(node.settings.slurm_reservation, {})[node.name] = node
    engines = [engine(name).holder(members) for name, members in of_engines.items()]
    return tuple(each for each in engines if each) + tuple(
        SlurmHold(
            {name: slurm_name(node) for name, node in members.items()},
            {name: {key: str(value) for key, value in node.settings.srun.items()} for name, node in members.items()},
            reservation,
        )
        for reservation, members in found.items()
    )


class Holding:
    """What a run holds: from `begin` on, until `give_back` or until its end comes."""

    def __init__(self, plan: Plan) -> None:
        self._plan, self._guard, self._ended = plan, threading.Lock(), threading.Event()
        self._held: list[Holder] = []
        self._until = math.inf  # in seconds since 1970
        self._left: tuple[str, ...] = ()
        self._trouble = ""

    @property
    def notes(self) -> tuple[str, ...]:
        """What the user should know."""
        found = [f"given back what a run that was killed had held: {', '.join(self._left[:20])}"] if self._left else []
        if self._trouble:
            until = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(self._until))
            found.append(f"nodes are held until {until}, or until they are given back: {self._trouble}")
        return tuple(found)

    def begin(self, nodes: Sequence[str]) -> dict[str, Busy]:
        """Hold these nodes; returns those that cannot be held, and why."""
        if not self._plan.measurements or not self._plan.holders:
            return {}
        refused: dict[str, str] = {}
        with self._guard:  # so that who ends the run waits, and gives back all of it
            self._until = time.time() + SPARE * load_s(self._plan) + SPARE_S
            for holder in self._plan.holders:
                if self._ended.is_set():
                    break
                self._held.append(holder)
                self._left += holder.left_behind()
                wanted = [node for node in nodes if node in holder.names]
                refused |= holder.hold(wanted, self._until, ended=self._ended.is_set).refused
        return {node: Busy(f"the node cannot be held: {why}", next_step=REFUSED_STEP) for node, why in refused.items()}

    def lost(self) -> dict[str, CannotMeasure]:
        """The nodes that are held no more before they are given back: a job may be on them."""
        with self._guard:
            found = [node for holder in self._held for node in holder.lost()]
        why = "the scheduler has ended the hold of the node before its load was over: a job may be on it"
        return {node: CannotMeasure(why, next_step=LOST_STEP) for node in found}

    def give_back(self) -> None:
        """Give everything back; harmless twice, also from two threads."""
        self._ended.set()
        with self._guard:
            for pause_s in PAUSES_S:
                failed = [(holder, why) for holder in self._held if (why := holder.give_back())]
                self._held, self._trouble = [holder for holder, _ in failed], "; ".join(why for _, why in failed)
                if not failed:
                    return
                time.sleep(pause_s)


def load_s(plan: Plan) -> float:
    """What the load takes at most, with all looks: those after the first burn for a short time."""
    again = replace(plan.durations, burn_s=min(plan.durations.burn_s, AGAIN_BURN_S))
    needed = 0.0
    for takes_s, alone in ((each.takes_s, each.alone) for each in plan.measurements):
        looks = plan.durations.looks[-1] if alone else MOST_AMONG_NODES
        needed += takes_s(plan.durations) + (looks - 1) * takes_s(again) if takes_s else 0.0
    return needed
