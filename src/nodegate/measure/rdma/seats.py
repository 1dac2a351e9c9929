"""Where the two programs of a link ran: near their NICs, or why not. A number from the other socket says little."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nodegate.node_side.seats import cpus_in

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nodegate.measure.program_run import ProgramRun

# Labels of a program: the CPUs that the kernel let it use while it ran, the place of its NIC, or why it was not there.
SEAT = ("cpus", "near", "unbound")
NEAR = {"place": "near the NICs"}  # a condition of numbers from programs at both ends that were
_ENDS = ("client", "server")
_LONGEST = 200


def seat_labels(said: object) -> Mapping[str, str]:
    """The labels of a program by what run_many.py says of its seat; none where it asked for none."""
    if not isinstance(said, dict):
        return {}
    near, asked, found, why = (str(said.get(name) or "")[:_LONGEST] for name in ("near", "asked", "found", "why"))
    if not why and found and not cpus_in(found) <= cpus_in(asked):
        why = f"bound to CPU {asked}, and the kernel let it run on {found}"
    if not why and not found:
        why = "on which CPUs it ran was not seen"
    labels = {"cpus": found, "near": "" if why else near, "unbound": why}
    return {name: text for name, text in labels.items() if text}


def are_near(ran: ProgramRun) -> bool:
    """Whether both programs of a link ran near their NICs."""
    return all(ran.labels.get(f"{end}_near") for end in _ENDS)


def unbound(ran: ProgramRun) -> str:
    """Why a program of a link did not run near its NIC, this node's first; empty if both did, or none asked for it."""
    ours = ran.labels.get("role") or "client"
    for end in sorted(_ENDS, key=lambda each: each != ours):
        if why := ran.labels.get(f"{end}_unbound", ""):
            return why if end == ours else f"on {ran.labels.get('peer', '')}: {why}"
    return ""
