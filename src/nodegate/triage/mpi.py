"""What Open MPI's launcher reports: which process ended first, where, and of what.

Open MPI 4 writes its sentence on one line, Open MPI 5 (prterun) breaks it at 80 characters.
"""

import re
from collections.abc import Iterator

from nodegate.triage.elastic import Exit
from nodegate.triage.place import Place

_STARTS = re.compile(r"noticed that process rank|one or more processes exited with non-zero|exited due to process rank")
_ENDED = re.compile(
    r"process\s+rank\s+(?P<rank>[0-9]{1,7})\s+with\s+PID\s+[0-9]{1,10}\s+on\s+node\s+(?P<node>[\w.-]{1,120})"
    r"\s+exited\s+on\s+signal\s+(?P<signal>[0-9]{1,3})"
)
# [[job family,job],rank] of Open MPI 4, [prterun-LAUNCHER-PID@job,rank] of 5: neither names the rank's own node
_EXITED = re.compile(
    r"Process name: \[[\w.,@\[\]-]{1,150}?,(?P<rank>[0-9]{1,7})\]\s{1,80}Exit code: {1,8}(?P<code>[0-9]{1,3})\b"
)
_OF_SIGNAL = 128  # what a shell adds to the signal that ended a program


def starts(line: str) -> bool:
    """Whether such a report begins here."""
    return bool(_STARTS.search(line[:400]))


def exits(block: str) -> Iterator[Exit]:
    """The processes that the report names. Its lines are joined by spaces."""
    for match in _ENDED.finditer(block):
        where = Place(rank=int(match["rank"]), node=match["node"])
        yield Exit(where, None, f"exitcode : -{match['signal']}", f"mpirun: {' '.join(match[0].split())}")
    for match in _EXITED.finditer(block):
        code = int(match["code"])
        code = _OF_SIGNAL - code if code > _OF_SIGNAL else code
        said = f"mpirun: rank {match['rank']} ended with exit code {match['code']}"
        yield Exit(Place(rank=int(match["rank"])), None, f"exitcode : {code}", said)
