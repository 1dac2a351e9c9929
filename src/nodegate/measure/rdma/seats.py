"""Where the two programs of a link ran: near their NICs, or why not. A number from the other socket says little."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nodegate.node_side.seats import cpus_in
from nodegate.records.program_run import LinkEnd, Role

if TYPE_CHECKING:
    from nodegate.records.program_run import LinkNotes, LinkPlan

NEAR = {"place": "near the NICs"}  # a condition of numbers from programs at both ends that were
_LONGEST = 200


def seat_of(said: object) -> LinkEnd:
    """What is noted of a program by what run_many.py says of its seat; nothing where it asked for none."""
    if not isinstance(said, dict):
        return LinkEnd()
    near, asked, found, why = (str(said.get(name) or "")[:_LONGEST] for name in ("near", "asked", "found", "why"))
    if not why and found and not cpus_in(found) <= cpus_in(asked):
        why = f"bound to CPU {asked}, but the kernel ran it on {found}"
    if not why and not found:
        why = "the CPUs that it ran on were not recorded"
    return LinkEnd(cpus=found, near="" if why else near, unbound=why)


def are_near(notes: LinkNotes) -> bool:
    """Whether both programs of a link ran near their NICs."""
    return bool(notes.client.near and notes.server.near)


def unbound(link: LinkPlan, notes: LinkNotes) -> str:
    """Why a program of a link did not run near its NIC, this node's first; empty if both did, or none asked for it."""
    ours, theirs = notes.client.unbound, notes.server.unbound
    if link.role is Role.SERVER:
        ours, theirs = theirs, ours
    return ours or (f"on {link.peer}: {theirs}" if theirs else "")
