"""What PyTorch's launchers report: which worker failed first on their own node, and that they ended the others."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from nodegate.triage.clock import Stamp, find_stamp
from nodegate.triage.place import Place

_STARTS = re.compile(r"Root Cause \(first observed failure\)")
_ENDS_WORKERS = re.compile(r"\s{0,4}Killing subprocess [0-9]{1,10}\s*$")  # torch.distributed.launch, after a failure
_WORKER = re.compile(
    r"time {1,10}: (?P<time>[^\n]{10,40})\n[^\n]{0,80}?host {1,10}: (?P<host>[\w.-]{1,120})[^\n]{0,20}\n"
    r"[^\n]{0,80}?rank {1,10}: (?P<rank>[0-9]{1,7}) \(local_rank: (?P<local>[0-9]{1,4})\)[^\n]{0,20}\n"
    r"[^\n]{0,80}?(?P<exit>exitcode {1,10}: -?[0-9]{1,5})\b"
)


@dataclass(frozen=True)
class Exit:
    """One worker's end. `code` is its exit code as torchrun writes it (a signal is negative), `said` what is shown."""

    place: Place
    stamp: Stamp | None
    code: str
    said: str


def starts(line: str) -> bool:
    """Whether such a report begins here."""
    return bool(_STARTS.search(line[:200]))


def ends_workers(text: str) -> bool:
    """Whether a launcher says here that it is ending a worker because another one failed."""
    return bool(_ENDS_WORKERS.match(text[:200]))


def exits(block: str, *, now_s: float, near_s: float | None = None) -> Iterator[Exit]:
    """The workers that the report names."""
    for match in _WORKER.finditer(block):
        place = Place(rank=int(match["rank"]), local_rank=int(match["local"]), node=match["host"])
        stamp = find_stamp(match["time"], now_s=now_s, near_s=near_s)
        yield Exit(place, stamp, match["exit"], f"torchrun: {match['exit']}")
