"""One run, from inventory to report: each check's verdict on each node."""

from __future__ import annotations

import math
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from nodegate.baseline.baseline import Baselines
from nodegate.claims.prove import claims_of_node
from nodegate.demands.of_site import SiteDemands
from nodegate.errors import Busy, NotDemanded, NotDone
from nodegate.judge.context import Context
from nodegate.judge.judge import judge, record_of, refusal
from nodegate.judge.waivers import Waivers
from nodegate.node import Node
from nodegate.past.record import FleetRecord
from nodegate.policy.policy import NOT_ASKED, Policy, by_contract, is_asked_for
from nodegate.profile import Profile
from nodegate.records.claim import Shown
from nodegate.records.finding import Record
from nodegate.run.contexts import Contexts
from nodegate.run.fleet_view import FleetView
from nodegate.run.register import Register, comes_last
from nodegate.run.run_evidence import RunEvidence, evidence_paths
from nodegate.suite import Check


@dataclass
class Judging:
    """The judging of one run: what it is asked (`register`), reads (`evidence`), keeps (`contexts`), compares (`view`).

    `past` has what they measured in runs before `before_epoch_s`. `others` are names of the inventory that this
    run does not measure. `names_policy`: whether the user chose the policy. `judging_s` are the seconds that the
    judging of each node took.
    """

    nodes: Mapping[str, Node]
    profile: Profile
    baselines: Baselines
    waivers: Waivers
    evidence: RunEvidence = field(default_factory=RunEvidence)
    past: FleetRecord | None = None
    before_epoch_s: float = math.inf
    others: Collection[str] = ()
    policy: Policy | None = None
    names_policy: bool = False
    asked: SiteDemands = field(default_factory=SiteDemands)  # the site's limits, as demands files hold them
    register: Register = field(default_factory=Register)
    contexts: Contexts = field(init=False)
    view: FleetView = field(init=False)
    judging_s: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    _records: defaultdict[str, dict[str, Record]] = field(default_factory=lambda: defaultdict(dict))
    _judged: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        """Its parts; what a node is compared with is asked for only when all nodes are in."""
        self.contexts = Contexts(
            self.nodes,
            baselines=self.baselines,
            profile=self.profile,
            evidence=self.evidence,
            register=self.register,
            fleet=lambda: self.view.fleet(),  # noqa: PLW0108 - it is made below
            peers=lambda node: self.view.peers_of(node),  # noqa: PLW0108
        )
        self.view = FleetView(
            self.nodes,
            register=self.register,
            contexts=self.contexts,
            others=self.others,
            record=self.past,
            before_epoch_s=self.before_epoch_s,
        )

    def record(self, check: Check, node: str) -> Record:
        """A check's verdict on a node. The first call judges all checks of the node: its facts are read once.

        Checks that are judged last are judged with the first of them, not with a check that the load depends on.
        """
        if check.id not in self._records[node]:
            self.judge_node(node)
            if comes_last(check):
                self.judge_last(node)
            self._judge_all(node, [check])  # a check that the node is not asked for
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

    def judge_node(self, node: str) -> None:
        """Judge every check of a node that needs neither load nor another node; once."""
        if node not in self._judged:
            self._judged.add(node)
            self._judge_all(node, self.register.first(node))

    def judge_last(self, node: str) -> None:
        """Judge the other checks of a node, when all that they compare it with is in."""
        if last := self.register.last(node):
            self._judge_all(node, last)
            self.contexts.ended(node)

    def refuse_if_busy(self, node: str) -> None:
        """Raises Busy if another run holds the node, so that nothing could be measured."""
        missing = self.contexts.of(node).missing
        if isinstance(missing, Busy):
            raise missing

    def claims(self, node: str, records: Sequence[Record]) -> tuple[Shown, ...]:
        """What these records of a node show of the claims of the profile."""
        summary = self.contexts.summary(node)
        return claims_of_node(
            self.profile,
            records,
            lambda claim: self.waivers.signed(claim, node),
            nodes=len(self.register.asked),
            asked=self.register.asked.get(node, ()),
            by_contract=by_contract(self.policy, None) | (summary.by_contract if summary else frozenset()),
        )

    def _judge_all(self, node: str, checks: list[Check]) -> None:
        begun = time.monotonic()
        context, known = self.contexts.of(node), self._records[node]
        for check in checks:
            if check.id not in known:
                known[check.id] = self._judge(check, context)
        self.judging_s[node] += time.monotonic() - begun

    def _judge(self, check: Check, context: Context) -> Record:
        node = context.node.name
        evidence = evidence_paths(node, check.asks_for)
        if reason := self._left_alone(context):
            record = record_of(check, node, [refusal(NotDone(reason), node=node)], evidence=evidence)
        elif context.missing is None and not is_asked_for(check.id, self.policy, lambda: context.baseline):
            record = record_of(check, node, [refusal(NotDemanded(NOT_ASKED), node=node)], evidence=evidence)
        else:
            record = judge(check, self._arguments(check, context), node, context.parts, evidence=evidence)
        return self.waivers.cover(record)

    def _arguments(self, check: Check, context: Context) -> Callable[[str], object]:
        """What the arguments of a check mean on a node; the policy says which attempt at a number counts."""
        statistic = self.policy.statistic_of(check.id) if self.policy else None
        if statistic is None:
            return context.resolve
        own = {"baseline": lambda: replace(context.baseline, statistic=statistic)}
        return lambda name: own[name]() if name in own else context.resolve(name)

    def _left_alone(self, context: Context) -> str:
        """Why this node is not judged now: at night a busy node is skipped."""
        if self.profile is not Profile.NIGHTLY:
            return ""
        if isinstance(context.missing, Busy):
            return f"busy: {context.missing.reason}"
        summary = self.contexts.summaries.get(context.node.name)
        return f"busy: {summary.busy}" if summary and summary.busy else ""
