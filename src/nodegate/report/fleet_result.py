"""The result for the fleet as a whole, by the policy of the run: accepted, with reservations, refused, not decided."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, timezone
from enum import Enum

from nodegate.claims.prove import speaks
from nodegate.claims.table import claims
from nodegate.policy.policy import OTHER, PLATFORM, ClassRule, DefectClass, Item, Policy
from nodegate.profile import Profile
from nodegate.records.claim import State
from nodegate.records.run import NodeReport
from nodegate.records.verdict import GOOD, NodeVerdict, Verdict
from nodegate.report.model import Report, in_order
from nodegate.text import counted
from nodegate.words.catalogue import known, phrase, say, term

_STATES = (State.REFUTED, State.NOT_PROVEN, None)  # None: open, and signed for
_WORDS = (known("refuted"), known("not proven"), known("signed for"))
_OTHER = known("every check that belongs to no claim")
_PLATFORM = known("its platform has limits in the policy")


class FleetVerdict(str, Enum):
    """The result for the fleet."""

    ACCEPTED = "accepted"
    RESERVATIONS = "accepted with reservations"
    REFUSED = "refused"
    UNDECIDED = "not decided"


@dataclass(frozen=True)
class Defect:
    """A claim of the policy that does not hold everywhere: where it is refuted, open, or open and signed for."""

    item: Item
    title: str
    refuted: tuple[str, ...] = ()
    open: tuple[str, ...] = ()
    signed: tuple[str, ...] = ()
    until: str = ""  # the day by which a defect of class B is put right

    @property
    def nodes(self) -> tuple[str, ...]:
        """Where it is not shown to hold."""
        return in_order((*self.refuted, *self.open, *self.signed))


@dataclass(frozen=True)
class FleetResult:
    """The result, why in words with the clause that decided, and every claim that does not hold everywhere."""

    verdict: FleetVerdict
    why: str
    defects: tuple[Defect, ...] = ()
    is_part: bool = False  # whether it is open only because the run was a part

    @property
    def is_no_success(self) -> bool:
        """Whether a run that asked for this result has not got it."""
        return self.verdict in (FleetVerdict.REFUSED, FleetVerdict.UNDECIDED) and not self.is_part

    def of_class(self, sort: DefectClass) -> tuple[str, ...]:
        """The nodes whose worst defect is of this class."""
        measured = [each for each in self.defects if each.item.is_measured]
        worse = {name for each in measured if each.item.defect_class.value < sort.value for name in each.nodes}
        ours = {name for each in measured if each.item.defect_class is sort for name in each.nodes}
        return in_order(ours - worse)


@dataclass(frozen=True)
class _Rule:
    """How many nodes may have one of these defects."""

    defects: tuple[Defect, ...]
    sort: DefectClass
    may_fail_percent: float
    clause: str


def fleet_result(report: Report) -> FleetResult | None:
    """What the nodes of a report come to under its policy; None without one. What is open is not fulfilled."""
    policy, total = report.policy, len(report.nodes)
    if policy is None:
        return None
    found = sorted(_defects(report, policy), key=lambda each: each.item.defect_class.value)
    day = report.run.finished_epoch_s
    defects = tuple(replace(each, until=_until(policy, each.item, day)) for each in found)
    rules = list(_rules(defects, policy))
    refused = next((said for rule in rules if (said := _over(rule, total, proven_only=True))), "")
    if refused:
        return FleetResult(FleetVerdict.REFUSED, refused, defects)
    part = part_of(report)
    if part:
        return FleetResult(FleetVerdict.UNDECIDED, part, defects, is_part=True)
    undecided = next((said for rule in rules if (said := _over(rule, total, proven_only=False))), "")
    if undecided:
        return FleetResult(FleetVerdict.UNDECIDED, undecided, defects)
    held = [(each, each.nodes) for each in defects if each.item.defect_class is not DefectClass.C]
    if held:
        return FleetResult(FleetVerdict.RESERVATIONS, _said(held, total), defects)
    nodes = counted(total, "node")
    why = say("every claim holds on {nodes}", nodes=nodes)
    if defects:
        remarks = counted(len(defects), "remark")
        why = say("no defect of class A or B on {nodes}; {remarks}", nodes=nodes, remarks=remarks)
    return FleetResult(FleetVerdict.ACCEPTED, why, defects)


def part_of(report: Report) -> str:
    """Why the run says too little of the fleet; empty where it does not."""
    if not report.nodes:
        return say("no node was judged")
    if report.run.interrupted:
        return say("the run ended before every check was judged")
    if report.run.profile != Profile.DELIVERY.value:
        return say("profile {profile} covers only part of the claims", profile=report.run.profile)
    left = {shown.claim for node in report.nodes for shown in node.unproven if shown.left_out}
    if report.run.selection:
        return say("only a part was requested: {selection}", selection=phrase(report.run.selection))
    return say("only a part was requested") if left else ""


def _defects(report: Report, policy: Policy) -> Iterator[Defect]:
    """Every item that is not shown to hold on every node, in the order of the table."""
    titles = {**{claim.name: claim.title for claim in claims()}, OTHER: _OTHER, PLATFORM: _PLATFORM}
    places: dict[str, dict[State | None, list[str]]] = {name: {} for name in titles}
    for node in report.nodes:
        found = {**_unfulfilled(node), **({} if policy.is_for(node.platform) else {PLATFORM: State.NOT_PROVEN})}
        for claim, state in found.items():
            places.setdefault(claim, {}).setdefault(state, []).append(node.node)
    for claim, of_state in places.items():
        if of_state:
            refuted, unproven, signed = (in_order(of_state.get(state, ())) for state in _STATES)
            yield Defect(policy.item(claim), titles.get(claim, claim), refuted, unproven, signed)
    names = tuple(node.node for node in report.nodes)
    for item in policy.not_measured:
        yield Defect(item, item.title, open=names)


def _unfulfilled(node: NodeReport) -> Mapping[str, State | None]:
    """The claims that are not shown to hold on a node, with their state; None where it is signed for."""
    found: dict[str, State | None] = {}
    for shown in node.claims:
        if shown.state is not State.PROVEN:
            found[shown.claim] = None if shown.signed else shown.state
    bad = [record for record in node.records if record.verdict in (Verdict.FAIL, Verdict.ERROR)]
    for record in sorted(bad, key=lambda record: (not record.waiver, record.verdict is Verdict.FAIL)):  # worst last
        owners = [claim.name for claim in claims() if speaks(claim, record.check)]
        if not any(owner in found for owner in owners):
            # no claim of the node tells it: `owners` are claims that its profile does not make
            if record.waiver:
                found[OTHER] = None
            elif record.verdict is Verdict.ERROR:
                found[OTHER] = State.NOT_PROVEN
            else:
                found |= dict.fromkeys(owners or (OTHER,), State.REFUTED)
    if node.verdict not in GOOD and not found:
        found[OTHER] = State.REFUTED if node.verdict is NodeVerdict.REJECTED else State.NOT_PROVEN
    return found


def _rules(defects: Sequence[Defect], policy: Policy) -> Iterator[_Rule]:
    """How many nodes may fail what: each item with a share of its own by itself, the others of a class together."""
    for sort in (DefectClass.A, DefectClass.B):
        ours = [each for each in defects if each.item.defect_class is sort]
        for each in ours:
            if each.item.may_fail_percent is not None:
                yield _Rule((each,), sort, each.item.may_fail_percent, each.item.clause)
        shared = [each for each in ours if each.item.may_fail_percent is None]
        # what nodegate does not measure is open on every node by agreement: of class B a reservation
        shared = [each for each in shared if each.item.is_measured or sort is DefectClass.A]
        if shared:
            rule: ClassRule = policy.classes[sort]
            yield _Rule(tuple(shared), sort, rule.may_fail_percent, rule.clause)


def _over(rule: _Rule, total: int, *, proven_only: bool) -> str:
    """Why more nodes fail than may; empty where they do not. What is open counts too, unless `proven_only`."""
    places = [(each, each.refuted if proven_only else in_order((*each.refuted, *each.open))) for each in rule.defects]
    nodes = {name for _, names in places for name in names}
    if 100 * len(nodes) <= rule.may_fail_percent * total:
        return ""
    said = _said([(each, names) for each, names in places if names], total)
    share, clause = f"{rule.may_fail_percent:g} %", _clause(rule.clause)
    return said + say("; {share} may ({clause})", share=share, clause=clause) if rule.may_fail_percent else said


def _said(places: Sequence[tuple[Defect, Sequence[str]]], total: int) -> str:
    """The first of the defects on most nodes, with its clause, and how many more there are."""
    first, names = max(places, key=lambda place: len(place[1]))
    state = say("not measured by nodegate,")
    if first.item.is_measured:
        states = zip(_WORDS, (first.refuted, first.open, first.signed), strict=True)
        state = say(" or ").join(term(word) for word, where in states if set(where) & set(names))
    said = say(
        "class {sort} ({clause}): {claim} {state} on {n} of {nodes}",
        sort=first.item.defect_class.value,
        clause=_clause(first.item.clause),
        claim=first.item.claim,
        state=state,
        n=len(names),
        nodes=counted(total, "node"),
    )
    until = say(", until {day}", day=first.until) if first.until else ""
    return said + until + (f"; {counted(len(places) - 1, 'more claim')}" if len(places) > 1 else "")


def _clause(clause: str) -> str:
    return say("clause {clause}", clause=clause) if clause[:1].isdigit() else phrase(clause)


def _until(policy: Policy, item: Item, epoch_s: float) -> str:
    """The day by which a defect is put right; empty where nothing says it, or for a time that no calendar holds."""
    days = policy.classes[item.defect_class].days
    try:
        day = datetime.fromtimestamp(epoch_s, tz=timezone.utc) + timedelta(days=days)
    except (OverflowError, OSError, ValueError):
        return ""
    return f"{day:%Y-%m-%d}" if days else ""
