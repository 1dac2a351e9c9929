"""What is wrong, worst first, what was waived and what was not judged: equal findings of many nodes as one row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from nodegate.judge.verdict import Finding, NodeVerdict, Record, Verdict
from nodegate.report.fold import natural
from nodegate.report.model import check_ids
from nodegate.report.stats import number
from nodegate.report.text import with_unit

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from nodegate.report.model import NodeReport, Report

_ORDER = ("fail", "unreachable", "error", "warn")
_BAD = (Verdict.FAIL, Verdict.ERROR, Verdict.WARN)


@dataclass(frozen=True)
class Sentence:
    """A finding's line, `subject: what observed unit, expected ... (source) - remedy`, in its parts."""

    observed: str
    expected: str
    action: str


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong, on one node or the same on many. `verdict` is a check verdict's word or `unreachable`."""

    verdict: str
    check: str
    failure_modes: tuple[str, ...]
    observed: str
    expected: str
    action: str
    nodes: tuple[str, ...]
    racks: tuple[str, ...]
    subjects: tuple[str, ...]
    findings: int


@dataclass(frozen=True)
class Waived:
    """Failures that a waiver covers."""

    waiver: str
    check: str
    observed: str
    nodes: tuple[str, ...]


@dataclass(frozen=True)
class Gap:
    """Checks that say nothing of some nodes, and why."""

    reason: str
    checks: tuple[str, ...]
    nodes: tuple[str, ...]


def sentence(finding: Finding) -> Sentence:
    """The parts of the finding's line; what the line does not say comes from the finding's limit."""
    text = finding.message.removeprefix(f"{finding.subject}: ")
    action = finding.action
    if action:
        text = text.removesuffix(f" - {action}")
    observed, comma, expected = text.partition(", expected ")
    if not comma and finding.limit is not None:
        expected = with_unit(finding.limit, finding.unit)
    if expected and finding.limit_source not in expected:
        expected += f" ({finding.limit_source})"
    return Sentence(observed, expected, action)


def bad_findings(record: Record) -> Iterator[Finding]:
    """The findings of a record that are no pass and no skip; a record that has none speaks for itself."""
    bad = [finding for finding in record.findings if finding.verdict in _BAD]
    yield from bad
    if not bad and record.verdict in _BAD:
        reason, _, action = record.message.rpartition(" - ")
        yield Finding("", record.verdict, record.message, action=action if reason else "")


def problems(report: Report) -> list[Problem]:
    """Everything that is wrong and not waived: failures, nodes out of reach, errors, warnings; the widest first."""
    groups: dict[tuple[str, ...], list[tuple[NodeReport, Record, Finding]]] = {}
    lost: dict[str, list[NodeReport]] = {}
    for node in report.nodes:
        if node.verdict is NodeVerdict.UNREACHABLE:
            lost.setdefault(node.unreachable, []).append(node)
            continue
        for record in node.records:
            for finding in () if record.waiver else bad_findings(record):
                groups.setdefault(_key(record, finding), []).append((node, record, finding))
    found = [_problem(members) for members in groups.values()]
    found.extend(_unreachable(reason, nodes) for reason, nodes in lost.items())
    return sorted(found, key=lambda row: (_ORDER.index(row.verdict), -len(row.nodes), row.check, natural(row.nodes[0])))


def waived(report: Report) -> list[Waived]:
    """The failures that waivers cover, by waiver."""
    groups: dict[tuple[str, str, str], list[str]] = {}
    for node in report.nodes:
        for record in node.records:
            if record.waiver:
                seen = dict.fromkeys(sentence(finding).observed for finding in bad_findings(record))
                groups.setdefault((record.waiver, record.check, "; ".join(seen) or record.message), []).append(node.node)
    return [Waived(waiver, check, observed, _sorted(nodes)) for (waiver, check, observed), nodes in groups.items()]


def not_judged(report: Report) -> list[Gap]:
    """Skipped checks by their reason, and checks of reachable nodes that left no result at all."""
    pairs: dict[tuple[str, str], list[str]] = {}
    checks = check_ids(report)
    for node in report.nodes:
        if node.verdict is NodeVerdict.UNREACHABLE:
            continue
        judged = set()
        for record in node.records:
            judged.add(record.check)
            if record.verdict is Verdict.SKIP:
                pairs.setdefault((record.check, record.message), []).append(node.node)
        for check in checks:
            if check not in judged:
                pairs.setdefault((check, "left no result: the run ended before it, or it was not asked for"), []).append(
                    node.node
                )
    merged: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for (check, reason), nodes in pairs.items():
        merged.setdefault((reason, _sorted(nodes)), []).append(check)
    gaps = [Gap(reason, tuple(found), nodes) for (reason, nodes), found in merged.items()]
    return sorted(gaps, key=lambda gap: (-len(gap.nodes) * len(gap.checks), gap.reason))


def _key(record: Record, finding: Finding) -> tuple[str, ...]:
    """What two findings share when they are the same problem: everything but the node, the device and a number."""
    said = sentence(finding)
    observed = "" if _is_number(finding) else said.observed
    return (finding.verdict.value, record.check, finding.metric, finding.unit, said.expected, said.action, observed)


def _is_number(finding: Finding) -> bool:
    return bool(finding.metric) and number(finding.value) is not None


def _problem(members: list[tuple[NodeReport, Record, Finding]]) -> Problem:
    _, record, first = members[0]
    said = sentence(first)
    values = sorted({value for _, _, finding in members if (value := number(finding.value)) is not None})
    observed = said.observed
    if _is_number(first) and len(values) > 1:
        observed = f"{first.metric} {with_unit(values[0], '')} to {with_unit(values[-1], first.unit)}"
    return Problem(
        verdict=first.verdict.value,
        check=record.check,
        failure_modes=record.failure_modes,
        observed=observed,
        expected=said.expected,
        action=said.action,
        nodes=_sorted(node.node for node, _, _ in members),
        racks=_sorted(node.rack for node, _, _ in members if node.rack),
        subjects=_sorted(finding.subject for _, _, finding in members if finding.subject),
        findings=len(members),
    )


def _unreachable(reason: str, nodes: list[NodeReport]) -> Problem:
    observed, _, action = reason.rpartition(" - ")
    names, racks = _sorted(node.node for node in nodes), _sorted(node.rack for node in nodes if node.rack)
    said, todo = (observed, action) if observed else (reason, "")
    return Problem("unreachable", "", ("F10",), said or "no reason was given", "", todo, names, racks, (), len(nodes))


def _sorted(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(set(names), key=lambda name: (natural(name), name)))
