"""When Slurm took nodes out of service and brought them back, and why: events of the fleet's record.

slurmdbd has them all (sacctmgr(1), show event); where there is none, scontrol has the reason and the time of a node
that is out now. Written for Slurm 22.05 and later.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from nodegate.hook import slurm
from nodegate.node import Node
from nodegate.past.event import DOWN, DRAIN, HOOK, HOOK_FIT, IN_SERVICE, Event
from nodegate.past.keys import Keys
from nodegate.run.contexts import NodeSummary
from nodegate.scheduler.jobs import by_slurm_name
from nodegate.scheduler.programs import NoAnswer, answer
from nodegate.text import visible

DAYS = 28
MOST = 64  # of one node and run, the newest
_LIMIT_S = 20.0
_LONGEST = 300  # characters of a reason
_FIELDS = "NodeName,TimeStart,TimeEnd,State,Reason"  # the reason comes last: it may hold the separator
_PROGRAMS = ("sacctmgr", "scontrol")


class Out(NamedTuple):
    """A node that was out of service. `until_s` is None while it is, or where that is not known."""

    name: str
    since_s: float
    until_s: float | None
    is_drain: bool
    reason: str


def events(
    nodes: Mapping[str, Node], summaries: Mapping[str, NodeSummary | None]
) -> tuple[dict[str, list[Event]], str]:
    """The events by node, oldest first; and why there are none; empty where none were expected.

    Asked about are the nodes that Slurm holds for a run or on which Slurm's hooks ran, where its programs are here.
    """
    asked = by_slurm_name(
        node
        for name, node in nodes.items()
        if node.connection.transport != "replay" and _is_in_slurm(node, summaries.get(name))
    )
    if not asked or not any(map(shutil.which, _PROGRAMS)):
        return {}, ""
    try:
        found = list(_outages(asked))
    except NoAnswer as said:
        return {}, f"what Slurm drained since the last run is not in the record: {said}"
    by_node: dict[str, list[Event]] = {}
    for each in (each for each in found if each.name in asked):
        node = asked[each.name]
        summary = summaries.get(node)
        by_node.setdefault(node, []).extend(_of(each, Keys(node, summary.placed if summary else ())))
    return {node: sorted(each, key=lambda event: event.epoch_s)[-MOST:] for node, each in by_node.items()}, ""


def _is_in_slurm(node: Node, summary: NodeSummary | None) -> bool:
    has_hooks = any(each.kind in (HOOK, HOOK_FIT) for each in (summary.events if summary else ()))
    return bool(node.settings.hold or node.settings.slurm_name or has_hooks)


def _outages(names: Iterable[str]) -> Iterator[Out]:
    words = ("-nP", "show", "event", f"format={_FIELDS}", f"start=now-{DAYS}days", f"nodes={','.join(names)}")
    try:
        return parse(answer("sacctmgr", *words, limit_s=_LIMIT_S, environ={**os.environ, **slurm.TIME}))
    except NoAnswer:  # no slurmdbd, or it does not answer: the controller knows the newest one of each node
        return (
            Out(each.name, each.reason_epoch_s, None, each.is_drained, each.reason)
            for each in slurm.nodes()
            if each.reason_epoch_s is not None and (each.is_drained or each.not_in_service)
        )


def parse(printed: str) -> Iterator[Out]:
    """The rows of `sacctmgr -nP show event` that say of a node that it was out; others are left out."""
    for line in printed.splitlines():
        name, since, until, state, *reason = line.split("|", 4) if line.count("|") >= 4 else ("",) * 5
        since_s, is_drain = slurm.epoch_s(since), "DRAIN" in state
        if name and since_s is not None and (is_drain or state.startswith(("DOWN", "FAIL", "ERROR"))):
            yield Out(name, since_s, slurm.epoch_s(until), is_drain, *reason)


def _of(out: Out, keys: Keys) -> Iterator[Event]:
    text = visible(" ".join(out.reason.split()))[:_LONGEST]
    for epoch_s, kind in ((out.since_s, DRAIN if out.is_drain else DOWN), (out.until_s, IN_SERVICE)):
        if epoch_s is not None:
            yield Event(epoch_s, kind, keys.node, keys.machine, "Slurm", text)
