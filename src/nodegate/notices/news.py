"""What a run has that is new to a target, by what the target was sent before."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nodegate.causes.lines import line
from nodegate.inventory.hostlist import natural
from nodegate.notices.box import Open, Sent
from nodegate.notices.message import Item, one_line
from nodegate.past.difference import Difference, Problem, Side, difference
from nodegate.past.store import LOOKED
from nodegate.records.cause import ORDER, Severity
from nodegate.records.verdict import Verdict

if TYPE_CHECKING:
    from nodegate.records.cause import Cause
    from nodegate.report.model import Report

_PROBLEMS = frozenset((Verdict.WARN, Verdict.ERROR, Verdict.FAIL))


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
