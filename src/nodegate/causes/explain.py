"""The causes of one node: its findings grouped by condition, and what follows from another put under it.

Every finding that is not a pass or a skip belongs to exactly one cause. A finding is put under another condition only
where the table says that this can be its reason, on the same part or node as the table says, and no further than the
condition can cost; so a fault that the first does not explain stays a cause of its own.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase

from nodegate.causes.conditions import Condition, Conditions, filled
from nodegate.errors import TOOL, UNREACHABLE_KINDS
from nodegate.numbers.parts import OF_BATCH
from nodegate.records.cause import NOT_JUDGED, ORDER, Cause, CheckFinding, Class, Severity
from nodegate.records.finding import NOT_FOR_LACK_OF_A_LIMIT, Finding, Record, kinds
from nodegate.records.part import NODE, Kind, Part
from nodegate.records.verdict import Verdict
from nodegate.unknown import Why

HEALTHY = frozenset((Verdict.PASS, Verdict.SKIP))
_BADNESS = {Verdict.FAIL: 0, Verdict.WARN: 1, Verdict.ERROR: 2, Verdict.NOT_JUDGED: 3}
_TRACE = 0.3  # of what a condition costs, so much is lost at least where it is the reason
_OF_THE_LOGIN = frozenset((Why.DENIED, Why.BUSY))  # reasons that no part has for itself
_NOT_JUDGED = Condition(NOT_JUDGED, 1 << 20, severity=Severity.NOT_JUDGED, one=True)


@dataclass
class _Group:
    """The findings of one condition on one part."""

    condition: Condition
    findings: list[CheckFinding] = field(default_factory=list)
    follows: list[CheckFinding] = field(default_factory=list)

    @property
    def decisive(self) -> CheckFinding:
        return min(self.findings, key=lambda each: (_BADNESS[each.finding.verdict], self.condition.telling(each)))

    @property
    def parts(self) -> tuple[Part, ...]:
        first = self.decisive.finding.part
        return tuple(dict.fromkeys((first, *(part for each in self.findings for part in each.finding.parts))))

    @property
    def severity(self) -> Severity:
        finding = self.decisive.finding
        if finding.verdict is Verdict.ERROR and finding.code in UNREACHABLE_KINDS:
            return Severity.UNUSABLE  # nothing runs on a node that cannot be reached
        return self.condition.severity_of(self.decisive)

    @property
    def is_failure(self) -> bool:
        return any(each.finding.verdict is Verdict.FAIL for each in self.findings)

    def leaves(self, finding: Finding) -> float | None:
        """The share of its rate that this condition leaves to what a finding is about; None if that is unknown."""
        shares = [each.finding.share for each in self.findings if each.finding.share is not None]
        return min(shares) if shares and finding.metric else None


def causes_of(records: Iterable[Record], table: Conditions) -> tuple[Cause, ...]:
    """The causes of one node, worst first.

    Args:
        records: what the checks say of the node.
        table: the conditions, and which explains which.
    """
    kept = list(records)
    told = [record for record in kept if not kinds(record.findings) <= HEALTHY]
    waivers = {(record.check, id(finding)): record.waiver for record in told for finding in record.findings}
    found = [
        CheckFinding(record.check, finding)
        for record in told
        for finding in record.findings
        if finding.verdict not in HEALTHY
    ]
    by_key: dict[tuple[object, ...], _Group] = {}
    for each in found:
        condition = _condition(each, table)
        key = (condition.name, None if condition.one else _owner(each.finding.part).key, _reason(each))
        by_key.setdefault(key, _Group(condition)).findings.append(each)
    groups = sorted(by_key.values(), key=lambda group: group.condition.place)
    _explain(groups)
    left = [group for group in groups if group.findings]
    causes = [_cause(kept[0].node, same, waivers) for same in _folded(left)] if kept else []
    return tuple(sorted(causes, key=worst_first))


def worst_first(cause: Cause) -> tuple[object, ...]:
    """The order in which causes are told."""
    unread = len(cause.findings) if cause.verdict is Verdict.ERROR else 0  # the most comes from what lies deepest
    badness = ORDER[cause.severity], _BADNESS[cause.verdict], -len(cause.nodes), -unread
    return bool(cause.waiver), *badness, cause.part.short


def _condition(each: CheckFinding, table: Conditions) -> Condition:
    if each.finding.verdict is Verdict.NOT_JUDGED:
        code = each.finding.code
        return replace(_NOT_JUDGED, name=code) if code in NOT_FOR_LACK_OF_A_LIMIT else _NOT_JUDGED
    condition = table.of(each)
    if each.finding.verdict is Verdict.ERROR and condition.severity is not Severity.NOT_MEASURED:
        return Condition(each.finding.code or "not_measured", len(table.known), one=True)
    return condition


def _reason(each: CheckFinding) -> tuple[str, ...]:
    """What findings share when they are one: of a batch its name, of errors what kept the check from judging.

    Two racks or firmwares that are slow are two causes. Errors that do not say what was lacking are one where they are
    about one part and subject; of the node as a whole those of each check stand for themselves.
    """
    finding = each.finding
    if finding.code.startswith(OF_BATCH):
        return (finding.code,)
    if finding.verdict is not Verdict.ERROR:
        return ()
    if known := finding.code or finding.lacks or finding.blocked_by:
        return (known,)
    if finding.why in _OF_THE_LOGIN:
        return (finding.why.value,)
    whose = _owner(finding.part)
    of = each.check if whose.kind is NODE.kind else whose.key
    return (finding.why.value if finding.why else each.check.partition(".")[0], of)


def alike_but_for_its_part(each: CheckFinding) -> tuple[object, ...]:
    """What two findings share that say the same of two parts, or of two nodes; their values may differ."""
    finding = each.finding
    limit = finding.limit.words() if finding.limit and not finding.metric else ""
    return (each.key, finding.quantity, limit, finding.verdict, finding.why, finding.lacks, finding.blocked_by)


def _owner(part: Part) -> Part:
    """The part that is worked on: the NIC of a port, the GPU of an NVLink."""
    return part.of or part


def _explain(groups: Sequence[_Group]) -> None:
    """Move each finding that follows from another condition under that one."""
    for group in reversed(groups):
        moved: dict[int, _Group] = {}
        for each in group.findings:
            reason = _best(each, group, [other for other in groups if other is not group])
            if reason is not None:
                moved[id(each)] = reason
        for each in [each for each in group.findings if id(each) in moved]:
            moved[id(each)].follows.append(each)
        group.findings = [each for each in group.findings if id(each) not in moved]
        if not group.findings and group.follows:  # what followed from it follows from its reason
            next(iter(moved.values())).follows.extend(group.follows)
            group.follows = []


def _best(each: CheckFinding, group: _Group, others: Sequence[_Group]) -> _Group | None:
    reasons = [other for other in others if other.findings and _is_reason(other, each, group)]
    if not reasons:
        return None
    return min(reasons, key=lambda other: (not _same_part(other, each), ORDER[other.severity], other.condition.place))


def _is_reason(reason: _Group, each: CheckFinding, group: _Group) -> bool:
    """Whether a condition can be the reason of this finding."""
    finding, condition = each.finding, reason.condition
    same = _same_part(reason, each)
    if finding.verdict is Verdict.ERROR:
        return _keeps_from_running(reason, each, same=same)
    if condition.place >= group.condition.place or (finding.verdict is Verdict.FAIL and not reason.is_failure):
        return False
    if not (group.condition.name in condition.on_node or (same and group.condition.name in condition.on_part)):
        return False
    leaves = reason.leaves(finding)
    if leaves is None or finding.share is None:
        return True
    return leaves * condition.reach <= finding.share <= 1 - (1 - leaves) * _TRACE


def _keeps_from_running(reason: _Group, each: CheckFinding, *, same: bool) -> bool:
    """Whether an `error` is there because of a condition that failed: its own word for it, or the table's.

    A warning is the reason of no error, and an error of the login or of a busy machine is nobody's.
    """
    if not reason.is_failure or each.finding.why in _OF_THE_LOGIN:
        return False
    if each.finding.blocked_by:
        return any(other.check == each.finding.blocked_by for other in (*reason.findings, *reason.follows))
    patterns = (*reason.condition.errors_of_node, *(reason.condition.errors_of_part if same else ()))
    return any(fnmatchcase(each.key if "/" in pattern else each.check, pattern) for pattern in patterns)


def _same_part(reason: _Group, each: CheckFinding) -> bool:
    return any(part.rests_on(other) for part in each.finding.parts for other in reason.parts)


def _folded(groups: Sequence[_Group]) -> list[list[_Group]]:
    """Groups that say the same of several parts of the node, together: one thing to do."""
    alike: defaultdict[tuple[object, ...], list[_Group]] = defaultdict(list)
    for group in groups:
        decisive = group.decisive.finding
        told = alike_but_for_its_part(group.decisive) if decisive.part.kind is not NODE.kind else id(group)
        alike[group.condition.name, decisive.verdict, told].append(group)
    return list(alike.values())


def _cause(node: str, groups: Sequence[_Group], waivers: dict[tuple[str, int], str]) -> Cause:
    first = groups[0]
    decisive = first.decisive
    shown = [each for group in groups for each in group.findings]
    failed = [each for each in shown if each.finding.verdict is Verdict.FAIL]
    covering = [waivers.get((each.check, id(each.finding)), "") for each in failed]
    return Cause(
        condition=first.condition.name,
        parts=(NODE,)
        if first.condition is _NOT_JUDGED
        else tuple(dict.fromkeys(part for group in groups for part in group.parts)),
        severity=first.severity,
        sort=_sort(first),
        decisive=decisive,
        same=tuple(each for each in shown if each is not decisive),
        follows=tuple(each for group in groups for each in group.follows),
        nodes=(node,),
        waiver=covering[0] if covering and all(covering) else "",
        words=filled(first.condition.says, decisive),
        do=filled(first.condition.do, decisive),
    )


def _sort(group: _Group) -> Class:
    finding = group.decisive.finding
    if finding.verdict is Verdict.ERROR and finding.code in UNREACHABLE_KINDS:
        return Class.ACCESS
    if finding.verdict is Verdict.ERROR and (finding.lacks.startswith(TOOL) or finding.part.kind is Kind.COLLECTIVE):
        return Class.TOOL  # what measures could not do its work: nothing is known of NVLink
    return group.condition.sort_of(group.decisive)
