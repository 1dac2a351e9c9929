"""Node side: run several programs at the same time and report the result of each. Python 3.6, standard library only.

Run under the guard as `python3 -c SOURCE`, with a request on standard input:
    {"programs": [{"argv": [...], "timeout_s": 20}], "ports": [18515], "listen_s": 10, "max_bytes": 65536}
`ports` are empty, or the TCP port of each program. It writes lines of JSON: if ports are given, first
{"listening": [18515], "taken": []}, when every program that runs listens on its port or `listen_s` is over (`taken`
were in use before); then one line for each program when it has ended, with its place in the request.
Ports are looked up in /proc/net/tcp: a connection would look like the client that a server waits for.
A program may have `counters`, the folder of an RDMA port's counters: its line then has `counted`, what was sent and
received before it and after it, in words of four bytes; null where that cannot be read.
A program may have `seat`: it is then bound to CPUs near its NIC before it starts (seats.py), and its line says which it
was bound to and what the kernel said of it while it ran.
"""

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import termios
import threading
import time
from typing import Any

from nodegate.node_side import seats

TERM_S = 1.0  # from SIGTERM to SIGKILL; the guard allows two seconds when it ends this program
KILL_S = 3.0  # after SIGKILL: what is still alive waits in the kernel (state D)
STEP_S = 0.05
LOOK_S = 1.0  # between two looks at where a program runs
CHUNK = 65536
COUNTERS, COUNTERS_S = ("port_xmit_data", "port_rcv_data"), 2.0
LISTEN = "0A"  # TCP_LISTEN in /proc/net/tcp


class Program:
    """One program, from its start to its line."""

    def __init__(self, place: int, request: "dict[str, Any]", max_bytes: int, seat: "seats.Seat | None" = None) -> None:
        self.place, self.argv, self.max_bytes = place, request["argv"], max_bytes
        self.written = {"stdout": b"", "stderr": b""}
        self.timed_out, self.truncated, self.told = False, False, 0
        self.started_s = time.monotonic()
        self.deadline_s = self.started_s + request["timeout_s"]
        self.process: subprocess.Popen[bytes] | None = None
        self.exit_code: int | None = None
        self.counters = request.get("counters", "")
        self.before = counted(self.counters)
        self.seat, self.look_s = seat, 0.0
        (out, out_end), (err, err_end) = terminal(), os.pipe()
        self.streams = {"stdout": out, "stderr": err}
        try:
            with seats.taken(seat):
                self.process = subprocess.Popen(
                    self.argv, stdin=subprocess.DEVNULL, stdout=out_end, stderr=err_end, start_new_session=True
                )
        except (OSError, ValueError) as error:
            missing = isinstance(error, (FileNotFoundError, NotADirectoryError))
            self.exit_code = 127 if missing else 126
            self.written["stderr"] = "{}: {}\n".format(self.argv[0], "not found" if missing else error).encode()
        finally:
            os.close(out_end)
            os.close(err_end)
        for fd in self.streams.values():
            os.set_blocking(fd, False)

    def read(self) -> None:
        """Read what it has written; what is over the limit is dropped, so that it never blocks."""
        for name, fd in list(self.streams.items()):
            while True:
                try:
                    data = os.read(fd, CHUNK)
                except BlockingIOError:
                    break
                except OSError:  # EIO: the other end of a terminal is closed
                    data = b""
                if not data:
                    os.close(self.streams.pop(name))
                    break
                room = self.max_bytes - len(self.written[name])
                self.truncated = self.truncated or len(data) > room
                self.written[name] += data[: max(0, room)]

    def has_ended(self) -> bool:
        """Whether it has ended; ends it at its time limit."""
        if self.process is None:
            return True
        status = self.process.poll()
        if status is not None:
            if not self.timed_out:
                self.exit_code = 128 - status if status < 0 else status
            self.tell(signal.SIGKILL)  # what it left in its own process group
            self.read()
            return True
        now_s = time.monotonic()  # on which CPUs it may run is looked at now and then: it may change them itself
        if self.seat is not None and now_s >= self.look_s and self.seat.look(self.process.pid, self.argv):
            self.look_s = now_s + LOOK_S
        late_s = time.monotonic() - self.deadline_s
        if late_s >= 0:
            self.timed_out = True
            self.tell(signal.SIGTERM if late_s < TERM_S else signal.SIGKILL)
        return bool(late_s >= TERM_S + KILL_S)

    def tell(self, number: int) -> None:
        """Signal its process group, once for each signal."""
        if number == self.told or self.process is None:
            return
        self.told = number
        with contextlib.suppress(OSError):  # gone
            os.killpg(self.process.pid, number)

    def line(self) -> "dict[str, Any]":
        """Its line."""
        duration_s = time.monotonic() - self.started_s  # before the counters are read: a NIC may hang
        alive = self.process if self.process is not None and self.process.poll() is None else None
        after = None if self.before is None else counted(self.counters)
        return {
            "place": self.place,
            "stdout": self.written["stdout"].decode("utf-8", "replace"),
            "stderr": self.written["stderr"].decode("utf-8", "replace"),
            "exit": self.exit_code,
            "timed_out": self.timed_out,
            "truncated": self.truncated,
            "stuck": ["{} {} D".format(alive.pid, self.argv[0].rpartition("/")[2])] if alive else [],
            "duration_s": duration_s,
            "counted": self.before + after if self.before and after else None,
            "seat": None if self.seat is None else self.seat.line(),
        }


def counted(folder: str) -> "list[int] | None":
    """What a port has sent and received so far; None if it does not say so within a moment: a NIC may hang."""
    found: list[int] = []

    def look() -> None:
        with contextlib.suppress(OSError, ValueError):
            for name in COUNTERS:
                with open(os.environ.get("NODEGATE_PROBE_ROOT", "") + folder + "/" + name) as file:
                    found.append(int(file.read(100)))

    if not folder:
        return None
    looker = threading.Thread(target=look, daemon=True)
    looker.start()
    looker.join(COUNTERS_S)
    return list(found) if len(found) == len(COUNTERS) else None


def terminal() -> "tuple[int, int]":
    """A terminal to read from and one to write to: into a pipe, programs write only at their end.

    If the node has none, a pipe.
    """
    try:
        ours, theirs = os.openpty()
        settings = termios.tcgetattr(theirs)
        settings[1] &= ~termios.OPOST  # line ends stay unchanged
        termios.tcsetattr(theirs, termios.TCSANOW, settings)
    except (OSError, termios.error):
        return os.pipe()
    return ours, theirs


def listening(ports: "list[int]") -> "list[int]":
    """Which of these TCP ports are in use."""
    found: set[int] = set()
    for name in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            with open(name) as table:
                rows = [row.split() for row in table]
        except OSError:
            continue
        found.update(int(row[1].rpartition(":")[2], 16) for row in rows[1:] if len(row) > 3 and row[3] == LISTEN)
    return sorted(found & set(ports))


def say(line: "dict[str, Any]") -> None:
    """Write one complete line at once."""
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


def main() -> None:
    """Read the request and run the programs."""
    request: dict[str, Any] = json.loads(sys.stdin.read())
    taken = listening(request["ports"])
    room = seats.Room(request.get("nics", ()))
    programs = [
        Program(place, each, request["max_bytes"], room.seat(each.get("seat")))
        for place, each in enumerate(request["programs"])
    ]
    ending: list[bool] = []
    signal.signal(signal.SIGTERM, lambda *_: ending.append(True))
    heard_until_s = time.monotonic() + request["listen_s"]
    heard = not request["ports"]
    left, ended = list(programs), []
    while left or not heard:
        poll = select.poll()
        for program in left:
            for fd in program.streams.values():
                poll.register(fd, select.POLLIN)
        poll.poll(STEP_S * 1000)
        for program in left:
            program.read()
            if ending:
                program.deadline_s = min(program.deadline_s, time.monotonic())
        over = [program for program in left if program.has_ended()]
        left = [program for program in left if program not in over]
        if not heard:
            awaited = [request["ports"][program.place] for program in left]
            found = listening([port for port in awaited if port not in taken])
            if len(found) == len(awaited) or ending or time.monotonic() >= heard_until_s:
                heard = True
                say({"listening": found, "taken": taken})
        ended += over
        if heard:
            for program in ended:
                say(program.line())
            ended = []
    sys.stdout.flush()
    os._exit(0)  # a look at counters that hangs would be waited for
