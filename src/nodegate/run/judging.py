"""One run, from inventory to report: the nodes, what they reported and measured, and each check's verdict on each."""

from __future__ import annotations

import math
import time
from collections import OrderedDict, defaultdict
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING, cast

from nodegate.claims.prove import claims_of_node
from nodegate.errors import END_OF_THE_RUN, Busy, CannotMeasure, NotApplicable, NotDone, NotJudged, Unreachable
from nodegate.facts import FACTS as FACT_NAMES
from nodegate.history import key_of
from nodegate.judge.context import AT_THE_END, Context, Kept, facts_of
from nodegate.judge.fleet import Fleet, characteristics
from nodegate.judge.identity import Identity, identity
from nodegate.judge.judge import judge, record_of, refusal
from nodegate.judge.node_in_use import busy_reason, use_unknown
from nodegate.judge.serials import serials
from nodegate.judge.traits import traits_of
from nodegate.measure.registry import COUNTERS, FACTS_AFTER, MEASURED, is_active, wanted
from nodegate.metric import Statistic
from nodegate.packed import pack, unpack
from nodegate.policy.asked import NOT_ASKED, by_contract, is_asked_for
from nodegate.profile import Profile
from nodegate.records import part
from nodegate.records.evidence import FACTS, Evidence
from nodegate.records.part import Kind

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from nodegate.baseline.baseline import Baseline, Baselines
    from nodegate.facts import NodeFacts
    from nodegate.history import History
    from nodegate.judge.waivers import Waivers
    from nodegate.metric import Metric
    from nodegate.node import Node
    from nodegate.numbers.peers import Earlier, Peers
    from nodegate.policy.policy import Policy
    from nodegate.records.claim import Shown
    from nodegate.records.finding import Record
    from nodegate.records.run_folder import RunFolder
    from nodegate.records.taken_key import TakenKey
    from nodegate.suite import Check
    from nodegate.unknown import Known

CONTEXTS_KEPT = 16  # a node's facts take about 300 kB, in compact form 15
NO_EVIDENCE_STEP = "run again with --resume to measure what is missing"


@dataclass(frozen=True)
class NodeSummary:
    """A summary of a node, kept after its facts are dropped: for the fleet's comparison and the report.

    `busy` says who uses it; empty if none is seen. `use_unknown` says why that proves nothing; empty if it does.
    `identity` says who it is, `taken_keys` which host keys were taken. `root` is the file tree that was read in place
    of the machine's own; empty if none was. `by_contract` are the claims that its limits ask for and others need not
    make.
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


@dataclass
class Judging:
    """The judging of one run. `folder` is created when the first node is measured; until then nothing is written.

    `asked` has the ids of the checks that each node must pass, `checks` the checks. The controller of pytest-xdist
    judges nothing and has no checks. With `attached`, another process measures, and this one waits for its evidence
    (a pytest-xdist worker). `history` is what the nodes measured in runs before `before_epoch_s`. `others` are
    names of the inventory that this run does not measure. `names_policy`: whether the user chose the policy.
    """

    nodes: Mapping[str, Node]
    profile: Profile
    baselines: Baselines
    waivers: Waivers
    folder: RunFolder | None = None
    attached: bool = False
    history: History | None = None
    before_epoch_s: float = math.inf
    others: Collection[str] = ()
    policy: Policy | None = None
    names_policy: bool = False
    asked: dict[str, list[str]] = field(default_factory=dict)
    checks: dict[str, Check] = field(default_factory=dict)
    _records: defaultdict[str, dict[str, Record]] = field(default_factory=lambda: defaultdict(dict))
    _contexts: OrderedDict[str, Context] = field(default_factory=OrderedDict)
    _kept: dict[str, Kept] = field(default_factory=dict)
    _metrics: dict[str, bytes] = field(default_factory=dict)
    _serials: dict[str, dict[str, str]] = field(default_factory=dict)  # of what is measured, for the history
    _summaries: dict[str, NodeSummary] = field(default_factory=dict)
    _unreachable: dict[str, str] = field(default_factory=dict)
    _judged: set[str] = field(default_factory=set)
    _ended: set[str] = field(default_factory=set)  # every check is judged
    _fleet: Fleet | None = None
    _peers: Peers | None = None
    _earlier: dict[str, Earlier] = field(default_factory=dict)

    def ask(self, check: Check, node: str) -> None:
        """The node must pass this check."""
        self.checks[check.id] = check
        self.asked.setdefault(node, []).append(check.id)

    def record(self, check: Check, node: str) -> Record:
        """A check's verdict on a node. The first call judges all checks of the node: its facts are read once.

        Checks that are judged last are judged with the first of them, not with a check that the load depends on.
        """
        if check.id not in self._records[node]:
            self.judge_node(node)
            last = [each for each in self._checks_of(node) if _comes_last(each)] if _comes_last(check) else []
            self._judge_all(node, [check, *last])
            if last:
                self._ended.add(node)
        return self._records[node][check.id]

    def known(self, check: Check, node: str) -> Record | None:
        """A check's verdict on a node, if it is judged and not reported yet."""
        return self._records[node].get(check.id)

    def forget(self, check: Check, node: str) -> None:
        """A check's verdict on a node was reported."""
        self._records[node].pop(check.id, None)

    def unreported(self) -> Iterator[Record]:
        """What was judged and not reported: of a run that is interrupted, the failures that pytest did not come to."""
        for records in self._records.values():
            yield from records.values()

    def judge_node(self, name: str) -> None:
        """Judge every check of a node that needs neither load nor another node; once."""
        if name not in self._judged:
            self._judged.add(name)
            self._judge_all(name, [check for check in self._checks_of(name) if not _comes_last(check)])

    def _checks_of(self, name: str) -> list[Check]:
        # In the controller of pytest-xdist, which asks only for what the load depends on, they are known by name alone.
        return [self.checks[check] for check in self.asked.get(name, ()) if check in self.checks]

    def _judge_all(self, name: str, checks: list[Check]) -> None:
        context, known = self._context(name), self._records[name]
        for check in checks:
            if check.id not in known:
                known[check.id] = self._judge(check, context)

    def unreachable(self, name: str) -> str:
        """Why a node could not be reached; empty if it could."""
        if name not in self._summaries and name not in self._unreachable:
            self._context(name)
        return self._unreachable.get(name, "")

    def refuse_if_busy(self, name: str) -> None:
        """Raises Busy if another run holds the node, so that nothing could be measured."""
        missing = self._context(name).missing
        if isinstance(missing, Busy):
            raise missing

    def summary(self, name: str) -> NodeSummary | None:
        """The summary of a node; None if it has no facts."""
        if name not in self._summaries:
            self._context(name)
        return self._summaries.get(name)

    def fleet(self) -> Fleet:
        """The characteristics of every node that this run measures, for comparison."""
        if self._fleet is None:
            for name in self.asked:
                if name not in self._summaries:
                    self._context(name)
            known = {name: (each.platform, each.characteristics) for name, each in self._summaries.items()}
            identities = {name: each.identity for name, each in self._summaries.items()}
            racks = {name: node.rack for name, node in self.nodes.items() if node.rack}
            self._fleet = Fleet(known, identities, self.others, racks)
        return self._fleet

    def wrong_machine(self, name: str) -> str:
        """In words, why this name does not lead to a machine of its own; empty if it does, or nothing is known."""
        try:
            return self.fleet().wrong_machine(name)
        except (NotApplicable, NotJudged):
            return ""

    def claims(self, name: str, records: Sequence[Record]) -> tuple[Shown, ...]:
        """What these records of a node show of the claims of the profile."""
        traits = self.summary(name)
        return claims_of_node(
            self.profile,
            records,
            lambda claim: self.waivers.signed(claim, name),
            nodes=len(self.asked),
            asked=self.asked.get(name, ()),
            by_contract=by_contract(self.policy, None) | (traits.by_contract if traits else frozenset()),
        )

    def _judge(self, check: Check, context: Context) -> Record:
        reason = self._left_alone(context)
        name = context.node.name
        evidence = evidence_of(name, check.asks_for)
        if reason:
            record = record_of(check, name, [refusal(NotDone(reason), node=name)], evidence=evidence)
        elif context.missing is None and not is_asked_for(check.id, self.policy, lambda: context.baseline):
            record = record_of(check, name, [refusal(NotApplicable(NOT_ASKED), node=name)], evidence=evidence)
        else:
            record = judge(check, self._arguments(check, context), name, context.parts, evidence=evidence)
        return self.waivers.cover(record)

    def _arguments(self, check: Check, context: Context) -> Callable[[str], object]:
        """What the arguments of a check mean on a node; the policy says which attempt at a number counts."""
        statistic = self.policy.statistic_of(check.id) if self.policy else Statistic.BEST
        if statistic is Statistic.BEST:
            return context.resolve
        own = {"baseline": lambda: replace(context.baseline, statistic=statistic)}
        return lambda name: own[name]() if name in own else context.resolve(name)

    def _left_alone(self, context: Context) -> str:
        """Why this node is not judged now: at night a busy node is skipped."""
        if self.profile is not Profile.NIGHTLY:
            return ""
        if isinstance(context.missing, Busy):
            return f"busy: {context.missing.reason}"
        traits = self._summaries.get(context.node.name)
        return f"busy: {traits.busy}" if traits and traits.busy else ""

    def _context(self, name: str) -> Context:
        known = self._contexts.pop(name, None)
        if known is None:
            evidence = self._kept.get(name) or self._evidence(name)
            known = Context(
                self.nodes[name],
                evidence,
                baselines=self.baselines,
                profile=self.profile,
                fleet=self.fleet,
                peers=lambda: self.peers().of_node(name, self.earlier(name)),
                measured=lambda measurement: self._evidence(name, measurement),
            )
            if known.facts is not None and isinstance(evidence, Evidence) and name not in self._summaries:
                try:
                    self._summaries[name] = _summary_of(known, known.facts, evidence)
                except Exception as fault:  # noqa: BLE001 - one node's surprise must not end the fleet's run
                    known.give_up(fault)
            if isinstance(known.missing, Unreachable):
                self._unreachable[name] = known.missing.reason
        self._contexts[name] = known
        while len(self._contexts) > CONTEXTS_KEPT:
            self._keep(*self._contexts.popitem(last=False))
        return known

    def _keep(self, name: str, context: Context) -> None:
        """Keep of a node what is parsed, so that no file is read twice: its last checks are judged at the end."""
        if name in self._ended:
            self._kept.pop(name, None)  # a summary is left, and the evidence
            return
        left = {asked for check in self._checks_of(name) if _comes_last(check) for asked in check.asks_for}
        facts = left if MEASURED.isdisjoint(left) else FACT_NAMES  # what is measured may ask for any
        kept = context.kept(facts, lambda: facts_of(self._evidence(name)))
        if kept is not None:
            self._kept[name] = kept

    def baseline(self, name: str) -> Baseline:
        """The baseline of a node."""
        return self._context(name).baseline

    def peers(self) -> Peers:
        """Everything that was measured under load on every node of this run, for comparison."""
        if self._peers is None:
            from nodegate.numbers.peers import Peers  # noqa: PLC0415 - pandas only where something was measured

            measured = ((node, self.platform(node), self.metrics(node)) for node in self.asked)
            self._peers = Peers.of_nodes(measured, {node: self.traits(node) for node in self.asked})
        return self._peers

    def traits(self, name: str) -> dict[str, str]:
        """What sets a node apart: its rack, its firmware; of one without facts what the inventory says."""
        summary = self.summary(name)
        if summary is None:
            return traits_of(self.nodes[name], {}, {})
        return traits_of(self.nodes[name], summary.characteristics, summary.serials)

    def earlier(self, name: str) -> Earlier | None:
        """What a node measured in earlier runs; None where no history is kept. Read once, however many ask."""
        if self.history is None:
            return None
        if name not in self._earlier:
            known = self.history.earlier(name, self.before_epoch_s, lambda device: self.serial(name, device))
            self._earlier[name] = lambda metric: known.get(key_of(metric), ())
        return self._earlier[name]

    def serial(self, name: str, device: str) -> str:
        """The serial number of a node's device; empty where it has none of its own, or none is known."""
        known = self._serials.get(name, {})
        if device not in known:
            return _serial_of(self._context(name), device)
        return known[device]

    def platform(self, name: str) -> str:
        """The platform of a node; empty if it is unknown."""
        traits = self.summary(name)
        return traits.platform if traits else ""

    def metrics(self, name: str) -> tuple[Metric, ...]:
        """Every number of a node under load; a measurement without one has none to compare."""
        if self.checks and not any(is_active(check.asks_for) for check in self.checks.values()):
            return ()
        if name not in self._metrics:
            context = self._context(name)
            found = tuple(
                metric for measurement in wanted(MEASURED) for metric in _metrics_of(context, measurement.name)
            )
            self._metrics[name] = pack(found)
            self._serials[name] = {each.device: _serial_of(context, each.device) for each in found}
        return cast("tuple[Metric, ...]", unpack(self._metrics[name]))

    def _evidence(self, name: str, measurement: str = FACTS) -> Evidence:
        evidence = self._read(name, measurement)
        if evidence is None:
            error = CannotMeasure(
                "this node was not measured before the run ended", next_step=NO_EVIDENCE_STEP, lacks=END_OF_THE_RUN
            )
            return Evidence(name, measurement, 0.0, 0.0, error=error)
        return evidence

    def _read(self, name: str, measurement: str) -> Evidence | None:
        if self.folder is None:
            return None
        if not self.attached:
            return self.folder.read_evidence(name, measurement)
        return wait_for_evidence(self.folder, name, measurement)


def _summary_of(known: Context, facts: NodeFacts, evidence: Evidence) -> NodeSummary:
    gpus = sum(part.kind is Kind.GPU for part in known.parts)
    return NodeSummary(
        known.baseline.platform,
        characteristics(facts),
        serials(facts),
        busy_reason(facts),
        gpus,
        identity(facts, known.node),
        evidence.taken_keys,
        str((evidence.document or {}).get("root", "")),
        by_contract=by_contract(None, known.baseline),
        use_unknown=use_unknown(facts),
    )


def _comes_last(check: Check) -> bool:
    """Whether a check asks for the fleet or for what is measured under load, and so must wait until all is in."""
    return not AT_THE_END.isdisjoint(check.asks_for)


def evidence_of(node: str, asks_for: tuple[str, ...]) -> tuple[str, ...]:
    """The paths of the evidence of what a check asks for."""
    measured = [FACTS_AFTER if name == COUNTERS else name for name in asks_for if name in MEASURED]
    return _paths(node, ("facts", *measured))


@lru_cache(maxsize=64)
def _paths(node: str, measured: tuple[str, ...]) -> tuple[str, ...]:
    """Of a hundred checks of a node most have the same paths: they are kept once."""
    return tuple(f"evidence/{node}/{name}.json" for name in measured)


def wait_for_evidence(folder: RunFolder, name: str, measurement: str = FACTS) -> Evidence | None:
    """The evidence from another process; None if it has ended without.

    Measurements under load are complete only at the end: a suspect is measured again.
    """
    while True:
        ended = folder.is_measured  # before the check, so that what came last is not missed
        evidence = folder.read_evidence(name, measurement) if ended or measurement == FACTS else None
        if evidence is not None or ended:
            return evidence
        time.sleep(0.05)


def _serial_of(context: Context, device: str) -> str:
    return context.parts.complete(part.named(device)).serial if device else ""


def _metrics_of(context: Context, measurement: str) -> tuple[Metric, ...]:
    try:
        return context.measured(measurement).metrics
    except (CannotMeasure, NotApplicable) as said:
        said.__traceback__ = None  # as in `judge`: the context keeps the refusal, and its frames the evidence
        return ()
