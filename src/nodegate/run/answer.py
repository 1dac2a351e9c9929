"""The answer of a run, last on the terminal: how many nodes, which, why, and what to do. Nothing of it is cut off."""

from __future__ import annotations

import re
import textwrap
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from nodegate.causes.lines import CauseLine, line
from nodegate.inventory.hostlist import fold
from nodegate.policy.policy import DEFAULT
from nodegate.records.cause import Cause, Severity
from nodegate.records.verdict import GOOD, NODE_ORDER, NodeVerdict, Verdict
from nodegate.report.claim_rows import open_claims, unproven_count
from nodegate.report.fleet_result import FleetVerdict, fleet_result
from nodegate.report.model import Report
from nodegate.text import counted
from nodegate.words.catalogue import known, phrase, say, speaking, term

MOST_CAUSES = 32  # on a wide terminal the answer is a screen
MOST_OPEN = 4  # lines on claims that are not proven
NARROWEST = 80
MANIFEST_LETTERS = 16  # of its SHA-256, which report.json and the report have whole
_COLUMNS = (12, 20, 24)  # severity, nodes, part: what is longer moves only its own line
_BELOW = " " * 6  # what goes on, and an action that has no room beside its cause
_LONGEST_LIST = 12  # a longer list of nodes is counted in a cause's line
_SECOND = "\x7f"
_TWO_COLUMNS = re.compile(
    f"[\u1100-\u115f\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6](?!{_SECOND})"
)
_SHORT = {Severity.CONFIGURATION.value: known("config")}
_RED = frozenset((Severity.WRONG_DATA, Severity.LOST, Severity.UNUSABLE))
_FLEET = {
    FleetVerdict.ACCEPTED: "green",
    FleetVerdict.RESERVATIONS: "yellow",
    FleetVerdict.REFUSED: "red",
    FleetVerdict.UNDECIDED: "yellow",
}
_MARKS = {NodeVerdict.REJECTED: "red", NodeVerdict.UNREACHABLE: "red", NodeVerdict.INCOMPLETE: "yellow"}


@dataclass(frozen=True)
class AnswerLine:
    """One line, and its colour on a terminal: "red", "yellow", "green" or none."""

    text: str
    colour: str = ""


def lines(report: Report, folder: Path, width: int) -> list[AnswerLine]:
    """The answer, line by line in the run's language, each at most `width` columns (80 at the least)."""
    lang = next(iter(report.run.contract.languages), "en")
    with speaking(lang):
        said = list(_said(report if lang == "en" else replace(report), folder, max(NARROWEST, width)))
    return [replace(each, text=_narrow(each.text)) for each in said]


def _said(report: Report, folder: Path, width: int) -> Iterator[AnswerLine]:
    yield from _head(report, width)
    yield from _fleet(report, width)
    yield from _bad_nodes(report, width)
    if report.run.interrupted:
        text = "the run ended before every check was judged; continue with: {command}"
        yield from _lines(say(known(text), command=f"pytest --resume {folder}"), width, "yellow")
    if report.run.answer:
        yield from _lines(say("answer: {answer}", answer=phrase(report.run.answer)), width)
    yield from _causes(report, width)
    yield from _open_claims(report, width)
    if (folder / "report.html").exists():
        manifest = report.run.manifest_sha256[:MANIFEST_LETTERS]
        beside = say("    manifest: {sha256}", sha256=manifest) if manifest else ""
        yield AnswerLine(say("report: {file}", file=folder / "report.html") + beside)
    if report.causes:
        first = next((cause.nodes[0] for cause in report.causes if cause.nodes), "NODE")
        yield AnswerLine(say("details: {command}", command=f"nodegate show {first} --run {folder}"))


def _head(report: Report, width: int) -> Iterator[AnswerLine]:
    """The verdicts of the nodes, and how much of what was requested could not be judged."""
    counts = Counter(node.verdict for node in report.nodes)
    said = say(", ").join(
        say("{n} {verdict}", n=counts[each], verdict=term(each.value)) for each in NODE_ORDER if counts[each]
    )
    gpus = sum(node.gpus for node in report.nodes)
    good = sum(node.gpus for node in report.nodes if node.verdict in GOOD)
    text = say("{counts} of {nodes}", counts=said or say("none"), nodes=counted(len(report.nodes), "node"))
    text += say(" ({n} of {gpus} accepted)", n=good, gpus=counted(gpus, "GPU")) if gpus else ""
    unproven = unproven_count(report)
    text += f"; {unproven}" if unproven else ""
    unjudged = sum(record.verdict is Verdict.NOT_JUDGED for node in report.nodes for record in node.records)
    text += say("; {checks} not judged", checks=counted(unjudged, "check")) if unjudged else ""
    worst = next((verdict for verdict in NODE_ORDER if counts[verdict]), NodeVerdict.NOT_JUDGED)
    yield from _lines(text, width, _MARKS.get(worst, "green" if worst in GOOD else "yellow"))


def _fleet(report: Report, width: int) -> Iterator[AnswerLine]:
    """What the nodes come to as a delivery, and the clause that decided."""
    result = fleet_result(report)
    if result is not None and report.policy is not None:
        policy = say(" by policy {name}", name=report.policy.name) if report.policy.name != DEFAULT else ""
        said = say("fleet: {verdict}{policy}: {why}", verdict=term(result.verdict.value), policy=policy, why=result.why)
        yield from _lines(said, width, _FLEET[result.verdict])


def _bad_nodes(report: Report, width: int) -> Iterator[AnswerLine]:
    """Every node that may not carry work, by name: a cause's line has room for a few of them only.

    Those on which nothing failed are named where it says what is not proven.
    """
    named = {name for row in open_claims(report)[:MOST_OPEN] if _fits(row.nodes) for name in row.nodes}
    for verdict, colour in _MARKS.items():
        names = fold(node.node for node in report.nodes if node.verdict is verdict and node.node not in named)
        if names:
            wrapped = _wrapped(f"{term(verdict.value)}: {names.replace(',', ', ')}", width)
            yield from (AnswerLine(each.replace(", ", ","), colour) for each in wrapped)


def _causes(report: Report, width: int) -> Iterator[AnswerLine]:
    shown = _shown(report)
    rows = [tuple(map(_wide, _cells(cause, line(cause, report.checks)))) for cause in shown]
    heads, whats = _columns(rows, width)
    for cause, head, (*_, what, action) in zip(shown, heads, rows, strict=True):
        colour = "" if cause.waiver else "red" if cause.severity in _RED else "yellow"
        forms = (f"  {head}  {what.ljust(whats)}  {action}".rstrip(), f"  {head}  {what} - {action}")
        if text := next((each for each in forms if len(each) <= width), ""):
            yield AnswerLine(text, colour)
        else:
            yield from _lines(f"  {head}  {what}", width, colour)
            yield from _lines(_BELOW + action, width, colour) if action else ()
    left = [cause for cause in report.causes if cause not in shown]
    if left:
        named = {name for cause in shown for name in cause.nodes}
        others = [name for cause in left for name in cause.nodes if name not in named]
        more = say(", also on {nodes}", nodes=fold(others)) if others else ""
        yield from _lines(say("  {causes} in the report", causes=counted(len(left), "more cause")) + more, width)


def _open_claims(report: Report, width: int) -> Iterator[AnswerLine]:
    """Why nodes on which nothing failed are not accepted."""
    rows = open_claims(report)
    for row in rows[:MOST_OPEN]:
        where = fold(row.nodes) if _fits(row.nodes) else counted(len(row.nodes), "node")
        said = f"{where}  {counted(len(row.claims), 'claim')}: {row.said} - {row.action}"
        text = f"  {term('not proven')}  {said}"
        yield from _lines(text, width, "yellow")
    if len(rows) > MOST_OPEN:
        text = "  {n} more reasons why claims are not proven: in the report"
        yield AnswerLine(say(known(text), n=len(rows) - MOST_OPEN), "yellow")


def _fits(nodes: Sequence[str]) -> bool:
    return len(fold(nodes)) <= _LONGEST_LIST * 2


def _cells(cause: Cause, row: CauseLine) -> tuple[str, ...]:
    """Severity, nodes, part, what and action; a list of nodes is never cut: half of a list reads as a whole one."""
    where = row.where
    if len(cause.nodes) > 1 and len(where) > _LONGEST_LIST:
        where = say("rack {rack}", rack=cause.place) if cause.place else counted(len(cause.nodes), "node")
    what = row.what + (say("; {n} follow", n=row.more) if row.more else "") + (say(" (waived)") if cause.waiver else "")
    return term(_SHORT.get(row.severity, row.severity)), where, row.part, what, row.action


def _columns(table: Sequence[tuple[str, ...]], width: int) -> tuple[list[str], int]:
    """Severity, nodes and part of each row as one text, and the width that what is the matter gets beside it."""
    needed = [max((len(row[column]) for row in table), default=0) for column in range(4)]
    first = [min(most, need) for most, need in zip(_COLUMNS, needed, strict=False)]
    heads = ["  ".join(cell.ljust(room) for cell, room in zip(row, first, strict=False)) for row in table]
    return heads, min(needed[3], (width - 2 - sum(first) - 2 * 4) * 3 // 5)


def _shown(report: Report) -> Sequence[Cause]:
    """The worst causes; at least one of each rejected, unreachable or incomplete node, as far as there is room."""
    chosen = list(report.causes[:MOST_CAUSES])
    if len(chosen) < len(report.causes):
        named = {name for cause in chosen for name in cause.nodes}
        for node in report.nodes:
            first = next((cause for cause in report.causes if node.node in cause.nodes), None)
            if node.verdict in _MARKS and node.node not in named and first is not None:
                named.update(first.nodes)
                chosen.append(first)
        while len(chosen) > MOST_CAUSES and (spare := _spare(chosen)) is not None:
            chosen.remove(spare)
    chosen = chosen[:MOST_CAUSES]
    return [cause for cause in report.causes if cause in chosen]


def _spare(chosen: Sequence[Cause]) -> Cause | None:
    """The mildest cause all of whose nodes another line names too."""
    times = Counter(name for cause in chosen for name in cause.nodes)
    return next((cause for cause in reversed(chosen) if all(times[name] > 1 for name in cause.nodes)), None)


def _lines(text: str, width: int, colour: str = "") -> Iterator[AnswerLine]:
    """A text in whole words, on as many lines as it takes."""
    yield from (AnswerLine(each, colour) for each in _wrapped(text, width))


def _wide(text: str) -> str:
    """The text with a placeholder beside each character that takes two columns, so that its length is its width."""
    return text if text.isascii() else _TWO_COLUMNS.sub(rf"\g<0>{_SECOND}", text)


def _narrow(shown: str) -> str:
    return shown.replace(_SECOND, "")


def _wrapped(text: str, width: int) -> list[str]:
    text = _wide(text)
    begin = text[: len(text) - len(text.lstrip())]
    rest = begin if len(begin) >= len(_BELOW) else _BELOW if begin else "  "
    return textwrap.wrap(text, width, subsequent_indent=rest, break_on_hyphens=False)
