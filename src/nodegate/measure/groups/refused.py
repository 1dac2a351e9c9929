"""Launches that never came to a GPU: what the launcher said, who began, and what to do about it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from nodegate.launchers import LAUNCHERS
from nodegate.measure.nccl.launched import limit_of
from nodegate.text import some
from nodegate.transport.call import printable

if TYPE_CHECKING:
    from nodegate.records.program_run import ProgramRun

# Whoever launches: the program is not there.
_NO_PROGRAM = (
    r"could not access\s{1,8}an executable|error while loading shared libraries: [^\n]{0,120}|No such file or dir",
    "install nccl-tests, and the MPI that it was built with, under the same path on all nodes",
)
DEVICE = re.compile(r"Rank +\d{1,6} .{0,300} device ")
_BEGUN = re.compile(r"^.{0,60}nodegate: ranks begin on (\S{1,255})$", re.MULTILINE)
_SHOWN = 8
_OF_LAUNCHER = (
    "start the command in the evidence file by hand on its head node; if MPI waits there, name the network between the "
    "nodes in nodegate_launch_network"
)


def has_devices(stdout: str) -> bool:
    """Whether nccl-tests listed the GPU of a rank: then MPI had brought all ranks together, and CUDA had begun."""
    return DEVICE.search(stdout) is not None


def without_begun(stderr: str) -> str:
    """Without the lines by which nodegate's shell around the ranks says where they begin."""
    return _BEGUN.sub("", stderr)


def refusal(text: str) -> tuple[str, str] | None:
    """What a launcher says when it cannot start a rank, and what to do; None if it says nothing that is known."""
    for pattern, step in (*(each for known in LAUNCHERS.values() for each in known.refusals), _NO_PROGRAM):
        match = re.search(pattern, text)
        if match:
            return f"the launch failed: {printable(match[0].encode(), 200)}", step
    return None


def never_began(ran: ProgramRun, count: int, refused: tuple[str, str] | None) -> tuple[str, str]:
    """Why a launch ended at its limit before a GPU was listed, and what to do: a matter of the launcher, not of a GPU.

    Args:
        ran: the launch.
        count: how many nodes it has.
        refused: what the launcher said of it.
    """
    hosts = sorted(set(_BEGUN.findall(ran.stderr)))
    began = f"ranks began on {some(hosts, _SHOWN)}" if hosts else "no rank began"
    where = f"{began} ({len(hosts)} of {count} nodes)"
    limit = f"no GPU was listed within {limit_of(ran)}: {where}"
    if refused:
        return f"{limit}; {refused[0]}", refused[1]
    first = [_first(ran.stdout), _first(without_begun(ran.stderr))]
    said = "; ".join(f"it says: {line}" for line in first if line)
    return f"{limit}{f'; {said}' if said else ', and nothing was printed'}", _OF_LAUNCHER


def _first(text: str) -> str:
    """The first line that says something."""
    return next((printable(line.encode(), 160) for line in text[:65536].splitlines() if line.strip(" #-\t\r")), "")
