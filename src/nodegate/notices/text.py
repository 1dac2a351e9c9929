"""A notice as text for people: the first line says who, what and the result; then what is new, worst first."""

from __future__ import annotations

import socket
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from nodegate.inventory.hostlist import fold
from nodegate.records.cause import Severity
from nodegate.records.verdict import NODE_ORDER, NodeVerdict
from nodegate.text import visible
from nodegate.words.catalogue import Words, known

if TYPE_CHECKING:
    from pathlib import Path

    from nodegate.notices.message import Item
    from nodegate.notices.news import News
    from nodegate.report.model import Report

MOST_NEW, MOST_GONE = 30, 10  # lines
_LONGEST = 400  # of a line
VERDICTS = {
    NodeVerdict.REJECTED: known("{n} rejected"),
    NodeVerdict.UNREACHABLE: known("{n} unreachable"),
    NodeVerdict.INCOMPLETE: known("{n} incomplete"),
    NodeVerdict.NOT_JUDGED: known("{n} not judged"),
    NodeVerdict.GAPS: known("{n} accepted with gaps"),
    NodeVerdict.WAIVED: known("{n} accepted with waivers"),
    NodeVerdict.ACCEPTED: known("{n} accepted"),
}
SEVERITIES = {
    Severity.WRONG_DATA: known("wrong data"),
    Severity.LOST: known("lost"),
    Severity.UNUSABLE: known("unusable"),
    Severity.SLOW: known("slow"),
    Severity.LINK: known("link"),
    Severity.DEGRADED: known("degraded"),
    Severity.CONTRACT: known("contract"),
    Severity.CONFIGURATION: known("configuration"),
    Severity.DRIFT: known("drift"),
    Severity.NOT_MEASURED: known("not measured"),
    Severity.NOT_JUDGED: known("not judged"),
}
EVENTS = {
    "not-run": known("the night did not run"),
    "cut-short": known("the night was cut short"),
    "nothing-judged": known("the night judged no node"),
    "busy": known("nodes that were busy every night"),
    "no-report": known("the run has left no report"),
}


def of_run(words: Words, report: Report, found: News, folder: Path) -> str:
    """The text of a run's notice."""
    counts = Counter(node.verdict for node in report.nodes)
    shown = [words.say(VERDICTS[each], n=counts[each]) for each in NODE_ORDER if counts[each]]
    nodes = words.count("{n} node", "{n} nodes", len(report.nodes))
    result = words.say("{counts} of {nodes}", counts=words.say(", ").join(shown) or "0", nodes=nodes)
    lines = [_head(words, report.run.profile, report.run.host, report.run.finished_epoch_s, result)]
    if report.run.interrupted:
        lines.append(words.say("the run ended before every check was judged"))
    if nothing_judged(report):
        lines.append(words.say("no node was judged"))
    if found.new:
        lines.append(words.count("new: {n} problem", "new: {n} problems", len(found.new)))
        lines += _section(words, found.new, MOST_NEW)
    if found.gone:
        lines.append(words.count("resolved: {n} problem", "resolved: {n} problems", len(found.gone)))
        lines += _section(words, found.gone, MOST_GONE, actions=False)
    if found.still:
        lines.append(words.count("still there: {n} problem", "still there: {n} problems", len(found.still)))
        lines[-1] += f" ({fold(each.node for each in found.still)})"
    elif not found.new:
        lines.append(words.say("no open problems on these nodes"))
    return _text([*lines, words.say("report: {file}", file=folder / "report.html")])


def of_event(words: Words, kind: str, entrance: str, at_epoch_s: float, fields: Mapping[str, object]) -> str:
    """The text of what is not a run: its kind, and a line for each of its fields."""
    what = words.say(EVENTS[kind]) if kind in EVENTS else kind
    head = _head(words, entrance, socket.gethostname(), at_epoch_s, what)
    return _text([head, *(f"{name}: {value}" for name, value in fields.items())])


def nothing_judged(report: Report) -> bool:
    """Whether no node has a verdict that rests on a check."""
    return all(node.verdict in (NodeVerdict.NOT_JUDGED, NodeVerdict.UNREACHABLE) for node in report.nodes)


def _head(words: Words, what: str, host: str, epoch_s: float, result: str) -> str:
    from nodegate.report.json_file import utc  # noqa: PLC0415 - with all that a report is written with

    at = utc(epoch_s)[:16].replace("T", " ")
    return words.say("nodegate {what} on {host}, {time} UTC: {result}", what=what, host=host, time=at, result=result)


def _section(words: Words, items: Sequence[Item], most: int, *, actions: bool = True) -> Iterator[str]:
    """A line for equal problems of several nodes together, at most so many."""
    groups: dict[tuple[str, str, str], list[Item]] = {}
    for each in items:
        groups.setdefault((each.severity, each.condition, each.action), []).append(each)
    listed = list(groups.values())
    for group in listed[:most]:
        yield f"- {_line(words, group, actions=actions)}"
    if more := sum(map(len, listed[most:])):
        yield words.count("and {n} more", "and {n} more", more)


def _line(words: Words, alike: Sequence[Item], *, actions: bool) -> str:
    first = alike[0]
    severity = words.say(SEVERITIES[Severity(first.severity)])
    parts = list(dict.fromkeys(each.part for each in alike))
    part = parts[0] if len(parts) == 1 else words.count("{n} part", "{n} parts", len(parts))
    part += f" S/N {first.serial}" if len(alike) == 1 and first.serial else ""
    several = len({each.message for each in alike}) > 1
    message = words.say("{message} (and others alike)", message=first.message) if several else first.message
    action = f" - {first.action}" if actions and first.action else ""
    return f"{severity}: {fold(each.node for each in alike)}: {part}: {message}{action}"


def _text(lines: Iterable[str]) -> str:
    """Each line as one line, printable and bounded: what is in it may come from a node."""
    return "\n".join(visible(" ".join(line.split()), most=_LONGEST) for line in lines)
