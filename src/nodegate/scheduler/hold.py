"""What a hold is: a node on which no job starts until it is given back, at the latest at a time that is set with it.

A hold is never a drain, which says that a node is bad. The scheduler itself keeps its end, so that a node comes back
where this process is killed; the next run gives back at once what such a one has left.
"""

import os
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

NAME = "nodegate-hold"  # of its job: our own hooks know it by this name and its user together
_STARTED = 19  # the field of /proc/PID/stat after the name, which may have spaces in it


@dataclass(frozen=True)
class Held:
    """The nodes that are held, and why others are not."""

    nodes: tuple[str, ...] = ()
    refused: Mapping[str, str] = field(default_factory=dict)


class Holder(Protocol):
    """A scheduler that can hold nodes; `names` are its own names of those of the inventory that it has."""

    names: Mapping[str, str]

    def hold(self, nodes: Sequence[str], until: float, *, ended: Callable[[], bool]) -> Held:
        """Hold these nodes of the inventory until this time at most, in seconds since 1970; those that are free now.

        No more are asked for once `ended`.
        """
        ...

    def lost(self) -> tuple[str, ...]:
        """The nodes of `hold` that are held no more, whoever ended it; none where the scheduler does not answer.

        A scheduler that does not answer starts no jobs either.
        """
        ...

    def give_back(self) -> str:
        """Give back what this process holds; returns why that did not work, empty if it did. Harmless twice."""
        ...

    def left_behind(self) -> tuple[str, ...]:
        """Give back what processes of this login on this machine hold that have ended; returns the holds' names."""
        ...


def owner() -> str:
    """This process, as no other one on any machine or in any container says it: three words."""
    return f"{_machine()} {os.getpid()} {_started(os.getpid())}"


def has_ended(owner: str) -> bool:
    """Whether this process was one of this machine and runs no more; others, and what cannot be seen, may run."""
    words = owner.split(" ")
    if len(words) != 3 or words[0] != _machine() or not words[1].isdecimal() or not words[2].isdecimal():
        return False
    try:
        os.kill(int(words[1]), 0)
    except ProcessLookupError:
        return True
    except (OSError, OverflowError):
        return False
    return _started(int(words[1])) not in ("", words[2])


def _machine() -> str:
    """The host's name with the number of the namespace in which process numbers are counted."""
    try:
        return f"{socket.gethostname()[:60]}-{Path('/proc/self/ns/pid').stat().st_ino}"
    except OSError:
        return socket.gethostname()[:60]


def _started(process: int) -> str:
    """When a process began, in ticks since the machine booted; empty if that cannot be seen."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[_STARTED]
    except (OSError, IndexError):
        return ""
