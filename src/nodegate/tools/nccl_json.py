"""nccl-tests -J: the JSON report (since 2.17.5), with the times of every process if -I was given (since 2.19.4).

Traps: it contains the whole environment of the job, of which nothing is kept or quoted; infinity is written as a bare
`inf`; before 2.18.4 an early error leaves the file truncated; a file that exists is not overwritten, the report goes
to `<name>.0` then. Source: NVIDIA/nccl-tests v2.19.6, src/util.cu.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median

from nodegate.errors import CannotMeasure
from nodegate.probe import readings as read
from nodegate.text import shown
from nodegate.unknown import known, unread

MAX_TEXT = 64 << 20
MAX_TIMES = 1 << 20  # of one size, over all processes
_BARE_INFINITY = re.compile(r"(?<=[:\[,])(-?)(?:inf|nan)(?=[,}\]])")
_NEXT = "look at what nccl-tests printed; run it again with another file name for -J"


@dataclass(frozen=True)
class NcclReport:
    """The host of each process in rank order, and its median time of an iteration out of place.

    A process's time is that of its slowest GPU: the one that waits least is the one for which the others wait. The
    times are of the last size that has some; there are none if one of a process is not a number.
    """

    hosts: tuple[str, ...]
    medians_us: tuple[float, ...]


def parse(written: str) -> NcclReport:
    """The content of a file that -J wrote. Raises CannotMeasure: it is empty, cut off or something else."""
    if not written.strip():
        raise CannotMeasure("the JSON report of nccl-tests is empty", next_step=_NEXT)
    try:
        whole = json.loads(_BARE_INFINITY.sub("null", written[:MAX_TEXT]))
    except (ValueError, RecursionError) as error:
        place = "its nesting depth"
        if isinstance(error, json.JSONDecodeError):
            place = f"line {error.lineno} column {error.colno}"
        # The text at that place is not quoted: it may be a secret from the environment.
        raise CannotMeasure(
            f"the JSON report of nccl-tests is truncated or corrupt at {place}", next_step=_NEXT
        ) from None
    if not isinstance(whole, dict) or not isinstance(whole.get("results"), list):
        raise CannotMeasure("the JSON report of nccl-tests has no results", next_step=_NEXT)
    devices = _list(_object(whole.get("config")).get("devices") or whole.get("devices"))
    timed = (_medians(_object(row)) for row in reversed(whole["results"]))
    return NcclReport(
        hosts=tuple(shown(_object(device).get("hostname", "")) for device in devices),
        medians_us=next((medians for medians in timed if medians), ()),
    )


def _medians(row: Mapping[str, object]) -> tuple[float, ...]:
    """The median time of every process; none at all if one of them is not a list of numbers."""
    processes = _list(_object(row.get("out_of_place_per_iter")).get("per_process_max_times_us"))
    if sum(len(_list(process)) for process in processes) > MAX_TIMES:
        return ()
    times = [[read.real(each) for each in _list(process)] for process in processes]
    whole = all(each and unread(*each) is None for each in times)
    return tuple(median(known(each)) for each in times) if whole else ()


def _object(value: object) -> Mapping[str, object]:
    return value if isinstance(value, dict) else {}


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else []
