"""What a child process of the probe does: its task, its notes, and the lines of JSON that it sends to its parent.

It sends {"part": ...} during its work, then {"value": ...} or {"unknown": reading}. Before each call that may hang it
notes in shared memory what it is about to do, so that a time-out can name the file or the call.
"""

import ctypes
import json
import mmap
import os
import resource
import signal
import time
from typing import Callable, Dict, NamedTuple, NoReturn, Optional

from nodegate.node_side.probe.reading import CannotRead, unknown

NOTE_BYTES = 512
_PR_SET_PDEATHSIG = 1
_SENDING_S = 1.5  # reserved from the time limit, to send what there is; more than children.KILL_GRACE_S

try:
    LIBC: Optional[ctypes.CDLL] = ctypes.CDLL(None)
except OSError:
    LIBC = None


class Task(NamedTuple):
    """What a child does. `function` returns a JSON value; `limit_s` is its time, `max_bytes` what it may send.

    `patience_s` is how much longer it may take as long as it only waits for a processor: then the node is busy, and
    what is asked does not hang. A child with patience calls `note` before what may hang.
    """

    function: Callable[[], object]
    limit_s: float
    max_bytes: int = 1 << 20
    patience_s: float = 0.0


class _Own:
    """What a child knows about itself; nothing is set in the first process."""

    result_fd = -1
    notes: Optional[mmap.mmap] = None
    deadline = float("inf")


def note(doing: str) -> None:
    """Note what this child is about to do, for the message if it hangs there."""
    if _Own.notes is not None:
        _Own.notes[:] = os.fsencode(doing)[:NOTE_BYTES].ljust(NOTE_BYTES, b"\0")


def emit(part: object) -> None:
    """Send a part of the result at once, so that it stays even if this child hangs later."""
    _send({"part": part})


def remaining_s() -> float:
    """Seconds until this child will be ended, minus a little time to send its result."""
    return max(0.0, _Own.deadline - time.monotonic() - _SENDING_S)


def die_with_parent(parent: int) -> None:
    """This process gets SIGKILL when its parent ends."""
    if LIBC is not None:
        LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def detach(parent: int) -> None:
    """This new process has a group of its own, ends with its parent, and reads and writes nothing."""
    os.setpgid(0, 0)
    die_with_parent(parent)
    null = os.open("/dev/null", os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)


def become(task: Task, notes: mmap.mmap, deadline: float, result_fd: int, parent: int) -> NoReturn:
    """In a new child: do the task, send the result, and end."""
    try:
        detach(parent)
        if _Own.result_fd >= 0:  # the pipe of the child that started this one
            os.close(_Own.result_fd)
        _Own.result_fd, _Own.notes, _Own.deadline = result_fd, notes, deadline
        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
        try:
            _send({"value": task.function()})
        except CannotRead as error:
            _send({"unknown": error.reading})
        except Exception as error:
            _send({"unknown": unknown("failed", f"{type(error).__name__}: {error}")})
    finally:
        os._exit(0)


def _send(message: Dict[str, object]) -> None:
    try:
        line = json.dumps(message, allow_nan=False)
    except (TypeError, ValueError) as error:
        line = json.dumps({"unknown": unknown("failed", f"{type(error).__name__}: {error}")})
    data = memoryview(line.encode("ascii") + b"\n")
    while data:
        data = data[os.write(_Own.result_fd, data) :]
