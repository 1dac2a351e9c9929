"""A run's nodes are held under load, where the inventory names their scheduler, or lent for all of it by an engine."""

from __future__ import annotations

import math
import threading
import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace

from nodegate.engines.engine import Answer, Reach
from nodegate.engines.registry import ENGINES, engine
from nodegate.errors import Busy, CannotMeasure
from nodegate.node import Node
from nodegate.run.load import AGAIN_BURN_S, MOST_AMONG_NODES, Plan
from nodegate.run.node_facts import FACTS_TIMEOUT_S
from nodegate.scheduler.hold import Holder
from nodegate.transport.call import Request
from nodegate.transport.session import Session

SPARE = 1.5  # of the time that the load is to take, and half an hour: it is given back as soon as the load is over
SPARE_S = 1800.0
PAUSES_S = (1.0, 5.0, 0.0)  # after a try to give back that failed
REFUSED_STEP = "see squeue -w NODE or kubectl describe node, limits, what the login may do; continue with --resume"
LOST_STEP = "look why: scontrol show job, slurm.conf (InactiveLimit), kubectl get events; then continue with --resume"
LENT_SPARE_S = 600.0
NOT_LENT_STEP = "look there why; a file beside it may say another ansible_connection"


def holders(nodes: Iterable[Node]) -> tuple[Holder, ...]:
    """Who holds the nodes under load: their engines, one for each Slurm reservation, one for all allocations."""
    from nodegate.scheduler.slurm import SlurmHold  # noqa: PLC0415 - only a run from a controller holds nodes

    found: dict[str, list[Node]] = {}
    of_engines: dict[str, list[Node]] = {}
    for node in nodes:
        if node.connection.transport in ENGINES:
            of_engines.setdefault(node.connection.transport, []).append(node)
        elif node.settings.hold and node.connection.transport != "replay":
            found.setdefault(node.settings.slurm_reservation, []).append(node)
    engines = [engine(name).holder(members) for name, members in of_engines.items()]
    return (*(each for each in engines if each), *map(SlurmHold.to, found.values()))


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


def is_lent(node: Node) -> bool:
    """Whether an engine lends this node."""
    return node.connection.transport in ENGINES


class Reaches:
    """The ways to those nodes of a run that an engine lends."""

    def __init__(self, plan: Plan) -> None:
        self._plan, self._guard, self._ended = plan, threading.Lock(), threading.Event()
        members: defaultdict[str, list[Node]] = defaultdict(list)
        for node in plan.nodes:
            if is_lent(node):
                members[node.connection.transport].append(node)
        self.nodes = tuple(node for found in members.values() for node in found)
        self._reaches: dict[str, Reach] = {name: engine(name).reach(found) for name, found in members.items()}
        self._already: dict[str, Answer] = {}
        self.notes: tuple[str, ...] = ()

    def begin(self) -> dict[str, CannotMeasure]:
        """Have all nodes lent that are free; why others are not."""
        until = time.time() + SPARE * (load_s(self._plan) + 2 * FACTS_TIMEOUT_S) + LENT_SPARE_S
        refused: dict[str, CannotMeasure] = {}
        with self._guard:
            for name, reach in self._reaches.items():
                if left := reach.left_behind():
                    self.notes += (f"given back what a run that was killed had held: {', '.join(left[:20])}",)
                wanted = [node.name for node in self.nodes if node.connection.transport == name]
                found = reach.hold(wanted, until, ended=self._ended.is_set).refused
                refused |= {
                    node: Busy(f"{name} does not lend the node: {why}", next_step=NOT_LENT_STEP)
                    for node, why in found.items()
                }
        return refused

    def connect(self, node: Node) -> Session:
        """A session with a node that is lent. Raises Unreachable."""
        return self._reaches[node.connection.transport].connect(node)

    def ask_all(self, nodes: Iterable[Node]) -> None:
        """Ask these nodes for their facts at once, those in one call that are asked the same: see `already`."""
        from nodegate.probe.collect import request  # noqa: PLC0415 - only where a node is asked

        alike: defaultdict[tuple[object, ...], list[Node]] = defaultdict(list)
        asked: dict[tuple[object, ...], Request] = {}
        for node in nodes:
            how = node.connection
            one = request(node, timeout_s=FACTS_TIMEOUT_S, as_root=how.become)
            key: tuple[object, ...] = (how.transport, how.lease_s, one.argv, one.stdin, one.as_root)
            alike[key].append(node)
            asked.setdefault(key, one)
        for key, members in alike.items():
            if len(members) > 1 and not self._ended.is_set():
                self._already |= self._reaches[members[0].connection.transport].at_once(asked[key], members)

    def already(self, node: Node) -> Answer | None:
        """What a node has answered to `ask_all`, once; None: it is asked by itself."""
        return self._already.pop(node.name, None)

    def end(self) -> None:
        """Give all back. Harmless twice, also from two threads."""
        self._ended.set()
        with self._guard:
            for name, reach in self._reaches.items():
                if trouble := reach.give_back():
                    self.notes += (f"{name}: the nodes may be held until the end of their time: {trouble}",)
