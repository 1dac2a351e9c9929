"""What a night leaves in the folder of the reports: that it goes on, how far it came, and its log."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from logging.handlers import RotatingFileHandler
from pathlib import Path

from nodegate.errors import UsageError
from nodegate.files.atomic import write_whole
from nodegate.files.bounded import read_whole
from nodegate.records.store import from_bytes, to_bytes

FILE, LOCK, LOG = "nightly.json", "nightly.lock", "nightly.log"
LOGS = 14  # of earlier nights
_MOST_BYTES = 1 << 20
SCHEMA = "nodegate.night/1"


@dataclass
class NightState:
    """How far a night came. Times are seconds since the epoch; `folder` is the run that goes on, empty between two.

    `overdue` are the nodes of which the newest notice said that they were not tested for too long.
    """

    schema: str = SCHEMA
    started_s: float = 0.0
    until_s: float = 0.0
    folder: str = ""
    ended: bool = True
    overdue: tuple[str, ...] = ()


class OtherNight(Exception):  # noqa: N818 - reads as the sentence that it raises
    """Another night goes on; the message is what it wrote of itself."""


@contextmanager
def alone(reports: Path) -> Iterator[int]:
    """Keep other nights away until this process, and the run that it started, have ended; the lock's descriptor.

    Raises:
        OtherNight: another one goes on.
        UsageError: the folder cannot be written.
    """
    try:
        reports.mkdir(parents=True, exist_ok=True)
        handle = os.open(reports / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
    except OSError as broken:
        raise UsageError(f"cannot be written: {broken.strerror}", file=str(reports / LOCK)) from broken
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise OtherNight(os.pread(handle, 20, 0).decode("ascii", "replace").strip()) from None
        yield handle
    finally:
        os.close(handle)


def sign(handle: int) -> None:
    """Write into the lock which process holds it; harmless where the disk is full."""
    try:
        os.ftruncate(handle, 0)
        os.pwrite(handle, f"{os.getpid()}\n".encode(), 0)
    except OSError:
        pass


def read(reports: Path) -> NightState:
    """How far the newest night came; a file that is absent or damaged says nothing."""
    try:
        found = from_bytes(NightState, read_whole(reports / FILE, _MOST_BYTES), _MOST_BYTES)
    except (OSError, ValueError):
        return NightState()
    return found if found.schema == SCHEMA else NightState()


def write(reports: Path, state: NightState) -> None:
    """Note how far this night came.

    Raises:
        OSError: it cannot be written.
    """
    write_whole(reports / FILE, to_bytes(state))


def new_log(reports: Path) -> Path:
    """The file for the output of this night; those of the nights before are nightly.log.1, .2 and so on.

    Raises:
        OSError: they cannot be renamed.
    """
    log = RotatingFileHandler(reports / LOG, backupCount=LOGS, delay=True)
    log.doRollover()
    log.close()
    return reports / LOG
