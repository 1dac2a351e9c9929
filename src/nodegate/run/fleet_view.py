"""What a node of a run is compared with: the other nodes, what they measured, and its own past."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from typing import cast

from nodegate.errors import CannotMeasure, NotApplicable, NotJudged
from nodegate.judge.characteristics import traits_of
from nodegate.judge.context import Context
from nodegate.judge.fleet import Fleet, Past
from nodegate.measure.registry import MEASURED, wanted
from nodegate.metric import Metric
from nodegate.node import Node
from nodegate.numbers.peers import Earlier, NodePeers, Peers
from nodegate.packed import pack, unpack
from nodegate.past.keys import Keys
from nodegate.past.lemon import Told
from nodegate.past.record import FleetRecord
from nodegate.past.series import key_of
from nodegate.records import part
from nodegate.run.contexts import Contexts
from nodegate.run.register import Register


class FleetView:
    """The nodes of a run beside each other; each question is answered once, when all nodes are in.

    `others` are names of the inventory that this run does not measure. `record` has what the nodes measured in
    runs before `before_epoch_s`.
    """

    def __init__(
        self,
        nodes: Mapping[str, Node],
        *,
        register: Register,
        contexts: Contexts,
        others: Collection[str] = (),
        record: FleetRecord | None = None,
        before_epoch_s: float = math.inf,
    ) -> None:
        self._nodes, self._register, self._contexts, self._others = nodes, register, contexts, others
        self._record, self._before_epoch_s = record, before_epoch_s
        self._fleet: Fleet | None = None
        self._peers: Peers | None = None
        self._metrics: dict[str, bytes] = {}
        self._shared: frozenset[str] | None = None
        self._earlier: dict[tuple[str, frozenset[str]], Earlier] = {}

    def fleet(self) -> Fleet:
        """The characteristics of every node that this run measures, for comparison."""
        if self._fleet is None:
            for name in self._register.asked:
                self._contexts.summary(name)
            summaries = self._contexts.summaries
            known = {name: (each.platform, each.characteristics) for name, each in summaries.items()}
            identities = {name: each.identity for name, each in summaries.items()}
            racks = {name: node.rack for name, node in self._nodes.items() if node.rack}
            self._fleet = Fleet(known, identities, self._others, racks, self.past)
        return self._fleet

    def past(self, node: str) -> Past | None:
        """What fails again of a node and its boards, wherever they were; None where the record has nothing of it."""
        told, keys = self._told, self.keys(node)
        days = told.days.get(keys.machine, 0) if told else 0
        return Past(days, told.of(keys), keys.machine not in told.not_compared) if told and days else None

    @cached_property
    def _told(self) -> Told | None:
        """What the record says of the fleet; a second of reading for 1,250 nodes, so only if a check asks."""
        return self._record.lemons(self._before_epoch_s) if self._record else None

    def wrong_machine(self, node: str) -> str:
        """In words, why this name does not lead to a separate machine; empty if it does, or nothing is known."""
        try:
            return self.fleet().wrong_machine(node)
        except (NotApplicable, NotJudged):
            return ""

    def peers(self) -> Peers:
        """Everything that was measured under load on every node of this run, for comparison."""
        if self._peers is None:
            asked = self._register.asked
            measured = ((node, self._contexts.platform(node), self.metrics(node)) for node in asked)
            self._peers = Peers.of_nodes(measured, {node: self.traits(node) for node in asked})
        return self._peers

    def peers_of(self, node: str) -> NodePeers:
        """What was measured on the other nodes, and on this one in earlier runs."""
        return self.peers().of_node(node, self.earlier(node))

    def earlier(self, node: str, metrics: Sequence[Metric] | None = None) -> Earlier | None:
        """What a node measured in earlier runs; None where no record is kept. Read once, however many ask.

        `metrics` are its numbers so far: while it is measured, who looked for the others would find none for good.
        """
        if self._record is None:
            return None
        devices = frozenset(metric.device for metric in (self.metrics(node) if metrics is None else metrics))
        if (node, devices) not in self._earlier:
            known = self._record.known(self.keys(node), devices, self._before_epoch_s) if devices else {}
            self._earlier[node, devices] = lambda metric: known.get(key_of(metric), ())
        return self._earlier[node, devices]

    def delivered(self, metrics: Collection[str], before_epoch_s: float) -> dict[str, dict[str, dict[str, float]]]:
        """What the parts of each node had in these metrics at its last delivery: [node][metric][part], as measured now.

        Values under other conditions than today's are none.
        """
        before = min(before_epoch_s, self._before_epoch_s)
        known = self._record.delivered(metrics, before) if self._record and not self._register.is_passive else {}
        found: defaultdict[str, dict[str, dict[str, float]]] = defaultdict(lambda: defaultdict(dict))
        for node in self._register.asked if known else ():
            keys = self.keys(node)
            for metric in self.metrics(node):
                device, name, *under = key_of(metric)
                value = known.get((keys.of(device), name, under[0], under[1]))
                if value is not None:
                    found[node][name][part.named(device).short] = value
        return found

    def metrics(self, node: str) -> tuple[Metric, ...]:
        """Every number of a node under load; a measurement without one has none to compare."""
        if self._register.is_passive:
            return ()
        if node not in self._metrics:
            context = self._contexts.of(node)
            found = tuple(metric for each in wanted(MEASURED) for metric in _metrics_of(context, each.name))
            self._metrics[node] = pack(found)
        return cast("tuple[Metric, ...]", unpack(self._metrics[node]))

    def keys(self, node: str) -> Keys:
        """By what the parts of a node are known in the fleet's record."""
        summary = self._contexts.summary(node)
        return Keys(node, summary.placed if summary else (), self.shared)

    @property
    def shared(self) -> frozenset[str]:
        """The serial numbers that several machines or boards of this run, or of an earlier one, report."""
        if self._shared is None:
            summaries = (self._contexts.summary(node) for node in self._register.asked)
            seen = Counter(each.serial for summary in summaries if summary for each in summary.placed)
            own = frozenset(serial for serial, count in seen.items() if serial and count > 1)
            self._shared = own | (self._record.shared() if self._record else frozenset())
        return self._shared

    def traits(self, node: str) -> dict[str, str]:
        """What sets a node apart: its rack, its firmware; of one without facts what the inventory says."""
        summary = self._contexts.summary(node)
        known, serials = (summary.characteristics, summary.serials) if summary else ({}, {})
        return traits_of(self._nodes[node], known, serials)


def _metrics_of(context: Context, measurement: str) -> tuple[Metric, ...]:
    try:
        return context.measured(measurement).metrics
    except (CannotMeasure, NotApplicable) as said:
        said.__traceback__ = None  # as in `judge`: the context keeps the refusal, and its frames the evidence
        return ()
