"""What a check's arguments mean on one node: facts, the node itself, its baseline, the profile and the fleet."""

from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TypeVar, cast

from nodegate.baseline.baseline import Baseline, Baselines
from nodegate.errors import ByDesign, CannotMeasure, NotApplicable, NotDone, NotJudged
from nodegate.facts import FACTS, NodeFacts, known_or_none
from nodegate.judge.fleet import Fleet
from nodegate.judge.identity import changes
from nodegate.judge.node_parts import node_parts
from nodegate.measure.measurement import Measured
from nodegate.measure.registry import COUNTERS, FACTS_AFTER, MEASURED, measurement
from nodegate.node import Node
from nodegate.numbers.peers import NodePeers
from nodegate.packed import pack, unpack
from nodegate.probe.document import ProbeDocument, document_of
from nodegate.profile import Profile
from nodegate.records.evidence import FACTS as FACTS_OF_NODE
from nodegate.records.evidence import Evidence
from nodegate.records.part import NO_PARTS, Part, Parts
from nodegate.subjects.counters import Counters
from nodegate.subjects.order import order_of

_Packed = tuple[tuple[ProbeDocument, dict[str, bytes]], tuple[Part, ...], dict[str, bytes]]
T = TypeVar("T")
_Refusal = CannotMeasure | NotApplicable | NotJudged
CONTEXT_NAMES = ("node", "baseline", "profile", "fleet", "ordered", "peers", "verdicts")
_ANOTHER_STEP = "check which machine answers at this address and which boards it has, then measure this node again"
AT_THE_END = frozenset(("fleet", "peers", *MEASURED))  # what is there only when every node is in


def argument_names() -> frozenset[str]:
    """Every name that a check may ask for."""
    return frozenset((*FACTS, *MEASURED, *CONTEXT_NAMES))


def facts_of(evidence: Evidence) -> NodeFacts:
    """The typed facts in a node's evidence.

    Raises:
        CannotMeasure: the measurement failed, or its document is not what the probe writes.
    """
    if evidence.error or evidence.document is None:
        raise evidence.error or CannotMeasure("there is no evidence", next_step="measure this node again")
    document = document_of(
        evidence.document,
        received_epoch_s=evidence.received_epoch_s,
        round_trip_s=evidence.round_trip_s,
    )
    return NodeFacts(document)


@dataclass(frozen=True)
class Kept:
    """A context in compact form, until its node is judged again: what was parsed of its evidence.

    `read_again` gives the facts once more, for one that is not kept.
    """

    packed: bytes
    read_again: Callable[[], NodeFacts]
    baseline: Baseline | None


_SETTINGS = "correct the platform, the limit or the baseline file, or check which machine answers at this address"
CONTRADICTION = "settings that contradict the machine"  # the code of what is lacking then


class Context:
    """Answers for the argument names of checks on one node.

    `facts` is None where the node gave none; `missing` then says why. `fleet` and `peers` are asked for only by the
    checks that compare, for they need every node. `measured` brings the evidence of a measurement by its name.
    `evidence` are the node's facts, or what an earlier context of this node kept of them.
    """

    def __init__(
        self,
        node: Node,
        evidence: Evidence | Kept,
        *,
        baselines: Baselines,
        profile: Profile,
        fleet: Callable[[], Fleet],
        peers: Callable[[], NodePeers] | None = None,
        measured: Callable[[str], Evidence] | None = None,
    ) -> None:
        self.node, self._profile, self._baselines, self._evidence = node, profile, baselines, measured
        self._measured: dict[str, Measured | _Refusal] = {}
        self._packed: dict[str, bytes] = {}  # of what was measured, until something asks for it
        self._known: dict[str, object | _Refusal] = {}  # of _OWN, what was asked for
        self._parts: Parts | None = None
        self.fleet, self.peers = fleet, peers or _no_peers
        self._baseline: Baseline | None = None
        self.facts: NodeFacts | None = None
        self.missing: CannotMeasure | None = None
        try:
            self.facts = self._unpacked(evidence) if isinstance(evidence, Kept) else facts_of(evidence)
        except CannotMeasure as said:
            said.lacks = said.lacks or FACTS_OF_NODE
            self.missing = said

    def kept(self, facts: Container[str], read_again: Callable[[], NodeFacts]) -> Kept | None:
        """The context in compact form, with those of its facts that will be asked for; None where it has none."""
        if self.facts is None:
            return None
        read = {
            name: pack(each)
            for name, each in self._measured.items()
            if name not in self._packed and not isinstance(each, Exception)
        }
        measured = {**self._packed, **read}
        return Kept(pack((self.facts.kept(facts), tuple(self.parts), measured)), read_again, self._baseline)

    def _unpacked(self, kept: Kept) -> NodeFacts:
        (document, facts), parts, self._packed = cast("_Packed", unpack(kept.packed))
        self._parts, self._baseline = Parts(parts), kept.baseline
        return NodeFacts(document, facts, lambda: kept.read_again().document)

    def give_up(self, fault: Exception) -> None:
        """Judge nothing by these facts: we broke on them, and so know nothing of the node."""
        self.facts = None
        self.missing = CannotMeasure(
            f"nodegate itself failed on the data that this node sent ({type(fault).__name__}: {fault})",
            next_step="report this as a bug in nodegate, with the node's evidence file",
            lacks=FACTS_OF_NODE,
        )

    def resolve(self, name: str) -> object:
        """The value of a check's argument.

        Raises:
            CannotMeasure: the fact could not be had.
            NotApplicable: it does not apply here.
        """
        if name in ("node", "profile"):
            return self.node if name == "node" else self._profile
        if self.missing:
            raise self.missing
        if self.baseline.contradiction:
            said = f"your settings contradict the machine: {self.baseline.contradiction}"
            raise CannotMeasure(said, next_step=_SETTINGS, lacks=CONTRADICTION)
        if name in _OWN:
            return _once(self._known, name, lambda: _OWN[name](self))
        return self.measured(name) if name in MEASURED else self.known_facts.get(name)

    def measured(self, name: str) -> Measured:
        """What a measurement gave on this node.

        Raises:
            CannotMeasure: it gave nothing.
            NotApplicable: it does not apply to this node.
        """
        return _once(self._measured, name, lambda: self._read_measured(name))

    def _read_measured(self, name: str) -> Measured:
        if name in self._packed:
            return cast("Measured", unpack(self._packed[name]))
        wanted = measurement(name)
        why_not = wanted.applies(self.known_facts)
        if why_not is not None:
            said, by_policy = f"{name} is not measured: {why_not.reason}", self.baseline.find("gpu.mig")
            witness = why_not.witness
            if why_not.is_split and by_policy is not None and by_policy.value == "on":
                witness = by_policy.source
            elif why_not.is_split:
                said += "; if this is intended, set nodegate_mig: on"
            raise ByDesign(said, witness=witness) if witness else NotDone(said)
        evidence = self._evidence_of(name)
        return wanted.of_document(evidence.document or {})

    def counters(self) -> Counters:
        """The counters before and after the load.

        Raises:
            CannotMeasure: they were not read again, or on another machine.
        """
        from nodegate.subjects.counters import Counters  # noqa: PLC0415 - a bootcheck has none

        before, after = self.known_facts, facts_of(self._evidence_of(FACTS_AFTER))
        if odd := changes(before, after):
            raise CannotMeasure(f"not the machine of before the load: {'; '.join(odd)}", next_step=_ANOTHER_STEP)
        return Counters(before, after)

    def _evidence_of(self, name: str) -> Evidence:
        if self._evidence is None:
            raise NotDone(f"{name} is not measured here: this run puts no load on the node")
        evidence = self._evidence(name)
        if evidence.error:
            raise evidence.error
        return evidence

    @property
    def parts(self) -> Parts:
        """The node's parts by all their names; none where it gave no facts."""
        if self._parts is None:
            self._parts = NO_PARTS if self.facts is None else node_parts(self.facts)
        return self._parts

    @property
    def known_facts(self) -> NodeFacts:
        """The facts.

        Raises:
            CannotMeasure: the node gave none.
        """
        if self.facts is None:
            raise self.missing or CannotMeasure("there is no evidence", next_step="measure this node again")
        return self.facts

    @property
    def baseline(self) -> Baseline:
        """What is right for this node: found from its hardware, unless the inventory names the platform."""
        if self._baseline is None:
            facts = self.facts
            read = [known_or_none(partial(facts.get, name)) if facts else None for name in ("gpus", "pci", "host")]
            self._baseline = self._baselines.for_node(self.node, *read)  # type: ignore[arg-type]
        return self._baseline


# By name and not bound to a context, which would refer to itself and stay in memory until the next full collection.
_OWN: Mapping[str, Callable[[Context], object]] = {
    "baseline": lambda context: context.baseline,
    "fleet": lambda context: context.fleet(),
    "ordered": lambda context: order_of(context.node, context.known_facts),
    "peers": lambda context: context.peers(),
    COUNTERS: Context.counters,
}


def _once(known: dict[str, T | _Refusal], name: str, read: Callable[[], T]) -> T:
    """What is read once, a refusal as well."""
    if name not in known:
        try:
            known[name] = read()
        except (CannotMeasure, NotApplicable, NotJudged) as said:
            known[name] = said
    found = known[name]
    if isinstance(found, (CannotMeasure, NotApplicable, NotJudged)):
        raise found.with_traceback(None)
    return found


def _no_peers() -> NodePeers:
    raise NotJudged("not compared with other nodes: this run has none")
