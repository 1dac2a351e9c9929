"""Running tasks in child processes: a hang or crash in one costs its own time limit and nothing else."""

import contextlib
import json
import mmap
import os
import select
import signal
import time
from typing import Callable, Dict, List, NamedTuple, Optional

from nodegate.node_side.probe import child
from nodegate.node_side.probe.child import Task
from nodegate.node_side.probe.reading import Reading, unknown

_LOOK_AGAIN_S = 0.25  # at what is given time for a processor
KILL_GRACE_S = 1.0  # a process that still exists this long after SIGKILL cannot be ended
_PR_SET_CHILD_SUBREAPER = 36


class Outcome(NamedTuple):
    """The result of a task: its value, or why there is none, and the parts that it had sent by then."""

    value: object
    unknown: Optional[Reading]
    parts: List[object]
    duration_s: float


def run(tasks: Dict[str, Task], budget_s: float = float("inf"), at_once: int = 1000) -> Dict[str, Outcome]:
    """Do the tasks, each in a child of its own, `at_once` at a time; returns when all have ended or were abandoned."""
    end = time.monotonic() + budget_s
    waiting = list(tasks)
    running: List[_Running] = []
    while True:
        live = [one for one in running if not one.step()]
        while waiting and len(live) < at_once:
            name = waiting.pop(0)
            live.append(_Running(name, tasks[name], end))
            running.append(live[-1])
        if not live:
            return {one.name: one.outcome() for one in running}
        select.select([one.fd for one in live if one.fd >= 0], [], [], min(one.patience_s() for one in live))


def adopt_orphans() -> None:
    """Adopt descendants whose parent has ended, so that none is left behind."""
    if child.LIBC is not None:
        child.LIBC.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def end_all() -> None:
    """End every process that is still a child; one in D state is left alone after the grace time."""
    give_up = time.monotonic() + KILL_GRACE_S
    while time.monotonic() < give_up:
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except OSError:  # no child is left
            return
        if pid == 0:
            for left in [int(name) for name in os.listdir("/proc") if name.isdigit()]:
                if _stat_fields(left)[1:2] == [str(os.getpid())]:
                    _kill(left)
            time.sleep(0.005)


def where_it_hangs(pid: int) -> str:
    """Where in the kernel a process waits that SIGKILL does not end."""
    state = (_stat_fields(pid) or ["?"])[0]
    try:
        with open(f"/proc/{pid}/wchan") as file:
            place = file.read(100)
    except OSError:
        place = ""
    return f"process {pid} cannot be ended (state {state}, wchan {place or '?'})"


def is_runnable(pid: int) -> bool:
    """Whether a process could go on if a processor were free, or has one: it waits for nothing else."""
    return _stat_fields(pid)[:1] == ["R"]


def signal_name(number: int) -> str:
    """SIGSEGV for 11."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


class Deadline:
    """When something is late: after its limit, or up to `patience_s` later as long as it only waits for a processor.

    `limit_s` counts from `started`; nothing goes on after `end`. `starved`: it had time and could go on, and is late.
    """

    def __init__(self, started: float, limit_s: float, patience_s: float, end: float) -> None:
        self.at = min(started + limit_s, end)
        self.starved = False
        self._has_patience = patience_s > 0
        self._last = min(started + limit_s + patience_s, end)

    def is_over(self, could_go_on: Callable[[], bool]) -> bool:
        """Whether the time is over; more is given to what could go on if a processor were free."""
        now = time.monotonic()
        if now < self.at:
            return False
        self.starved = self._has_patience and could_go_on()
        if self.starved and now < self._last:
            self.at = min(now + _LOOK_AGAIN_S, self._last)
            return False
        return True

    def left_s(self) -> float:
        """How long until it is to be looked at."""
        return max(0.0, self.at - time.monotonic())


class _Running:
    """One running task, seen from its parent."""

    def __init__(self, name: str, task: Task, end: float) -> None:
        self.name = name
        self.task = task
        self.started = time.monotonic()
        self.ended: Optional[float] = None
        self.deadline = Deadline(self.started, task.limit_s, task.patience_s, end)
        self.buffer = bytearray()
        self.room = task.max_bytes
        self.parts: List[object] = []
        self.final: Optional[Dict[str, object]] = None
        self.late = False
        self.too_long = False
        self.closing_since: Optional[float] = None
        self.killed_since: Optional[float] = None
        self.status: Optional[int] = None
        self.fd = -1
        self.notes = mmap.mmap(-1, child.NOTE_BYTES)
        read_fd, write_fd = os.pipe()
        parent = os.getpid()
        try:
            self.pid = os.fork()
        except OSError as error:  # no more processes allowed
            os.close(read_fd)
            os.close(write_fd)
            self.status = 0
            self.final = {"unknown": unknown("failed", f"fork: {error.strerror}")}
            return
        if self.pid == 0:
            child.become(self.task, self.notes, self.deadline.at, write_fd, parent)
        os.close(write_fd)
        os.set_blocking(read_fd, False)
        self.fd = read_fd

    def step(self) -> bool:
        """Read what has come, end the child if it is late; true when nothing more will come from it."""
        if self.status is not None or self.ended is not None:
            return True
        self._take()
        now = time.monotonic()
        if self.final is not None or self.too_long:
            self._kill()
        elif self.killed_since is None and self.deadline.is_over(self._could_go_on):
            self.late = True
            self._kill()
        elif self.closing_since is not None and now - self.closing_since > KILL_GRACE_S:
            self._kill()
        return self._gone(now)

    def patience_s(self) -> float:
        """How long the parent may wait for this child's pipe before it looks again."""
        if self.killed_since is not None or self.closing_since is not None:
            return 0.003
        return self.deadline.left_s()

    def outcome(self) -> Outcome:
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
            self.too_long = len(self.buffer) > self.room
        *lines, rest = bytes(self.buffer).split(b"\n")
        self.room -= len(self.buffer) - len(rest)
        self.buffer = bytearray(rest)
        for line in lines:
            message = json.loads(line.decode("utf-8"))
            if "part" in message:
                self.parts.append(message["part"])
            else:
                self.final = message

    def _could_go_on(self) -> bool:
        """Whether the child has not begun, or nothing but a processor is missing."""
        return not self._doing() or is_runnable(self.pid)

    def _doing(self) -> str:
        return self.notes[:].rstrip(b"\0").decode("utf-8", "replace")

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
            _kill_group(self.pid)  # programs that it started and left behind
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
        doing = self._doing()
        at = f", at {doing}" if doing else ""
        if self.status is None:
            return unknown("hung", f"{where_it_hangs(self.pid)}{at}", pid=self.pid)
        if self.late:
            took = f"{round(self.deadline.at - self.started, 1):g} s"
            if self.deadline.starved:
                return unknown("busy", f"not done within {took}, but nothing blocks it{at}")
            return unknown("timeout", f"no answer within {took}{at}")
        if self.too_long:
            return unknown("failed", f"output exceeds the limit{at}")
        if os.WIFSIGNALED(self.status):
            return unknown("failed", f"ended by {signal_name(os.WTERMSIG(self.status))}{at}")
        return unknown("failed", f"ended without a result (exit code {os.WEXITSTATUS(self.status)}){at}")


def _stat_fields(pid: int) -> List[str]:
    """State, parent, ... of a process: /proc/PID/stat after the name; empty if it has ended."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read(4096).decode("ascii", "replace").rpartition(")")[2].split()
    except OSError:
        return []


def _kill(pid: int) -> None:
    _kill_group(pid)
    with contextlib.suppress(OSError):
        os.kill(pid, signal.SIGKILL)


def _kill_group(group: int) -> None:
    with contextlib.suppress(OSError):
        os.killpg(group, signal.SIGKILL)
