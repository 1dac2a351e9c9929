"""What is kept of each node of a run: its facts while checks will ask for them, and a summary for good."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from nodegate.baseline.baseline import Baselines
from nodegate.errors import Unreachable
from nodegate.facts import FACTS, NodeFacts, known_or_none
from nodegate.judge.characteristics import characteristics, serials
from nodegate.judge.context import Context, Kept, facts_of
from nodegate.judge.fleet import Fleet
from nodegate.judge.identity import Identity, identity
from nodegate.judge.node_in_use import busy_reason, use_unknown
from nodegate.measure.registry import MEASURED
from nodegate.node import Node
from nodegate.numbers.peers import NodePeers
from nodegate.past.event import Event
from nodegate.past.keys import Placed
from nodegate.policy.policy import by_contract
from nodegate.probe.hooks import HookVerdict
from nodegate.profile import Profile
from nodegate.records.evidence import Evidence
from nodegate.records.part import Kind
from nodegate.records.taken_key import TakenKey
from nodegate.run.for_the_record import events_of, last_hook, placed_parts
from nodegate.run.register import Register
from nodegate.run.run_evidence import RunEvidence
from nodegate.unknown import Known

MOST_AT_HAND = 16  # a node's facts take about 300 kB, in compact form 15


@dataclass(frozen=True)
class NodeSummary:
    """A summary of a node, kept after its facts are dropped: for the fleet's comparison and the report.

    `busy` says who uses it; empty if none is seen. `use_unknown` says why that proves nothing; empty if it does.
    `identity` says who it is, `taken_keys` which host keys were taken. `root` is the file tree that was read in place
    of the machine's own; empty if none was. `by_contract` are the claims that its limits ask for and others need not
    make. `demands` is the hash of its demands file. `placed` are its parts and `events` what its kernel log and
    its hooks have, for the fleet's record. `hook` is the last verdict of its hooks; `gate`: they ask that
    it has passed.
    """

    platform: str
    characteristics: Mapping[str, Known[str]]
    serials: Mapping[str, str]
    busy: str
    gpus: int = 0
    identity: Identity = field(default_factory=Identity)
    taken_keys: tuple[TakenKey, ...] = ()
    root: str = ""
    by_contract: frozenset[str] = frozenset()
    use_unknown: str = ""
    demands: Known[str] = ""
    placed: tuple[Placed, ...] = ()
    events: tuple[Event, ...] = ()
    gate: bool = False
    hook: HookVerdict | None = None


class Contexts:
    """The contexts of a run's nodes. `fleet` and `peers` bring what checks compare a node with."""

    def __init__(
        self,
        nodes: Mapping[str, Node],
        *,
        baselines: Baselines,
        profile: Profile,
        evidence: RunEvidence,
        register: Register,
        fleet: Callable[[], Fleet],
        peers: Callable[[str], NodePeers],
    ) -> None:
        self._nodes, self._baselines, self._profile = nodes, baselines, profile
        self._evidence, self._register, self._fleet, self._peers = evidence, register, fleet, peers
        self._at_hand: OrderedDict[str, Context] = OrderedDict()
        self._kept: dict[str, Kept] = {}
        self._ended: set[str] = set()
        self.summaries: dict[str, NodeSummary] = {}
        self._unreachable: dict[str, str] = {}

    def of(self, node: str) -> Context:
        """The context of a node. No file is parsed twice: what later checks will ask for is kept in compact form."""
        context = self._at_hand.pop(node, None) or self._new(node)
        self._at_hand[node] = context
        while len(self._at_hand) > MOST_AT_HAND:
            self._keep(*self._at_hand.popitem(last=False))
        return context

    def ended(self, node: str) -> None:
        """Every check of this node is judged: its facts may go."""
        self._ended.add(node)

    def summary(self, node: str) -> NodeSummary | None:
        """The summary of a node; None if it has no facts."""
        if node not in self.summaries:
            self.of(node)
        return self.summaries.get(node)

    def platform(self, node: str) -> str:
        """The platform of a node; empty if it is unknown."""
        summary = self.summary(node)
        return summary.platform if summary else ""

    def unreachable(self, node: str) -> str:
        """Why a node could not be reached; empty if it could."""
        if node not in self.summaries and node not in self._unreachable:
            self.of(node)
        return self._unreachable.get(node, "")

    def _new(self, node: str) -> Context:
        evidence = self._kept.get(node) or self._evidence.of(node)
        context = Context(
            self._nodes[node],
            evidence,
            baselines=self._baselines,
            profile=self._profile,
            fleet=self._fleet,
            peers=lambda: self._peers(node),
            measured=lambda measurement: self._evidence.of(node, measurement),
        )
        if context.facts is not None and isinstance(evidence, Evidence) and node not in self.summaries:
            try:
                self.summaries[node] = _summary_of(context, context.facts, evidence)
            except Exception as fault:  # noqa: BLE001 - one node's surprise must not end the fleet's run
                context.give_up(fault)
        if isinstance(context.missing, Unreachable):
            self._unreachable[node] = context.missing.reason
        return context

    def _keep(self, node: str, context: Context) -> None:
        """Keep of a node what its last checks will ask for; of one that has ended its summary alone."""
        if node in self._ended:
            self._kept.pop(node, None)
            return
        asked = {name for check in self._register.last(node) for name in check.asks_for}
        facts = asked if MEASURED.isdisjoint(asked) else FACTS  # what is measured may ask for any
        kept = context.kept(facts, lambda: facts_of(self._evidence.of(node)))
        if kept is not None:
            self._kept[node] = kept


def _summary_of(context: Context, facts: NodeFacts, evidence: Evidence) -> NodeSummary:
    gpus = sum(part.kind is Kind.GPU for part in context.parts)
    environment, hooks = known_or_none(lambda: facts.environment), known_or_none(lambda: facts.hooks)
    return NodeSummary(
        context.baseline.platform,
        characteristics(facts),
        serials(facts, context.parts),
        busy_reason(facts),
        gpus,
        identity(facts, context.node),
        evidence.taken_keys,
        str((evidence.document or {}).get("root", "")),
        by_contract=by_contract(None, context.baseline),
        use_unknown=use_unknown(facts),
        demands=environment.demands if environment else "",
        placed=(placed := placed_parts(facts, context.parts)),
        events=events_of(context.node.name, facts, context.parts, placed),
        gate=hooks is not None and hooks.gate,
        hook=last_hook(facts),
    )
