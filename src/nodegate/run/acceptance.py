"""One run, from inventory to report: who the nodes are, what they gave, what each check says of each."""

from __future__ import annotations

import time
from collections import OrderedDict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from nodegate.errors import Busy, CannotMeasure, NotJudged, Unreachable
from nodegate.judge.busy import busy_reason
from nodegate.judge.context import Context
from nodegate.judge.fleet import Fleet, characteristics
from nodegate.judge.run import judge, record_of, refusal
from nodegate.judge.serials import serials
from nodegate.judge.verdicts import Verdicts
from nodegate.profile import Profile
from nodegate.run.evidence import Evidence, RunFolder

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nodegate.facts import NodeFacts
    from nodegate.judge.baseline import Baselines
    from nodegate.judge.verdict import Record
    from nodegate.judge.waivers import Waivers
    from nodegate.node import Node
    from nodegate.suite import Check
    from nodegate.unknown import Known

CONTEXTS_KEPT = 16  # a node's facts take some 300 kB: a fleet's would not fit
NO_EVIDENCE_STEP = "run again with --resume to measure what is missing"


@dataclass(frozen=True)
class Traits:
    """What a node is, kept after its facts are gone: for the fleet's comparison and the report.

    `busy` says who works on it; empty when nobody is seen.
    """

    platform: str
    characteristics: Mapping[str, Known[str]]
    serials: Mapping[str, str]
    busy: str


@dataclass
class Acceptance:
    """The judging of one run. `folder` is opened when the first node is measured; until then nothing is written.

    `asked` says by their ids which checks each node must pass, `checks` holds them. The controller of pytest-xdist
    judges nothing and has no checks. With `attached`, another process measures, and this one waits for its evidence
    (a pytest-xdist worker).
    """

    nodes: Mapping[str, Node]
    profile: Profile
    baselines: Baselines
    waivers: Waivers
    folder: RunFolder | None = None
    attached: bool = False
    asked: dict[str, list[str]] = field(default_factory=dict)
    checks: dict[str, Check] = field(default_factory=dict)
    _records: dict[tuple[str, str], Record] = field(default_factory=dict)
    _contexts: OrderedDict[str, Context] = field(default_factory=OrderedDict)
    _traits: dict[str, Traits] = field(default_factory=dict)
    _unreachable: dict[str, str] = field(default_factory=dict)
    _judged: set[str] = field(default_factory=set)
    _fleet: Fleet | None = None

    def ask(self, check: Check, node: str) -> None:
        """The node must pass this check."""
        self.checks[check.id] = check
        self.asked.setdefault(node, []).append(check.id)

    def record(self, check: Check, node: str) -> Record:
        """What a check says of a node. The first question judges all checks of the node: its facts are read once."""
        if (node, check.id) not in self._records:
            self.judge_node(node)
            self._judge_all(node, [check, *(each for each in self._checks_of(node) if _compares(each))])
        return self._records[node, check.id]

    def judge_node(self, name: str) -> None:
        """Judge every check of a node that needs no other node; once."""
        if name not in self._judged:
            self._judged.add(name)
            self._judge_all(name, [check for check in self._checks_of(name) if not _compares(check)])

    def _checks_of(self, name: str) -> list[Check]:
        return [self.checks[check] for check in self.asked.get(name, ())]

    def _judge_all(self, name: str, checks: list[Check]) -> None:
        context = self._context(name)
        for check in checks:
            if (name, check.id) not in self._records:
                self._records[name, check.id] = self._judge(check, context)

    def unreachable(self, name: str) -> str:
        """Why a node could not be reached; empty when it could."""
        if name not in self._traits and name not in self._unreachable:
            self._context(name)
        return self._unreachable.get(name, "")

    def traits(self, name: str) -> Traits | None:
        """What a node is; None when it gave no facts."""
        if name not in self._traits:
            self._context(name)
        return self._traits.get(name)

    def fleet(self) -> Fleet:
        """The characteristics of every node that this run measures, for comparison."""
        if self._fleet is None:
            for name in self.asked:
                if name not in self._traits:
                    self._context(name)
            known = {name: (traits.platform, traits.characteristics) for name, traits in self._traits.items()}
            self._fleet = Fleet(known)
        return self._fleet

    def _judge(self, check: Check, context: Context) -> Record:
        reason = self._left_alone(context)
        name = context.node.name
        if reason:
            record = record_of(check, name, Verdicts(), refusal(NotJudged(reason), subject=name))
        else:
            record = judge(check, context.resolve, name)
        return self.waivers.cover(with_evidence(record))

    def _left_alone(self, context: Context) -> str:
        """Why this node is not judged now: at night a node that works for somebody is skipped."""
        if self.profile is not Profile.NIGHTLY:
            return ""
        if isinstance(context.missing, Busy):
            return f"busy: {context.missing.reason}"
        traits = self._traits.get(context.node.name)
        return f"busy: {traits.busy}" if traits and traits.busy else ""

    def _context(self, name: str) -> Context:
        known = self._contexts.pop(name, None)
        if known is None:
            known = Context(
                self.nodes[name],
                self._evidence(name),
                baselines=self.baselines,
                profile=self.profile,
                fleet=self.fleet,
            )
            if known.facts is not None and name not in self._traits:
                try:
                    self._traits[name] = _traits(known, known.facts)
                except Exception as fault:  # noqa: BLE001 - one node's surprise must not end the fleet's run
                    known.give_up(fault)
            if isinstance(known.missing, Unreachable):
                self._unreachable[name] = known.missing.reason
        self._contexts[name] = known
        while len(self._contexts) > CONTEXTS_KEPT:
            self._contexts.popitem(last=False)
        return known

    def _evidence(self, name: str) -> Evidence:
        evidence = wait_for_evidence(self.folder, name) if self.attached else _read(self.folder, name)
        if evidence is None:
            error = CannotMeasure("this node was not measured before the run ended", next_step=NO_EVIDENCE_STEP)
            return Evidence(name, "facts", 0.0, 0.0, error=error)
        return evidence


def _traits(known: Context, facts: NodeFacts) -> Traits:
    return Traits(known.baseline.platform, characteristics(facts), serials(facts), busy_reason(facts))


def _compares(check: Check) -> bool:
    """Whether a check asks for the fleet, and so must wait until every node is in."""
    return "fleet" in check.asks_for


def with_evidence(record: Record) -> Record:
    """The record with the path of the facts it rests on."""
    return replace(record, evidence=(f"evidence/{record.node}/facts.json",))


def wait_for_evidence(folder: RunFolder | None, name: str) -> Evidence | None:
    """The evidence that another process brings; None when it has ended without."""
    while folder is not None:
        ended = folder.is_measured  # before the look, so that what came last is not missed
        evidence = folder.read_evidence(name)
        if evidence is not None or ended:
            return evidence
        time.sleep(0.05)
    return None


def _read(folder: RunFolder | None, name: str) -> Evidence | None:
    return folder.read_evidence(name) if folder else None
