"""What a run has that is new to a target, by what the target was sent before, and how a notice says it."""

import socket
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from nodegate.causes.lines import line
from nodegate.inventory.hostlist import fold, natural
from nodegate.notices.box import Open, Sent
from nodegate.notices.message import Item, one_line
from nodegate.past.difference import Difference, Problem, Side, difference
from nodegate.past.store import LOOKED
from nodegate.records.cause import ORDER, Cause, Severity
from nodegate.records.verdict import NODE_ORDER, NodeVerdict, Verdict
from nodegate.report.model import Report
from nodegate.words.catalogue import Words, known

_PROBLEMS = frozenset((Verdict.WARN, Verdict.ERROR, Verdict.FAIL))
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


@dataclass(frozen=True)
class News:
    """What is new, still there and gone for a target, worst first, and what the target knows once it was sent that.

    `unseen` are problems that it knows, of nodes of the run, which the run did not look at again.
    """

    new: tuple[Item, ...]
    still: tuple[Item, ...]
    gone: tuple[Item, ...]
    unseen: tuple[Item, ...]
    after: Sent


def news(report: Report, before: Sent, *, everything: bool) -> News:
    """What of a run is new to a target that knows `before`; with `everything` also what it knows already.

    A problem of a node or of a check that the run did not look at is neither: the target goes on knowing it.
    """
    found, waived = _open(report)
    verdicts = {node.node: node.verdict.value for node in report.nodes}
    judged = {node.node: frozenset(each.check for each in node.records if each.verdict in LOOKED)
              for node in report.nodes}  # fmt: skip
    now, old = _problems(found), _problems(before.problems)
    if before.verdicts.keys() & verdicts.keys():
        earlier, later = (
            Side("", 0.0, "", before.verdicts, {}, old, {}, {}),
            Side("", 0.0, "", verdicts, judged, now, {}, {}),
        )
        change = difference(None, earlier, later, None)
    else:
        change = Difference(new=[*now.values()], unseen=[*old.values()])
    keys = {id(problem): key for each in (now, old) for key, problem in each.items()}
    new, still, gone, unseen = (
        [keys[id(each)] for each in own] for own in (change.new, change.still, change.gone, change.unseen)
    )
    if everything:
        new, still = [*new, *still], []
    after = Sent(
        before.target,
        report.run.started_epoch_s,
        {**before.verdicts, **verdicts},
        {**{key: before.problems[key] for key in unseen}, **found},
    )
    gone = [key for key in gone if key not in waived]
    of_run = [key for key in unseen if before.problems[key].item.node in verdicts]
    gone_items, unseen_items = (_sorted(before.problems, each) for each in (gone, of_run))
    return News(_sorted(found, new), _sorted(found, still), gone_items, unseen_items, after)


def _problems(known: Mapping[str, Open]) -> dict[str, Problem]:
    return {
        key: Problem(item.node, item.part, item.condition, item.severity, each.verdict, item.message, each.check)
        for key, each in known.items()
        for item in [each.item]
    }


def _open(report: Report) -> tuple[dict[str, Open], set[str]]:
    """The problems of a run by the id of their cause, and the ids of those that are waived."""
    found: dict[str, Open] = {}
    waived = set[str]()
    for node in sorted(report.nodes, key=lambda each: natural(each.node)):
        for cause in report.node_causes[node.node]:
            key = f"{cause.id} {node.node}" if cause.id in found or cause.id in waived else cause.id
            if cause.waiver:
                waived.add(key)
            elif cause.verdict in _PROBLEMS:
                found[key] = Open(_item(cause, node.node), cause.verdict.value, cause.decisive.check)
    return found, waived


def _item(cause: Cause, node: str) -> Item:
    shown = line(cause)
    parts = [part for part in cause.parts if part.kind is cause.part.kind]
    part, serial = shown.part, ""
    if len(parts) == 1:
        part, serial = parts[0].short, (parts[0].of or parts[0]).serial
    return Item(*map(one_line, (node, part, serial, cause.condition, shown.severity, shown.what, shown.action)))


def _sorted(known: Mapping[str, Open], keys: list[str]) -> tuple[Item, ...]:
    items = (known[key].item for key in keys)
    return tuple(sorted(items, key=lambda each: (ORDER[Severity(each.severity)], natural(each.node), each.part)))


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
