"""A GPU on which different programs meet an application's Xid: then the GPU is to be suspected, not each of them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nodegate.knowledge.words import Cause

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nodegate.triage.events import Event

_CODE = re.compile(r"xid_[0-9]{1,5}")
_PROGRAM = re.compile(r"pid=(?P<pid>[0-9]{1,10}), name=(?P<name>[^,]{1,60})")
_MANY_PROGRAMS, _MANY_PROCESSES = 2, 4  # of different names, of different numbers
_LONG_S = 3600.0  # between the first and the last: not one job that was tried again and again


@dataclass(frozen=True)
class Suspect:
    """The programs that met such an Xid on one GPU, and the kernel message of the last one."""

    programs: tuple[str, ...]
    said: Event


def of_programs(events: Sequence[Event]) -> list[Event]:
    """The kernel messages that mostly are a program's own fault, with the GPU that they name."""
    return [
        event
        for event in events
        if _CODE.fullmatch(event.kind.id) and event.kind.cause is Cause.PROGRAM and event.device
    ]


def suspect(events: Sequence[Event], said: Event) -> Suspect | None:
    """The suspicion against the GPU of this message; None if one program, or several GPUs, explain as much."""
    node = said.place.node
    alike = [event for event in of_programs(events) if event.place.node == node]
    if any(event.device != said.device for event in alike):
        return None
    processes = {match["pid"]: match["name"] for event in alike if (match := _PROGRAM.search(event.text))}
    names = {name.strip().rstrip("0123456789.") for name in processes.values()}
    times = [event.printed_s for event in alike if event.printed_s is not None]
    lasted_s = max(times, default=0.0) - min(times, default=0.0)
    if len(names) < _MANY_PROGRAMS or len(processes) < _MANY_PROCESSES or lasted_s < _LONG_S:
        return None
    return Suspect(tuple(sorted(set(processes.values()))), said)
