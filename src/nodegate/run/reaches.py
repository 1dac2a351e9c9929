"""The engines of a run: they lend their nodes for all of it, and read the facts of many nodes at once."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from typing import TYPE_CHECKING

from nodegate.engines.registry import ENGINES, engine
from nodegate.errors import Busy, CannotMeasure
from nodegate.run.holding import SPARE, load_s
from nodegate.run.node_facts import FACTS_TIMEOUT_S
from nodegate.transport.options import Options

if TYPE_CHECKING:
    from collections.abc import Iterable

    from nodegate.engines.engine import Answer, Reach
    from nodegate.node import Node
    from nodegate.run.plan import Plan
    from nodegate.transport.call import Request
    from nodegate.transport.session import Session

SPARE_S = 600.0
REFUSED_STEP = "look there why; a file beside it may say another ansible_connection"


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
        limits_s = self._plan.facts_s or FACTS_TIMEOUT_S
        until = time.time() + SPARE * (load_s(self._plan) + 2 * limits_s) + SPARE_S
        refused: dict[str, CannotMeasure] = {}
        with self._guard:
            for name, reach in self._reaches.items():
                if left := reach.left_behind():
                    self.notes += (f"given back what a run that was killed had held: {', '.join(left[:20])}",)
                wanted = [node.name for node in self.nodes if node.connection.transport == name]
                found = reach.hold(wanted, until, ended=self._ended.is_set).refused
                refused |= {
                    node: Busy(f"{name} does not lend the node: {why}", next_step=REFUSED_STEP)
                    for node, why in found.items()
                }
        return refused

    def connect(self, node: Node) -> Session:
        """A session with a node that is lent. Raises Unreachable."""
        return self._reaches[node.connection.transport].connect(node, answer_s=self._plan.facts_s or Options.answer_s)

    def ask_all(self, nodes: Iterable[Node]) -> None:
        """Ask these nodes for their facts at once, those in one call that are asked the same: see `already`."""
        from nodegate.probe.collect import request  # noqa: PLC0415 - only where a node is asked

        alike: defaultdict[tuple[object, ...], list[Node]] = defaultdict(list)
        asked: dict[tuple[object, ...], Request] = {}
        for node in nodes:
            how = node.connection
            one = request(node, timeout_s=self._plan.facts_s or FACTS_TIMEOUT_S, as_root=how.become)
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
