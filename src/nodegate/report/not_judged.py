"""What a run says nothing about, and why: checks that had nothing to judge by, that gave no result, or do not apply."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from nodegate.records.finding import Record, kinds
from nodegate.records.verdict import NodeVerdict, Verdict
from nodegate.report.model import Report, check_ids, in_order
from nodegate.words.catalogue import known, phrase

NO_RESULT = known("no result: the run ended before this check, or it was not requested")
NO_LIMIT = known("no baseline has a limit for what was measured, and too few nodes measured the same to compare with")
_Reason = tuple[str, bool]  # in words, and whether it is that no limit is known
_Pairs = dict[tuple[_Reason, str], dict[str, None]]  # (reason, check) -> nodes


@dataclass(frozen=True)
class Gap:
    """One reason why checks say nothing of some nodes; where it `lacks_limit`, `keys` are those that would help."""

    reason: str
    checks: tuple[str, ...]
    nodes: tuple[str, ...]
    keys: tuple[str, ...] = ()
    lacks_limit: bool = False


def not_judged(report: Report) -> list[Gap]:
    """Checks that apply but have no limit to judge by, and checks of nodes in reach that left no result; widest first.

    A check counts where any part of its node was not judged, for a worse verdict on another part hides that one.
    """
    checks = check_ids(report)
    pairs: _Pairs = {}
    keys: dict[str, set[str]] = {}
    for node in report.nodes:
        for record in node.records:
            keys.setdefault(record.check, set())
            if Verdict.NOT_JUDGED in kinds(record.findings):
                for reason in _reasons(record, Verdict.NOT_JUDGED):
                    pairs.setdefault((reason, record.check), {})[node.node] = None
                bare = (each.metric for each in record.findings if each.verdict is Verdict.NOT_JUDGED and each.metric)
                keys[record.check].update(bare)
        if node.verdict is not NodeVerdict.UNREACHABLE:
            for check in set(checks).difference(record.check for record in node.records):
                pairs.setdefault(((NO_RESULT, False), check), {})[node.node] = None
    return [
        replace(gap, keys=tuple(sorted(set().union(*(keys[check] for check in gap.checks)))))
        if gap.lacks_limit
        else gap
        for gap in _folded(pairs)
    ]


def not_applicable(report: Report) -> list[Gap]:
    """Checks that do not apply to a node, or that were not requested; widest first."""
    pairs: _Pairs = {}
    for node in report.nodes:
        for record in node.records:
            if record.verdict is Verdict.SKIP:
                for reason in _reasons(record, Verdict.SKIP):
                    pairs.setdefault((reason, record.check), {})[node.node] = None
    return _folded(pairs)


def unjudged_checks(report: Report) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The checks that were not judged on some node for want of a limit, and those nodes."""
    found = [
        (record.check, node.node)
        for node in report.nodes
        for record in node.records
        if Verdict.NOT_JUDGED in kinds(record.findings)
    ]
    return tuple(dict.fromkeys(check for check, _ in found)), in_order(node for _, node in found)


def _reasons(record: Record, verdict: Verdict) -> Iterable[_Reason]:
    """The reasons without part and value, which differ where the reason does not."""
    is_open = verdict is Verdict.NOT_JUDGED
    return dict.fromkeys(
        (NO_LIMIT, True) if is_open and each.metric else (each.note or each.text or each.seen, False)
        for each in record.findings
        if each.verdict is verdict
    )


def _folded(pairs: _Pairs) -> list[Gap]:
    alike: dict[tuple[_Reason, tuple[str, ...]], list[str]] = {}
    for (reason, check), nodes in pairs.items():
        alike.setdefault((reason, in_order(nodes)), []).append(check)
    gaps = [
        Gap(said, tuple(sorted(checks)), nodes, lacks_limit=no_limit)
        for ((said, no_limit), nodes), checks in alike.items()
    ]
    return sorted(gaps, key=lambda gap: (-len(gap.nodes) * len(gap.checks), gap.reason))


@dataclass(frozen=True)
class Waived:
    """Failures of one check that one waiver covers, with what was found."""

    waiver: str
    check: str
    found: str
    nodes: tuple[str, ...]


def waived(report: Report) -> list[Waived]:
    """The failures that waivers cover, by waiver."""
    alike: dict[tuple[str, str, str], list[str]] = {}
    for node in report.nodes:
        for record in node.records:
            if record.waiver:
                found = "; ".join(dict.fromkeys(f"{each.part.said}: {each.brief}" for each in record.decisive))
                alike.setdefault((phrase(record.waiver), record.check, found), []).append(node.node)
    return [Waived(waiver, check, found, in_order(nodes)) for (waiver, check, found), nodes in alike.items()]
