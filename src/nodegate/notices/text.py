"""A notice as text for people: the first line says who, what and the result; then what is new, worst first."""

from __future__ import annotations

import socket
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from nodegate.inventory.hostlist import fold
from nodegate.notices.message import one_line
from nodegate.records.verdict import NODE_ORDER, NodeVerdict
from nodegate.words.catalogue import Words, known

if TYPE_CHECKING:
    from pathlib import Path

    from nodegate.notices.message import Item
    from nodegate.notices.news import News
    from nodegate.report.model import Report

MOST_NAMES = 120  # characters of a list of nodes; a longer one is counted
SECTIONS = (  # of the text, with the most lines of each; without lines only the nodes are named
    ("new", known("new problems: {n}"), 30),
    ("gone", known("resolved problems: {n}"), 10),
    ("still", known("problems still there: {n}"), 0),
    ("unseen", known("problems not looked at again: {n}"), 0),
)
EVENTS = {
    "not-run": known("the night did not run"),
    "cut-short": known("the night was cut short"),
    "nothing-judged": known("the night judged no node"),
    "busy": known("nodes that were busy every night"),
    "no-report": known("the run has left no report"),
}

FIELDS = frozenset((known("reason"), known("nodes"), known("days"), known("run")))  # of events


def of_run(words: Words, report: Report, found: News, folder: Path) -> str:
    """The text of a run's notice."""
    counts = Counter(node.verdict for node in report.nodes)
    shown = [
        words.say("{n} {verdict}", n=counts[each], verdict=words.say(each.value)) for each in NODE_ORDER if counts[each]
    ]
    nodes = words.count("{n} node", "{n} nodes", len(report.nodes))
    result = words.say("{counts} of {nodes}", counts=words.say(", ").join(shown) or "0", nodes=nodes)
    lines = [_head(words, report.run.profile, report.run.host, report.run.finished_epoch_s, result)]
    if report.run.interrupted:
        lines.append(words.say("the run ended before every check was judged"))
    if nothing_judged(report):
        lines.append(words.say("no node was judged"))
    for name, title, most in SECTIONS:
        if items := getattr(found, name):
            nodes = "" if most else f" ({_where(words, items)})"
            lines.append(words.say(title, n=len(items)) + nodes)
            lines += _section(words, items, most, actions=name == "new")
    if not (found.new or found.still or found.unseen):
        lines.append(words.say("no problem was found"))
    return _text(*lines, words.say("report: {file}", file=folder.resolve() / "report.html"))


def of_event(words: Words, kind: str, entrance: str, at_epoch_s: float, fields: Mapping[str, object]) -> str:
    """The text of what is not a run: its kind, and a line for each of its fields."""
    what = words.say(EVENTS[kind]) if kind in EVENTS else kind
    head = _head(words, entrance, socket.gethostname(), at_epoch_s, what)
    named = {words.say(name) if name in FIELDS else name: value for name, value in fields.items()}
    return _text(head, *(f"{name}: {value}" for name, value in named.items()))


def nothing_judged(report: Report) -> bool:
    """Whether no node has a verdict that rests on a check."""
    return all(node.verdict in (NodeVerdict.NOT_JUDGED, NodeVerdict.UNREACHABLE) for node in report.nodes)


def _head(words: Words, what: str, host: str, epoch_s: float, result: str) -> str:
    from nodegate.report.json_file import utc  # noqa: PLC0415 - with all that a report is written with

    at = utc(epoch_s)[:16].replace("T", " ")
    return words.say("nodegate {what} on {host}, {time} UTC: {result}", what=what, host=host, time=at, result=result)


def _section(words: Words, items: Sequence[Item], most: int, *, actions: bool) -> Iterator[str]:
    """A line for equal problems of several nodes together, at most so many."""
    groups: dict[tuple[str, str, str], list[Item]] = {}
    for each in items:
        groups.setdefault((each.severity, each.condition, each.action), []).append(each)
    listed = list(groups.values())
    for group in listed[:most]:
        yield f"- {_line(words, group, actions=actions)}"
    if most and (more := sum(map(len, listed[most:]))):
        yield words.say("and {n} more", n=more)


def _line(words: Words, alike: Sequence[Item], *, actions: bool) -> str:
    first = alike[0]
    severity = words.say(first.severity)
    parts = list(dict.fromkeys(each.part for each in alike))
    part = parts[0] if len(parts) == 1 else words.count("{n} part", "{n} parts", len(parts))
    part += f" S/N {first.serial}" if len(alike) == 1 and first.serial else ""
    several = len({each.message for each in alike}) > 1
    message = words.say("{message} (and others alike)", message=first.message) if several else first.message
    action = f" - {first.action}" if actions and first.action else ""
    return f"{severity}: {_where(words, alike)}: {part}: {message}{action}"


def _where(words: Words, items: Sequence[Item]) -> str:
    """Their nodes; a list is never cut, for half of it would read as a whole one."""
    nodes = {each.node for each in items}
    folded = fold(nodes)
    return folded if len(folded) <= MOST_NAMES else words.count("{n} node", "{n} nodes", len(nodes))


def _text(*lines: str) -> str:
    return "\n".join(map(one_line, lines))
