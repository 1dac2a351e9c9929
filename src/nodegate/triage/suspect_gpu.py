"""A GPU on which programs that have nothing in common meet an application's Xid: it is suspected, not each of them."""

import re
from collections.abc import Sequence

from nodegate.kernel_log.program_xids import ProgramXids, Suspicion
from nodegate.knowledge.words import Cause
from nodegate.knowledge.xid_lines import xid_said
from nodegate.triage.candidates import NEAR_S, apart
from nodegate.triage.events import Event
from nodegate.triage.place import same_node
from nodegate.unknown import Unknown, Why

_CODE = re.compile(r"xid_[0-9]{1,5}")
_DAY_S = 86400.0  # from the error of a rank: a GPU that was suspect then still is
_NO_TIME = Unknown(Why.MISSING, "the line has no time")


def of_programs(events: Sequence[Event]) -> list[Event]:
    """The kernel messages that mostly are a program's own fault, with the GPU that they name."""
    programs = (event for event in events if event.kind.cause is Cause.PROGRAM and event.device)
    return [event for event in programs if _CODE.fullmatch(event.kind.id)]


def counted(events: Sequence[Event]) -> dict[str, ProgramXids]:
    """Those of each node, counted by unit and program."""
    found: dict[str, ProgramXids] = {}
    for event in of_programs(events):
        if met := xid_said(event.text):
            timed = met.at(_NO_TIME if event.printed_s is None else event.printed_s)
            found.setdefault(event.place.node, ProgramXids()).add(timed)
    return found


def suspicion(nodes: dict[str, ProgramXids], said: Event) -> Suspicion | None:
    """Why the GPU of this message is to be suspected; None if one program, or several GPUs, explain as much."""
    met = xid_said(said.text)
    node = nodes.get(said.place.node)
    return node.suspicion(met.code, met.address, met.instance) if met and node else None


def is_any(events: Sequence[Event], failed: Event) -> bool:
    """Whether any GPU is to be suspected at the time of an error, be it the GPU of that error or not."""
    near = [event for event in of_programs(events) if apart(event, failed) <= _DAY_S]
    nodes = counted(near)
    return any(suspicion(nodes, said) for said in {(each.place.node, each.device): each for each in near}.values())


def of_rank(events: Sequence[Event], failed: Event) -> list[Event]:
    """The messages that can be of a rank's error, the nearest first: of its GPU where that is known, else of its node.

    One that is not of its time counts for a day: other programs met it there.
    """
    gpu, node = failed.place.gpu, failed.place.node
    found = [
        event
        for event in of_programs(events)
        if (not node or same_node(event.place.node, node))
        and (None in (event.place.gpu, gpu) or event.place.gpu == gpu)
    ]
    nodes = {event.place.node for event in found}
    near = [event for event in found if apart(event, failed) <= (NEAR_S if len(nodes) > 1 else _DAY_S)]
    return sorted(near, key=lambda event: apart(event, failed))
