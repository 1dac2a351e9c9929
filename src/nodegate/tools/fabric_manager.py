"""/var/log/fabricmanager.log: entries with their level; an entry may continue on lines without a time."""

import re
from dataclasses import dataclass
from datetime import datetime, timezone

from nodegate.errors import CannotMeasure
from nodegate.probe.readings import address_in
from nodegate.text import shown
from nodegate.unknown import Known, Unknown, Why

MAX_TEXT = 1 << 20
MAX_MESSAGE = 1000
_ENTRY = re.compile(
    r"\[(\w{3} [ 0-9]?[0-9] [0-9]{4} [0-9]{2}:[0-9]{2}:[0-9]{2})\] \[(\w{4,10})\] (?:\[tid [0-9]{1,10}\] )?(.*)"
)
_STARTED = re.compile(r"Fabric Manager version \S{1,40} is running with")
_SWITCH_ERROR = re.compile(
    r"detected NVSwitch (fatal|non-fatal) error ([0-9]{1,8}) on fid [0-9]{1,6} "
    r"on NVSwitch pci bus id ([0-9A-Fa-f:.]{7,20}) physical id [0-9]{1,4} port ([0-9]{1,4})"
)


@dataclass(frozen=True)
class Entry:
    """One entry. `when` is the node's local time as written; `level` is INFO, WARNING, ERROR or CRITICAL."""

    when: str
    level: str
    message: str


@dataclass(frozen=True)
class SwitchError:
    """An NVSwitch error: an SXid that the fabric manager reports."""

    fatal: bool
    sxid: int
    address: str
    port: int


def parse_log(written: str) -> tuple[Entry, ...]:
    """All entries, oldest first. A log that begins in the middle of an entry (its tail was read) loses that entry.

    Raises:
        CannotMeasure: it has no entry at all.
    """
    found: list[Entry] = []
    for line in written[-MAX_TEXT:].splitlines():
        if match := _ENTRY.fullmatch(line.rstrip()):
            found.append(Entry(match[1], match[2], shown(match[3], MAX_MESSAGE)))
        elif line.strip() and found and len(found[-1].message) < MAX_MESSAGE:
            last = found[-1]
            found[-1] = Entry(last.when, last.level, shown(f"{last.message} {line.strip()}", MAX_MESSAGE))
    if not found:
        first = next((line for line in written[:MAX_TEXT].splitlines() if line.strip()), "")
        what = f"has no entry: {shown(first, 120)}" if first else "is empty"
        raise CannotMeasure(f"the fabric manager's log {what}", next_step="read /var/log/fabricmanager.log on the node")
    return tuple(found)


def started(entry: Entry) -> bool:
    """Whether the service wrote this entry when it started."""
    return _STARTED.match(entry.message) is not None


def local_s(entry: Entry) -> Known[float]:
    """When the entry was written, in seconds of the node's local time: the log does not name its zone."""
    try:
        return datetime.strptime(f"{entry.when} +0000", "%b %d %Y %H:%M:%S %z").astimezone(timezone.utc).timestamp()
    except (ValueError, OverflowError):
        return Unknown(Why.FAILED, f"not a date: {entry.when}")


def switch_error(entry: Entry) -> SwitchError | None:
    """The NVSwitch error that an entry reports, or None if it reports none."""
    match = _SWITCH_ERROR.fullmatch(entry.message)
    if match is None:
        return None
    address = address_in(match[3])
    name = shown(match[3]) if isinstance(address, Unknown) else address
    return SwitchError(match[1] == "fatal", int(match[2]), name, int(match[4]))
