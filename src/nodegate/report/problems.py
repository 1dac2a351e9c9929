"""What is wrong, worst first, what was waived and what was not judged: equal findings of many nodes as one row."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from nodegate.finding import Finding, Record
from nodegate.inventory.hostlist import natural
from nodegate.part import NODE
from nodegate.report.model import check_ids
from nodegate.report.stats import number
from nodegate.text import with_unit
from nodegate.verdict import NodeVerdict, Verdict

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from nodegate.part import NODE
from nodegate.report.model import NodeReport, Report

_ORDER = ("fail", "unreachable", "error", "warn")
_DIGITS = re.compile(r"[0-9][0-9.,]*")
_MORE = re.compile(r"^ \(and \d+ more\)", re.ASCII)
NO_RESULT = "left no result: the run ended before it, or it was not asked for"
_BAD = (Verdict.FAIL, Verdict.ERROR, Verdict.WARN)


@dataclass(frozen=True)
class Sentence:
    """A finding's line, `subject: what observed unit, expected ... (source) - remedy`, in its parts."""

    observed: str
    expected: str
    action: str


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong, on one node or the same on many, as one check says it or several say alike.

    `verdict` is a check verdict's word or `unreachable`; that has no check.
    """

    verdict: str
    checks: tuple[str, ...]
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
    expected = f"{finding.limit.words()} ({finding.limit.source})" if finding.limit else ""
    return Sentence(finding.brief, expected, finding.action)


def bad_findings(record: Record) -> Iterator[Finding]:
    """The findings of a record that are no pass and no skip; a record that has none speaks for itself."""
    bad = [finding for finding in record.findings if finding.verdict in _BAD]
    yield from bad
    if not bad and record.verdict in _BAD:
        text = _without(record.node, record.message)
        reason, _, action = text.rpartition(" - ")
        yield Finding(NODE, record.verdict, text=text, action=action if reason else "")


def remark(record: Record) -> str:
    """What the record's line says beyond its findings: why a waiver does not hold."""
    return record.remark


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
    found = _merged(_problem(members) for members in groups.values())
    found.extend(_unreachable(reason, nodes) for reason, nodes in lost.items())
    return sorted(found, key=_worst_and_widest)


def waived(report: Report) -> list[Waived]:
    """The failures that waivers cover, by waiver."""
    groups: dict[tuple[str, str, str], list[str]] = {}
    for node in report.nodes:
        for record in node.records:
            if record.waiver:
                seen = dict.fromkeys(sentence(finding).observed for finding in bad_findings(record))
                key = (record.waiver, record.check, "; ".join(seen) or record.message)
                groups.setdefault(key, []).append(node.node)
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
                pairs.setdefault((record.check, _why_skipped(record)), []).append(node.node)
        for check in checks:
            if check not in judged:
                pairs.setdefault((check, NO_RESULT), []).append(node.node)
    merged: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for (check, reason), nodes in pairs.items():
        merged.setdefault((reason, _sorted(nodes)), []).append(check)
    gaps = [Gap(reason, tuple(found), nodes) for (reason, nodes), found in merged.items()]
    return sorted(gaps, key=lambda gap: (-len(gap.nodes) * len(gap.checks), gap.reason))


def _key(record: Record, finding: Finding) -> tuple[str, ...]:
    """What two findings share when they are the same problem: everything but the node, the device and a number."""
    said = sentence(finding)
    observed = _DIGITS.sub("0", said.observed) if _is_number(finding) else said.observed
    what = (finding.verdict.value, record.check, finding.quantity, finding.unit)
    return (*what, said.expected, said.action, observed, remark(record))


def _is_number(finding: Finding) -> bool:
    return bool(finding.quantity) and number(finding.observed) is not None


def _problem(members: list[tuple[NodeReport, Record, Finding]]) -> Problem:
    _, record, first = members[0]
    said = sentence(first)
    values = sorted({value for _, _, finding in members if (value := number(finding.observed)) is not None})
    observed = said.observed
    if _is_number(first) and len(values) > 1:
        observed = f"{first.quantity} {with_unit(values[0], '')} to {with_unit(values[-1], first.unit)}"
    if remark(record):
        observed += f" ({remark(record)})"
    return Problem(
        verdict=first.verdict.value,
        checks=(record.check,),
        failure_modes=record.failure_modes,
        observed=observed,
        expected=said.expected,
        action=said.action,
        nodes=_sorted(node.node for node, _, _ in members),
        racks=_sorted(node.rack for node, _, _ in members if node.rack),
        subjects=_sorted(finding.part.label for _, _, finding in members),
        findings=len(members),
    )


def _worst_and_widest(row: Problem) -> tuple[object, ...]:
    return _ORDER.index(row.verdict), -len(row.nodes), row.checks, natural(row.nodes[0])


def _merged(found: Iterable[Problem]) -> list[Problem]:
    """Problems that several checks report alike (a tool is missing, a driver is dead) as one."""
    alike: dict[Problem, list[Problem]] = {}
    for row in found:
        alike.setdefault(replace(row, checks=(), failure_modes=()), []).append(row)
    return [
        replace(
            rows[0],
            checks=tuple(sorted(check for row in rows for check in row.checks)),
            failure_modes=tuple(sorted({mode for row in rows for mode in row.failure_modes})),
        )
        for rows in alike.values()
    ]


def _unreachable(reason: str, nodes: list[NodeReport]) -> Problem:
    observed, _, action = reason.rpartition(" - ")
    names, racks = _sorted(node.node for node in nodes), _sorted(node.rack for node in nodes if node.rack)
    said, todo = (observed, action) if observed else (reason, "")
    return Problem("unreachable", (), ("F10",), said or "no reason was given", "", todo, names, racks, (), len(nodes))


def _why_skipped(record: Record) -> str:
    """The reasons of a skip without the devices: they are the same on every node."""
    skips = [finding for finding in record.findings if finding.verdict is Verdict.SKIP]
    return "; ".join(dict.fromkeys(sentence(finding).observed for finding in skips)) or _without(
        record.node, record.message
    )


def _without(node: str, text: str) -> str:
    """The text without the node's name before it: it stands beside it already."""
    return text.removeprefix(f"{node}: ")


def _sorted(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(set(names), key=lambda name: (natural(name[:200]), name)))
