"""What torchrun and Open MPI's mpirun report: which worker ended first; and the rank of an error whose line names none.

Open MPI 4 writes its sentence on one line, Open MPI 5 (prterun) breaks it at 80 characters.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import NamedTuple

from nodegate.knowledge.words import Side
from nodegate.triage.clock import Stamp, Times
from nodegate.triage.events import Event
from nodegate.triage.place import Place, same_node

TORCHRUN = re.compile(r"Root Cause \(first observed failure\)")  # its report begins here
MPIRUN = re.compile(r"noticed that process rank|one or more processes exited with non-zero|exited due to process rank")
ENDS_WORKERS = re.compile(r"\s{0,4}Killing subprocess [0-9]{1,10}\s*$")  # torch.distributed.launch, after a failure
_WORKER = re.compile(
    r"time {1,10}: (?P<time>[^\n]{10,40})\n[^\n]{0,80}?host {1,10}: (?P<host>[\w.-]{1,120})[^\n]{0,20}\n"
    r"[^\n]{0,80}?rank {1,10}: (?P<rank>[0-9]{1,7}) \(local_rank: (?P<local>[0-9]{1,4})\)[^\n]{0,20}\n"
    r"[^\n]{0,80}?(?P<exit>exitcode {1,10}: -?[0-9]{1,5})\b"
)
_ENDED = re.compile(
    r"process\s+rank\s+(?P<rank>[0-9]{1,7})\s+with\s+PID\s+[0-9]{1,10}\s+on\s+node\s+(?P<node>[\w.-]{1,120})"
    r"\s+exited\s+on\s+signal\s+(?P<signal>[0-9]{1,3})"
)
# [[job family,job],rank] of Open MPI 4, [prterun-LAUNCHER-PID@job,rank] of 5: neither names the rank's own node
_EXITED = re.compile(
    r"Process name: \[[\w.,@\[\]-]{1,150}?,(?P<rank>[0-9]{1,7})\]\s{1,80}Exit code: {1,8}(?P<code>[0-9]{1,3})\b"
)
_OF_SIGNAL = 128  # what a shell adds to the signal that ended a program
_OF_OTHERS = re.compile(": tasks |Terminated")  # of several ranks; of those of a job that Slurm ends after one
_LATER_S = 120.0  # a launcher notices within seconds, and prints its report when it has ended all workers


class Exit(NamedTuple):
    """A worker that ended: its place, when, its exit code as torchrun writes it (a signal: negative), what is shown."""

    place: Place
    stamp: Stamp | None
    code: str
    said: str


def of_torchrun(block: str, times: Times) -> Iterator[Exit]:
    """The workers that its report names."""
    for match in _WORKER.finditer(block):
        place = Place(rank=int(match["rank"]), local_rank=int(match["local"]), node=match["host"])
        yield Exit(place, times.first(match["time"]), match["exit"], f"torchrun: {match['exit']}")


def of_mpirun(block: str) -> Iterator[Exit]:
    """The processes that its report names. Its lines are joined by spaces."""
    for match in _ENDED.finditer(block):
        where = Place(rank=int(match["rank"]), node=match["node"])
        yield Exit(where, None, f"exitcode : -{match['signal']}", f"mpirun: {' '.join(match[0].split())}")
    for match in _EXITED.finditer(block):
        code, said = int(match["code"]), f"mpirun: rank {match['rank']} ended with exit code {match['code']}"
        code = _OF_SIGNAL - code if code > _OF_SIGNAL else code
        yield Exit(Place(rank=int(match["rank"])), None, f"exitcode : {code}", said)


def completed(where: Place, error: Event | None, events: Iterable[Event]) -> Place:
    """The place of an error, with the rank that a launcher saw end there.

    A launcher reports the first worker that failed on its node, so one report there is of who printed the error.
    Where it names several ranks, or the error is not a process's own, the rank stays unknown.
    """
    if error is None or where.rank is not None or error.kind.side is Side.KERNEL:
        return where
    if (error.place.node, error.place.pod) != (where.node, where.pod):
        return where  # another one is blamed than who printed it
    ends = (each for each in events if each.kind.id.startswith("exit_") or each.kind.id in ("slurm_task", "slurm_oom"))
    of_one = (each for each in ends if each.place.rank is not None and not _OF_OTHERS.search(each.text))
    ended = [each.place for each in of_one if _is_of(each, where, error)]
    if len({place.rank for place in ended}) != 1:
        return where
    return replace(where.or_else(ended[0]), local_rank=ended[0].local_rank, source=where.source, text="")


def _is_of(report: Event, where: Place, error: Event) -> bool:
    """Whether this report is of a worker of that node, and was printed soon after the error."""
    if not where.node and not where.pod:
        return report.log == error.log and not error.place.source
    if not same_node(report.place.node, where.node) and (not where.pod or report.place.pod != where.pod):
        return False
    if report.printed_s is None or error.late_s is None or error.early_s is None:
        return True
    return error.early_s - 1 <= report.printed_s <= error.late_s + _LATER_S
