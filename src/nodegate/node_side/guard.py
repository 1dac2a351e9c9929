"""Node side: run one program for the controller, and make sure that nothing of it outlives the controller.

Sent over the connection (Python 3.6+, standard library only) and started as `main(stdin)`. Standard input has the
request, then stays open: its end means that the controller closed or died, and everything that the program started is
ended. Where a connection may outlive the controller, the request has a lease: so many seconds in which nothing comes
from the controller mean the same. Standard output has a random marker line, which separates it from what a login
prints before, then frames: one byte of kind (O stdout, E stderr, X the end), four bytes of length, the bytes.
"""

import contextlib
import ctypes
import json
import os
import select
import signal
import struct
import subprocess
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, BinaryIO

TERM_S = 2.0  # from SIGTERM to SIGKILL
KILL_S = 3.0  # after SIGKILL: what is still alive waits in the kernel (D state) and is reported, not waited for
FLUSH_S = 30.0
REPLY_S = 15.0  # a sign of life is answered at most so often: it may stay unread, and a pipe holds 64 KiB
CHUNK = 65536
SET_PDEATHSIG, SET_CHILD_SUBREAPER = 1, 36


def prctl(option: int, value: int) -> bool:
    """Linux's prctl; False if it is not available."""
    try:
        return bool(ctypes.CDLL(None).prctl(option, value, 0, 0, 0) == 0)
    except (AttributeError, OSError):
        return False


def die_with_us() -> None:
    """If this guard is killed, so is the program (but not its children)."""
    prctl(SET_PDEATHSIG, signal.SIGKILL)


def ours(session: int) -> "dict[int, str]":
    """{pid: 'pid name state'} of the guard's living descendants and of the program's session."""
    table = {}  # {pid: (parent, session, state, name)} of the processes that /proc shows
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open("/proc/" + name + "/stat", "rb") as stat:
                    head, _, tail = stat.read().decode("utf-8", "replace").rpartition(")")
            except OSError:
                continue
            fields = tail.split()
            table[int(name)] = (int(fields[1]), int(fields[3]), fields[0], head.partition("(")[2])
    below, todo = set(), [os.getpid()]
    while todo:
        parent = todo.pop()
        new = [pid for pid, row in table.items() if row[0] == parent and pid not in below]
        below.update(new)
        todo.extend(new)
    below.update(pid for pid, row in table.items() if row[1] == session)
    return {pid: f"{pid} {table[pid][3]} {table[pid][2]}" for pid in below if table[pid][2] not in "ZX"}


class Guard:
    """One program, from its start to the end of everything that it started."""

    def __init__(self, request: "dict[str, Any]", payload: "bytes | bytearray") -> None:
        self.request, self.payload = request, memoryview(payload)  # a slice of it is not a copy
        self.limit = request["max_output_bytes"]
        self.pending = bytearray((request["marker"] + "\n").encode())
        self.sent = {"O": 0, "E": 0}
        self.streams: dict[int, str] = {}
        self.pid = 0  # the program
        self.stdin = -1  # the guard's end of its standard input
        self.status: int | None = None
        self.end: dict[str, Any] = {"exit": None, "timed_out": False, "truncated": False, "stuck": []}
        self.gone = False  # the controller closed the connection or ended
        self.lease_s = request.get("lease_s") or float("inf")
        self.heard = self.replied = time.monotonic()
        self.poll = select.poll()
        self.wake, wake_write = os.pipe()
        for fd in (self.wake, wake_write, 1):
            os.set_blocking(fd, False)
        signal.set_wakeup_fd(wake_write)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            signal.signal(number, self.on_signal)

    def on_signal(self, *_: object) -> None:
        """The guard was asked to end: end the program."""
        self.gone = True

    def frame(self, kind: str, data: bytes) -> None:
        """Queue one frame; output over the limit is read and dropped, so that the program never blocks."""
        if kind in self.sent:
            room = self.limit - self.sent[kind]
            if len(data) > room:
                data, self.end["truncated"] = data[:room], True
            self.sent[kind] += len(data)
        if data:
            self.pending += struct.pack(">cI", kind.encode(), len(data)) + data

    def flush(self) -> None:
        """Write as much as standard output accepts now."""
        try:
            while self.pending:
                del self.pending[: os.write(1, self.pending[:CHUNK])]
        except BlockingIOError:
            pass
        except OSError:
            self.gone, self.pending = True, bytearray()

    def start(self) -> bool:
        """Start the program; False if that fails, with the exit codes of a shell."""
        argv = self.request["argv"]
        environment = dict(os.environ, LC_ALL="C")
        environment.pop("LANGUAGE", None)
        environment.setdefault("HOME", os.path.expanduser("~"))  # as of a login, also where there was none
        (stdin, self.stdin), (stdout_read, stdout), (stderr_read, stderr) = os.pipe(), os.pipe(), os.pipe()
        try:
            # Kept: a Popen that goes out of scope reaps its process, and the exit status would be lost.
            self.program = subprocess.Popen(
                argv,
                stdin=stdin,
                stdout=stdout,
                stderr=stderr,
                env=environment,
                start_new_session=True,
                preexec_fn=die_with_us,  # noqa: PLW1509 - this process has one thread
            )
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            missing = isinstance(error, (FileNotFoundError, NotADirectoryError))
            self.end["exit"] = 127 if missing else 126
            self.frame("E", "{}: {}\n".format(argv[0], "not found" if missing else error).encode("utf-8", "replace"))
            return False
        finally:
            for fd in (stdin, stdout, stderr):
                os.close(fd)
        self.pid = self.program.pid
        self.streams = {stdout_read: "O", stderr_read: "E"}
        for fd, events in ((stdout_read, select.POLLIN), (stderr_read, select.POLLIN), (self.stdin, select.POLLOUT)):
            os.set_blocking(fd, False)
            self.poll.register(fd, events)
        return True

    def feed(self) -> None:
        """Give the program more of its standard input, then its end."""
        try:
            while self.payload:
                self.payload = self.payload[os.write(self.stdin, self.payload[:CHUNK]) :]
        except BlockingIOError:
            return
        except OSError:
            pass  # it does not read its input, which is allowed
        self.poll.unregister(self.stdin)
        os.close(self.stdin)

    def take(self, fd: int) -> bool:
        """Read one piece of output; False when there is none now."""
        try:
            data = os.read(fd, CHUNK)
        except BlockingIOError:
            return False
        except OSError:
            data = b""
        if data:
            self.frame(self.streams[fd], data)
        else:
            self.poll.unregister(fd)
            del self.streams[fd]
        return bool(data)

    def reap(self) -> bool:
        """Reap ended children; True while living ones are left."""
        try:
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    return True
                if pid == self.pid:
                    self.status = status
        except ChildProcessError:
            return False

    def step(self, wait_s: float) -> None:
        """Wait for the next event and handle it."""
        self.poll.register(1, select.POLLOUT if self.pending else 0)
        for fd, _ in self.poll.poll(max(0.0, wait_s) * 1000 + 1):
            if fd == 0:
                self.heard = time.monotonic()
                try:
                    is_ended = not os.read(0, CHUNK)
                except OSError:
                    is_ended = True
                if is_ended:
                    self.gone = True
                    self.poll.unregister(0)
                elif self.heard > self.replied + REPLY_S and not self.pending:
                    self.replied = self.heard
                    self.pending += struct.pack(">cI", b"O", 0)
            elif fd == 1:
                self.flush()
                # whether no process reads the standard output any more
                closed = select.POLLERR | select.POLLHUP
                self.gone = self.gone or any(event & closed for each, event in self.poll.poll(0) if each == 1)
            elif fd == self.wake:
                os.read(self.wake, CHUNK)
            elif fd in self.streams:
                self.take(fd)
            else:
                self.feed()
        self.reap()

    def watch(self) -> None:
        """Loop until the program ends, its time limit is reached or the controller is gone."""
        deadline = time.monotonic() + self.request["timeout_s"]
        self.poll.register(0, select.POLLIN)
        self.poll.register(self.wake, select.POLLIN)
        while self.status is None and not self.gone:
            left, leased = deadline - time.monotonic(), self.heard + self.lease_s - time.monotonic()
            if leased <= 0:
                self.end["silent_s"] = self.lease_s
                self.gone = True
                return
            if left <= 0:
                self.end["timed_out"] = True
                return
            self.step(min(left, leased))

    def end_all(self) -> "list[str]":
        """End everything that is left: SIGTERM, then SIGKILL. Returns what cannot be killed."""
        told: set[tuple[int, int]] = set()
        for number, limit_s in ((signal.SIGTERM, TERM_S), (signal.SIGKILL, KILL_S)):
            deadline = time.monotonic() + limit_s
            while time.monotonic() < deadline:
                self.reap()
                living = ours(self.pid)
                if not living:
                    return []
                for pid in living:
                    if (pid, number) not in told:
                        told.add((pid, number))
                        for each in (number, signal.SIGCONT):
                            with contextlib.suppress(OSError):  # it has ended
                                os.kill(pid, each)
                time.sleep(0.02)
        self.reap()
        return sorted(ours(self.pid).values())  # a node that was suspended did not see the last part of that time

    def finish(self) -> None:
        """Send the rest of the output and the end."""
        if self.status is not None and not self.end["timed_out"] and not self.gone:
            signalled = os.WIFSIGNALED(self.status)
            self.end["exit"] = 128 + os.WTERMSIG(self.status) if signalled else os.WEXITSTATUS(self.status)
        self.frame("X", json.dumps(self.end).encode())
        deadline = time.monotonic() + FLUSH_S
        while self.pending and time.monotonic() < deadline:
            self.flush()
            if self.pending:
                self.step(0.5)

    def run(self) -> None:
        """Run the program and report its end."""
        adopted = prctl(SET_CHILD_SUBREAPER, 1)
        if self.start():
            try:
                self.watch()
            finally:
                if self.status is None or self.reap() or not adopted:
                    self.end["stuck"] = self.end_all()
            for fd in list(self.streams):
                while fd in self.streams and self.take(fd):
                    pass
        self.finish()


def main(stdin: "BinaryIO") -> None:
    """Read the request and do it."""
    request = json.loads(stdin.read(int(stdin.readline())).decode())
    payload = bytearray()
    while len(payload) < request["stdin_bytes"]:
        signal.alarm(int(request.get("lease_s") or 0))  # it ends us: nothing was started yet
        piece = stdin.read(min(CHUNK, request["stdin_bytes"] - len(payload)))
        if not piece:
            return  # the controller closed the connection before it sent a request
        payload += piece
    signal.alarm(0)
    os.dup2(os.open(os.devnull, os.O_RDWR), 2)
    Guard(request, payload).run()
    os._exit(0)
