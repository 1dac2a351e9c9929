"""The zones that the user gives: `+08:00` for all logs, `worker3.log=+08:00` for one, `dmesg-*=+08:00` for several."""

import re
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase

from nodegate.errors import UsageError
from nodegate.triage.log import Log
from nodegate.triage.remarks import ZONE_KNOWN
from nodegate.triage.zones import Given

_OFFSET = re.compile(r"([+-])([0-9]{2}):?([0-9]{2})")
_HINT = "write it as +08:00, or LOG=+08:00 for the times of one log"


def given_zones(said: Iterable[str], logs: Sequence[Log]) -> Given:
    """What the user says, by log.

    Raises:
        UsageError: an offset is not valid, or there is no such log.
    """
    of_all: float | None = None
    of_log: dict[str, float] = {}
    for each in said:
        name, mark, offset = each.rpartition("=")
        seconds = offset_s(offset)
        if not mark:
            of_all = seconds
            continue
        meant = [log.name for log in logs if _is_meant(name, log)]
        if not meant:
            raise UsageError(f"--tz {each!r}: no log that was given has this name", hint=_HINT)
        of_log.update(dict.fromkeys(meant, seconds))
    for log in logs:
        if log.name in of_log and log.zone_s is not None:
            log.remarks.say(ZONE_KNOWN)
    return Given(of_all, of_log)


def offset_s(offset: str) -> float:
    """Seconds east of UTC.

    Raises:
        UsageError: the offset is not valid.
    """
    match = _OFFSET.fullmatch(offset)
    if match is None:
        raise UsageError(f"--tz {offset!r} is not a valid UTC offset", hint=_HINT)
    seconds = int(match[2]) * 3600.0 + int(match[3]) * 60.0
    return -seconds if match[1] == "-" else seconds


def _is_meant(name: str, log: Log) -> bool:
    """Matches a log by its path, the end of its path, a pattern of either, or the node or pod that wrote it."""
    path = log.name
    ends = {path, path.rsplit("/", 1)[-1]}
    return (
        path.endswith(f"/{name}")
        or any(fnmatchcase(each, name) for each in ends)
        or name in {log.place.node, log.place.pod}
    )
