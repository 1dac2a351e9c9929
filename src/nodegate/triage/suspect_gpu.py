"""A GPU on which programs that have nothing in common meet an application's Xid: it is suspected, not each of them."""

from collections import defaultdict
from collections.abc import Iterable, Sequence

from nodegate.kernel_log.program_xids import ProgramXids, Suspicion
from nodegate.knowledge.words import Cause
from nodegate.knowledge.xid_lines import xid_said
from nodegate.triage.candidates import NEAR_S, XID, apart
from nodegate.triage.events import Event
from nodegate.triage.place import same_node
from nodegate.unknown import Unknown, Why

_DAY_S = 86400.0  # from the error of a rank: a GPU that was suspect then still is
_NO_TIME = Unknown(Why.MISSING, "the line has no time")


def of_programs(events: Sequence[Event]) -> list[Event]:
    """The kernel messages that mostly are a program's own fault, with the GPU that they name."""
    programs = (event for event in events if event.kind.cause is Cause.PROGRAM and event.device)
    return [event for event in programs if XID.fullmatch(event.kind.id)]


def suspicion(events: Sequence[Event], said: Iterable[Event]) -> tuple[Suspicion, Event] | None:
    """Why the GPU of one of these is to be suspected; None if one program, or several GPUs, explain as much."""
    nodes: dict[str, ProgramXids] = defaultdict(ProgramXids)  # counted by unit and program
    for event in of_programs(events):
        if met := xid_said(event.text):
            nodes[event.place.node].add(met.at(_NO_TIME if event.printed_s is None else event.printed_s))
    for each in said:
        met, node = xid_said(each.text), nodes.get(each.place.node)
        if met and node and (found := node.suspicion(met.code, met.address, met.instance)):
            return found, each
    return None


def is_any(events: Sequence[Event], failed: Event) -> bool:
    """Whether any GPU is to be suspected at the time of an error, be it the GPU of that error or not."""
    near = [event for event in of_programs(events) if apart(event, failed) <= _DAY_S]
    return suspicion(near, {(each.place.node, each.device): each for each in near}.values()) is not None


def of_rank(events: Sequence[Event], failed: Event) -> list[Event]:
    """The messages that can be of a rank's error, the nearest first: of its GPU where that is known, else of its node.

    One that is not of its time counts for a day: other programs met it there.
    """
    gpu, node = failed.place.gpu, failed.place.node
    of_node = (event for event in of_programs(events) if not node or same_node(event.place.node, node))
    found = [event for event in of_node if None in (event.place.gpu, gpu) or event.place.gpu == gpu]
    nodes = {event.place.node for event in found}
    near = [event for event in found if apart(event, failed) <= (NEAR_S if len(nodes) > 1 else _DAY_S)]
    return sorted(near, key=lambda event: apart(event, failed))
