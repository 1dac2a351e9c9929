"""Reading in child processes: whatever hangs or crashes in one costs its own time limit and nothing else.

A child sends lines of JSON through a pipe: {"part": ...} as it goes, then {"value": ...} or {"unknown": reading}. Before
each thing that may hang it notes in shared memory what it is about to do, so that a time-out names the file or call.
"""

import ctypes
import json
import mmap
import os
import resource
import select
import signal
import time
from typing import Callable, Dict, List, NamedTuple, Optional

KILL_GRACE_S = 1.0  # a process that is still there so long after SIGKILL cannot be ended
MAX_BYTES = 1 << 20
_NOTE_BYTES = 512
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36

Reading = Dict[str, object]

try:
    _LIBC = ctypes.CDLL(None)  # type: Optional[ctypes.CDLL]
except OSError:
    _LIBC = None


class CannotRead(Exception):
    """A section, or a part of one, that could not be read: `reading` says why."""

    def __init__(self, reading: Reading) -> None:
        super(CannotRead, self).__init__(str(reading))
        self.reading = reading


class Task(NamedTuple):
    """What a child does. `function` returns what JSON can hold; `limit_s` is its time, `max_bytes` what it may send."""

    function: Callable[[], object]
    limit_s: float
    max_bytes: int = MAX_BYTES


class Outcome(NamedTuple):
    """What came of a task: its value, or why there is none, and the parts that it had sent by then."""

    value: object
    unknown: Optional[Reading]
    parts: List[object]
    duration_s: float


class _Own(object):
    """What a child knows of itself; in the first process nothing of it is set."""

    result_fd = -1
    note = None  # type: Optional[mmap.mmap]
    deadline = float("inf")


def unknown(why: str, detail: str, **more: object) -> Reading:
    """A reading that says why there is no value."""
    return dict({"why": why, "detail": detail[:500]}, **more)


def note(doing: str) -> None:
    """Say what this child is about to do, for the message if it hangs there."""
    if _Own.note is not None:
        _Own.note[:] = os.fsencode(doing)[:_NOTE_BYTES].ljust(_NOTE_BYTES, b"\0")


def emit(part: object) -> None:
    """Send a part of the result at once, so that it stays even if this child hangs later."""
    _send({"part": part})


def remaining_s() -> float:
    """Seconds until this child will be ended, less a little to send its result."""
    return max(0.0, _Own.deadline - time.monotonic() - 0.3)


def run(tasks: Dict[str, Task], budget_s: float = float("inf")) -> Dict[str, Outcome]:
    """Do all tasks at the same time, each in a child of its own; returns when all have ended or were given up."""
    end = time.monotonic() + budget_s
    running = [_Child(name, task, end) for name, task in tasks.items()]
    while True:
        live = [child for child in running if not child.step()]
        if not live:
            return {child.name: child.outcome() for child in running}
        readable = [child.fd for child in live if child.fd >= 0]
        select.select(readable, [], [], min(child.patience_s() for child in live))


def die_with_parent(parent: int) -> None:
    """This process gets SIGKILL when its parent ends."""
    if _LIBC is not None:
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def adopt_orphans() -> None:
    """Descendants whose parent has ended become ours, so that none is left behind."""
    if _LIBC is not None:
        _LIBC.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def end_all() -> None:
    """End every process that is still a child of ours; one in D state is left alone after the grace."""
    give_up = time.monotonic() + KILL_GRACE_S
    while time.monotonic() < give_up:
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except OSError:  # no child is left
            return
        if pid == 0:
            for child in _children_of(os.getpid()):
                _kill(child)
            time.sleep(0.005)


def stat_fields(pid: str) -> List[str]:
    """State, parent, group, session, ... of a process: /proc/PID/stat after the name; empty when it is gone."""
    try:
        with open("/proc/%s/stat" % pid, "rb") as file:
            return file.read(4096).decode("ascii", "replace").rpartition(")")[2].split()
    except OSError:
        return []


class _Child(object):
    """One running task, seen from its parent."""

    def __init__(self, name: str, task: Task, end: float) -> None:
        self.name = name
        self.task = task
        self.started = time.monotonic()
        self.ended = None  # type: Optional[float]
        self.deadline = min(self.started + task.limit_s, end)
        self.buffer = bytearray()
        self.parts = []  # type: List[object]
        self.final = None  # type: Optional[Dict[str, object]]
        self.late = False
        self.too_long = False
        self.closing_since = None  # type: Optional[float]
        self.killed_since = None  # type: Optional[float]
        self.status = None  # type: Optional[int]
        self.fd = -1
        self.note = mmap.mmap(-1, _NOTE_BYTES)
        self._fork()

    def _fork(self) -> None:
        read_fd, write_fd = os.pipe()
        parent = os.getpid()
        try:
            self.pid = os.fork()
        except OSError as error:  # no more processes allowed here
            os.close(read_fd)
            os.close(write_fd)
            self.status = 0
            self.final = {"unknown": unknown("failed", "fork: %s" % error.strerror)}
            return
        if self.pid == 0:
            _be_child(self.task, self.note, self.deadline, write_fd, parent)
        os.close(write_fd)
        os.set_blocking(read_fd, False)
        self.fd = read_fd

    def step(self) -> bool:
        """Take what has come, end what is late; true when nothing more will come of this child."""
        if self.status is not None or self.ended is not None:
            return True
        self._take()
        now = time.monotonic()
        if self.final is not None or self.too_long:
            self._kill()
        elif now >= self.deadline and self.killed_since is None:
            self.late = True
            self._kill()
        elif self.closing_since is not None and now - self.closing_since > KILL_GRACE_S:
            self._kill()
        return self._gone(now)

    def patience_s(self) -> float:
        """How long the parent may wait for this child's pipe before it looks again."""
        if self.killed_since is not None or self.closing_since is not None:
            return 0.003
        return max(0.0, self.deadline - time.monotonic())

    def outcome(self) -> Outcome:
        """What came of it."""
        duration = (self.ended or time.monotonic()) - self.started
        final = self.final or {"unknown": self._why()}
        reason = final.get("unknown")
        return Outcome(final.get("value"), reason if isinstance(reason, dict) else None, self.parts, duration)

    def _take(self) -> None:
        while self.fd >= 0 and not self.too_long:
            try:
                chunk = os.read(self.fd, 1 << 16)
            except BlockingIOError:
                break
            if not chunk:
                self._close()
                self.closing_since = time.monotonic()
                break
            self.buffer += chunk
            self.too_long = len(self.buffer) > self.task.max_bytes
        *lines, rest = bytes(self.buffer).split(b"\n") if b"\n" in self.buffer else [bytes(self.buffer)]
        if lines:
            self.task = self.task._replace(max_bytes=self.task.max_bytes - len(self.buffer) + len(rest))
            self.buffer = bytearray(rest)
        for line in lines:
            message = json.loads(line.decode("utf-8"))
            if "part" in message:
                self.parts.append(message["part"])
            else:
                self.final = message

    def _kill(self) -> None:
        if self.killed_since is None:
            self.killed_since = time.monotonic()
            _kill(self.pid)

    def _gone(self, now: float) -> bool:
        try:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
        except ChildProcessError:
            pid, status = self.pid, 0
        if pid:
            self._take()  # what it wrote last
            self.status = status
            _kill_group(self.pid)  # programs that it started and left
        if pid or (self.killed_since is not None and now - self.killed_since > KILL_GRACE_S):
            self.ended = time.monotonic()
            self._close()
            return True
        return False

    def _close(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1

    def _why(self) -> Reading:
        doing = self.note[:].rstrip(b"\0").decode("utf-8", "replace")
        at = ", at %s" % doing if doing else ""
        if self.status is None:
            return unknown("hung", "%s%s" % (where_it_hangs(self.pid), at), pid=self.pid)
        if self.late:
            return unknown("timeout", "no answer within %g s%s" % (round(self.deadline - self.started, 1), at))
        if self.too_long:
            return unknown("failed", "more than it may send%s" % at)
        if os.WIFSIGNALED(self.status):
            return unknown("failed", "ended by %s%s" % (signal_name(os.WTERMSIG(self.status)), at))
        return unknown("failed", "ended without a result (exit code %d)%s" % (os.WEXITSTATUS(self.status), at))


def signal_name(number: int) -> str:
    """SIGSEGV for 11."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return "signal %d" % number


def where_it_hangs(pid: int) -> str:
    """Where a process hangs that SIGKILL does not end."""
    state = (stat_fields(str(pid)) or ["?"])[0]
    try:
        with open("/proc/%d/wchan" % pid) as file:
            place = file.read(100)
    except OSError:
        place = "?"
    return "process %d cannot be ended (state %s, wchan %s)" % (pid, state, place or "?")


def _be_child(task: Task, shared: mmap.mmap, deadline: float, write_fd: int, parent: int) -> None:
    """Do the task, send what comes of it, and end; never returns."""
    try:
        os.setpgid(0, 0)
        die_with_parent(parent)
        if _Own.result_fd >= 0:
            os.close(_Own.result_fd)
        _Own.result_fd, _Own.note, _Own.deadline = write_fd, shared, deadline
        null = os.open("/dev/null", os.O_RDWR)
        for fd in (0, 1, 2):
            os.dup2(null, fd)
        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
        _send(_result_of(task))
    finally:
        os._exit(0)


def _result_of(task: Task) -> Dict[str, object]:
    try:
        return {"value": task.function()}
    except CannotRead as error:
        return {"unknown": error.reading}
    except Exception as error:
        return {"unknown": unknown("failed", "%s: %s" % (type(error).__name__, error))}


def _send(message: Dict[str, object]) -> None:
    try:
        line = json.dumps(message, allow_nan=False)
    except (TypeError, ValueError) as error:
        line = json.dumps({"unknown": unknown("failed", "%s: %s" % (type(error).__name__, error))})
    data = memoryview(line.encode("ascii") + b"\n")
    while data:
        data = data[os.write(_Own.result_fd, data) :]


def _children_of(parent: int) -> List[int]:
    return [int(pid) for pid in os.listdir("/proc") if pid.isdigit() and stat_fields(pid)[1:2] == [str(parent)]]


def _kill(pid: int) -> None:
    """End a process and its group."""
    _kill_group(pid)
    try:
        os.kill(pid, signal.SIGKILL)
    except OSError:
        pass


def _kill_group(group: int) -> None:
    try:
        os.killpg(group, signal.SIGKILL)
    except OSError:
        pass
