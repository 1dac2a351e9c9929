"""The causes of a run as rows of the report: one line each, with the findings that it stands for below."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from nodegate.causes.lines import line, short_with_serial
from nodegate.records.cause import NOT_JUDGED, Cause, CheckFinding
from nodegate.records.finding import Finding
from nodegate.records.verdict import Verdict
from nodegate.report.model import Report, in_order
from nodegate.words.catalogue import phrase, say

MOST_DETAILS = 20  # lines of findings under one cause; findings.csv has all
MOST_PARTS = 64  # parts that are named one by one, of a cause of several nodes
_NOT_IN_AN_ANCHOR = re.compile(r"[^A-Za-z0-9_./:-]+")


@dataclass(frozen=True)
class Detail:
    """Findings that say the same: their checks, their parts, and where the limit comes from.

    `count` is the number of findings; `parts` names the first part and how many more there are.
    """

    verdict: str
    checks: tuple[str, ...]
    parts: str
    said: str
    source: str
    count: int


@dataclass(frozen=True)
class CauseRow:
    """One cause for the page.

    `anchor` is what the page calls it in links ("#cause=1650003000003/gpu_lost"), `sort` one of the words of `Class`,
    `place` the rack that it is a cause of, where it is the rack's. `parts` are "node part S/N serial" of each, where
    several nodes have it in a part of their own; then `part` is what sort of part. `left_out` is how many lines of
    findings are not in `shows` and `follows`, `modes` are the failure modes of the check that found it.
    """

    anchor: str
    severity: str
    sort: str
    nodes: tuple[str, ...]
    racks: tuple[str, ...]
    place: str
    part: str
    parts: tuple[str, ...]
    what: str
    action: str
    waiver: str
    shows: tuple[Detail, ...]
    follows: tuple[Detail, ...]
    follow_count: int
    left_out: int
    modes: tuple[str, ...]


def cause_rows(report: Report) -> list[CauseRow]:
    """A row for each cause of the run, worst first."""
    seen, rows = Counter[str](), []
    racks = {node.node: node.rack for node in report.nodes if node.rack}
    for cause in report.causes:
        anchor = _NOT_IN_AN_ANCHOR.sub("-", cause.id)[:120]  # the id as a link can hold it; a second one is numbered
        seen[anchor] += 1
        rows.append(_row(cause, anchor if seen[anchor] == 1 else f"{anchor}-{seen[anchor]}", report, racks))
    return rows


def _row(cause: Cause, anchor: str, report: Report, racks: Mapping[str, str]) -> CauseRow:
    said = line(cause, report.checks)
    shows, follows = _details((cause.decisive, *cause.same)), _details(cause.follows)
    info = report.checks.get(cause.decisive.check)
    return CauseRow(
        anchor=anchor,
        severity=said.severity,
        sort=cause.sort.value,
        nodes=cause.nodes,
        racks=in_order({racks[name] for name in cause.nodes if name in racks}),
        place=cause.place,
        part=said.part,
        parts=_parts(cause),
        what=said.what,
        action=said.action,
        waiver=phrase(cause.waiver),
        shows=tuple(shows[:MOST_DETAILS]),
        follows=tuple(follows[:MOST_DETAILS]),
        follow_count=len(cause.follows),
        left_out=max(0, len(shows) - MOST_DETAILS) + max(0, len(follows) - MOST_DETAILS),
        modes=info.failure_modes if info and cause.condition != NOT_JUDGED else (),
    )


def _parts(cause: Cause) -> tuple[str, ...]:
    """Which part it is on each node, where that differs or has a serial number."""
    named = [(each.nodes[0], [part for part in each.parts if part.kind is each.part.kind]) for each in cause.members]
    if len({part.said for _, parts in named for part in parts}) < 2 and not any(
        (part.of or part).serial for _, parts in named for part in parts
    ):
        return ()
    found = [f"{node} {short_with_serial(part)}" for node, parts in named for part in parts]
    more = len(found) - MOST_PARTS
    return (*found[:MOST_PARTS], say("{n} more in findings.csv", n=more)) if more > 0 else tuple(found)


def _details(found: Iterable[CheckFinding]) -> list[Detail]:
    """The findings, those that say the same in one line, the failures first."""
    alike: dict[tuple[object, ...], list[CheckFinding]] = {}
    for each in found:
        finding = each.finding
        if finding.verdict is Verdict.ERROR:
            same: object = finding.text
        else:
            same = (finding.quantity, finding.expected, finding.unit) if finding.metric else finding.brief
        alike.setdefault((finding.verdict, same), []).append(each)
    rows = []
    for group in alike.values():
        first = group[0].finding
        names = list(dict.fromkeys(part.said for each in group for part in each.finding.parts))
        parts = say("{part} + {n} more", part=names[0], n=len(names) - 1) if len(names) > 1 else names[0]
        checks, source = dict.fromkeys(each.check for each in group), first.limit.cited if first.limit else ""
        said = _said([each.finding for each in group])
        rows.append(Detail(first.verdict.value, tuple(checks), parts, said, source, len(group)))
    return rows


def _said(alike: list[Finding]) -> str:
    """What findings say in common: of readings that failed for one reason, the reason."""
    first = alike[0]
    if first.verdict is Verdict.ERROR:
        quantities = dict.fromkeys(each.quantity for each in alike)
        if len(quantities) > 1:
            return say("could not read {n} values: {why}", n=len(quantities), why=first.reason)
    elif len(alike) > 1 and first.metric:
        return say("{finding}; and {n} more like it", finding=first.brief, n=len(alike) - 1)
    return first.brief
