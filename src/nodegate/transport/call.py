"""Controller side of the guard: it sends one request and reads its frames, within limits of time and size."""

from __future__ import annotations

import json
import re
import secrets
import shlex
import struct
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from nodegate.errors import Unreachable
from nodegate.node_program import node_source
from nodegate.transport.beat import SIGN
from nodegate.transport.channel import MAX_NOISE_BYTES, Channel
from nodegate.transport.session import Output

if TYPE_CHECKING:
    from nodegate.transport.guarded import GuardedSession

# One line without ', ! or newline, so that sh, bash, csh and fish all read it the same way between single quotes.
BOOT = (
    "import sys,signal;signal.alarm(LEASE);"
    'sys.version_info<(3,6) and sys.exit("nodegate-guard: needs Python 3.6, this is %d.%d"'
    '%sys.version_info[:2]);I=open(0,"rb",closefd=False);'
    'exec(compile(I.read(int(I.readline())),"nodegate-guard","exec"));main(I)'
)
SUDO = 'LC_ALL=C;export LC_ALL;test "$(id -u)" = 0 && exec "$@";exec sudo -n -- "$@"'
MAX_FRAME_BYTES = 1 << 20
POLL_S = 0.5
START_S = 60.0  # the longest time from the end of what is sent to the guard's first word
END_S = 15.0  # after its own time limit a guard needs up to 5 s to kill, and the network takes some time
STOP_S = 45.0  # from the end of a guard's input to its end, with all of its output
NO_REPLY_S = 30.0  # in addition to the lease: signs of life are answered every 20 s
FRAME_HEAD = struct.Struct(">cI")
NO_PYTHON = re.compile(r"(?i)not found|no such file|unknown command|unknown option|permission denied|cannot execute")
LOGIN_STEP = "look at what its login runs (.bashrc, .profile, tmux, another shell): `ssh NODE true` must work by itself"


def guard_argv(python: str, *, as_root: bool, lease_s: float = 0) -> list[str]:
    """The command that starts a guard; as root by sudo if the login is not root. See `Request` for the lease."""
    argv = [python, "-I", "-S", "-c", BOOT.replace("LEASE", str(int(lease_s))), "nodegate-guard"]
    return ["sh", "-c", SUDO, "nodegate-sudo", *argv] if as_root else argv


def guard_command(python: str, *, as_root: bool) -> str:
    """`guard_argv` as one line for the login shell."""
    return "exec " + shlex.join(guard_argv(python, as_root=as_root))


@dataclass(frozen=True)
class Request:
    """One program to run: see `Session.run`. `lease_s`: so long a silence of ours ends it; 0 for none."""

    argv: Sequence[str]
    timeout_s: float
    stdin: bytes = b""
    as_root: bool = False
    max_output_bytes: int = 4 << 20
    lease_s: float = 0.0
    marker: str = field(default_factory=lambda: f"nodegate-{secrets.token_hex(16)}")

    def encode(self) -> bytes:
        """What goes to the guard's standard input: its source, the request, the program's standard input."""
        source = node_source("guard").encode()
        asked: dict[str, object] = {"argv": list(self.argv), "timeout_s": self.timeout_s, "marker": self.marker}
        asked |= {"max_output_bytes": self.max_output_bytes, "stdin_bytes": len(self.stdin), "lease_s": self.lease_s}
        return bundle(source, json.dumps(asked).encode(), self.stdin)


def bundle(source: bytes, head: bytes, rest: bytes) -> bytes:
    """What `BOOT` reads: a program and its head, each after its length, then what the program reads itself."""
    return b"%d\n%s%d\n%s%s" % (len(source), source, len(head), head, rest)


class Frames:
    """Takes the guard's frames out of a stream that may start with output of the login."""

    def __init__(self, marker: str) -> None:
        self._marker = marker.encode() + b"\n"
        self._buffer = bytearray()
        self.started = False

    @property
    def noise(self) -> bytes:
        """What was received before the guard, if the guard never started."""
        return b"" if self.started else bytes(self._buffer[:2000])

    def feed(self, data: bytes) -> Iterator[tuple[bytes, bytes]]:
        """The frames that are complete now: kind and bytes. Raises ValueError if the output is not a guard's."""
        self._buffer += data
        if not self.started:
            head, marker, rest = self._buffer.partition(self._marker)
            if not marker:
                if len(head) > MAX_NOISE_BYTES:
                    most = f"{MAX_NOISE_BYTES} bytes before nodegate's program started"
                    raise ValueError(f"the login printed more than {most}")
                return
            self.started, self._buffer = True, rest
        while len(self._buffer) >= FRAME_HEAD.size:
            kind, size = FRAME_HEAD.unpack_from(self._buffer)
            if kind not in b"OEX" or size > MAX_FRAME_BYTES:
                raise ValueError("the answer is not in the guard's format")
            if len(self._buffer) < FRAME_HEAD.size + size:
                return
            yield kind, bytes(self._buffer[FRAME_HEAD.size : FRAME_HEAD.size + size])
            del self._buffer[: FRAME_HEAD.size + size]


class Call:
    """One guard at work: `start`, then `output`; or `line`, `ended` and `stop` for a program that keeps running.

    For one thread at a time. What keeps running must be ended with `stop`, in any case. All of these raise Unreachable
    where the connection broke.
    """

    def __init__(self, channel: Channel, request: Request, session: GuardedSession) -> None:
        self.channel, self.request, self.lease_s, self._session = channel, request, request.lease_s, session
        self._python, self._start_s = session.node.connection.python, session.answer_s
        self._stopped: Output | None = None
        self._frames = Frames(request.marker)
        self._kept = {b"O": bytearray(), b"E": bytearray()}
        self._end: bytes | None = None
        self._started_s = self._sent_s = self._heard_s = time.monotonic()
        self._until_s = self._started_s + request.timeout_s + END_S

    def start(self) -> None:
        """Send the request. A guard that never started is reported by `output`, which knows why."""
        try:
            self.channel.send(self.request.encode(), self._start_s)
        except TimeoutError:
            raise self._session.stands_still("the node did not accept nodegate's program") from None
        except OSError:
            pass
        self._sent_s = time.monotonic()

    def beat(self) -> None:
        """See `Leased`."""
        self.channel.send(SIGN, 0.0)

    def expired(self, silent_s: float) -> None:
        """See `Leased`."""
        self._session.was_silent(silent_s)

    def output(self) -> Output:
        """Wait for the end."""
        while self._end is None and self._advance():
            pass
        if self._end is None:
            raise self._why_it_broke()
        stdout, stderr = (bytes(self._kept[kind]) for kind in (b"O", b"E"))
        output, silent_s = _ended(self._end, stdout, stderr, time.monotonic() - self._started_s)
        if silent_s:
            raise self._session.was_silent(silent_s)
        return output

    def line(self, within_s: float = float("inf")) -> str:
        """The first line of its standard output, as soon as it is complete; empty if the program ended without one."""
        until_s = time.monotonic() + within_s
        while b"\n" not in self._kept[b"O"] and self._end is None and self._advance():
            if time.monotonic() > until_s:
                raise self._silence(within_s)
        if self._end is None and b"\n" not in self._kept[b"O"]:
            raise self._why_it_broke()
        return bytes(self._kept[b"O"]).partition(b"\n")[0].decode("utf-8", "replace")

    def ended(self, within_s: float) -> bool:
        """Whether it ends by itself within this many seconds; returns as soon as it has."""
        until_s = time.monotonic() + within_s
        while self._end is None:
            left_s = until_s - time.monotonic()
            if not self._advance(max(0.0, left_s)) and self._end is None:
                raise self._why_it_broke()
            if left_s <= 0:
                break
        return self._end is not None

    def stop(self) -> Output:
        """End it and all its children, if it still runs, and return its result. May be called twice."""
        if self._stopped is None:
            self.channel.end_input()
            self._until_s = min(self._until_s, time.monotonic() + STOP_S)
            try:
                self._stopped = self.output()
            finally:
                self._session.finish(self)
        return self._stopped

    def _advance(self, most_s: float = POLL_S) -> bool:
        """Read the next data, waiting at most `most_s` for it; False at the end of the stream."""
        left_s = self._until_s - time.monotonic()
        if left_s <= 0:
            raise self._silence(self._until_s - self._started_s)
        if not self._frames.started and time.monotonic() - self._sent_s > self._start_s:
            raise self._silence(self._start_s)
        try:
            data = self.channel.receive(min(left_s, POLL_S, most_s))
            for kind, piece in self._frames.feed(data or b""):
                self._take(kind, piece)
        except ValueError as error:
            raise self._unreachable("dropped", str(error), "check what the login prints (.bashrc, motd)") from None
        except OSError:
            return False
        self._heard_s = time.monotonic() if data else self._heard_s
        if self.lease_s and self._frames.started and time.monotonic() > self._heard_s + self.lease_s + NO_REPLY_S:
            raise self._silence(self.lease_s + NO_REPLY_S)
        return data != b""

    def _silence(self, limit_s: float) -> Unreachable:
        """No answer in time. If nothing of ours began, the login may be at fault as well as the node."""
        if self._frames.started:
            return self._session.stands_still(f"the node did not answer within {limit_s:.0f} s")
        said = printable(self.channel.stderr()) or printable(self._frames.noise)
        reason = f"the login worked, but {self._python} did not start within {limit_s:.0f} s"
        reason += f" (the login said: {said})" if said else ""
        self._session.stands_still(reason)
        step = f"{self._session.login_step}; else the node hangs: look at its console"
        return self._unreachable("timeout", reason, step)

    def _take(self, kind: bytes, piece: bytes) -> None:
        if kind == b"X":
            self._end = piece
            return
        if len(self._kept[kind]) + len(piece) > self.request.max_output_bytes:
            most = f"{self.request.max_output_bytes} bytes, which nodegate's guard never does"
            raise ValueError(f"it sent more than {most}")
        self._kept[kind] += piece

    def _why_it_broke(self) -> Unreachable:
        status = self.channel.exit_status(5.0)
        said = printable(self.channel.stderr())
        if self._frames.started or status is None:
            program = printable(self.request.argv[0].encode(), 100)
            reason = f"the connection broke while it ran {program}{': ' + said if said else ''}"
            return self._unreachable("dropped", reason, "check whether the node rebooted, hung or lost its network")
        if self.request.as_root and "sudo:" in said:
            return self._no_sudo(said)
        if known := self._session.why(said):
            return known
        said = said or printable(self._frames.noise)
        reason = f"{self._python} did not start there (exit {status}{': ' + said if said else ''})"
        if not self._is_missing(status, said):
            return self._unreachable("configuration", reason, self._session.login_step)
        step = "install python3 (3.6 or newer) on it, or name it with ansible_python_interpreter in the inventory"
        return self._unreachable("no-python", reason, step)

    def _is_missing(self, status: int, said: str) -> bool:
        """Whether a shell, or a Python that is too old, says so; other words are those of what the login runs."""
        if not said:
            return status in (126, 127)
        return "needs Python 3.6" in said or (self._python in said and NO_PYTHON.search(said) is not None)

    def _no_sudo(self, said: str) -> Unreachable:
        if f"{self._python}: command not found" in said:
            step = "give the interpreter's full path with ansible_python_interpreter in the inventory"
            return self._unreachable("no-python", f"sudo does not find {self._python}", step)
        if "password is required" in said:
            reason = "sudo wants a password"
        elif re.search(r"sudo: *(command )?not found", said):
            reason = "there is no sudo and the login is not root"
        else:
            reason = f"sudo refused: {said}"
        step = "let the login run python3 by sudo without a password (sudoers: NOPASSWD), or log in as root"
        return self._unreachable("no-sudo", reason, step)

    def _unreachable(self, kind: str, reason: str, next_step: str) -> Unreachable:
        return Unreachable(kind, reason, next_step=next_step, whose=self._session.node.name)


def _ended(data: bytes, stdout: bytes, stderr: bytes, duration_s: float) -> tuple[Output, float]:
    """The output of a program by the guard's final answer, and how long our silence was that ended it."""
    try:
        end = json.loads(data)
        code = None if end["exit"] is None else int(end["exit"])
        stuck = tuple(printable(str(line).encode(), 100) for line in end["stuck"][:20])
        output = Output(stdout, stderr, code, duration_s, end["timed_out"] is True, end["truncated"] is True, stuck)
        return output, float(end.get("silent_s") or 0)
    except (ValueError, TypeError, LookupError, OverflowError, RecursionError) as error:
        what = f"the answer is not in the guard's format: {type(error).__name__}"
        step = "check what intercepts output between sshd and python3 (.bashrc, banner)"
        raise Unreachable("dropped", what, next_step=step) from None


def output_in(sent: bytes, request: Request, duration_s: float) -> Output:
    """The output of a program in all that its guard has sent.

    Raises:
        ValueError: that is not a guard's, or it has no end.
        Unreachable: its end is not one.
    """
    kept = {b"O": bytearray(), b"E": bytearray(), b"X": bytearray()}
    for kind, piece in Frames(request.marker).feed(sent):
        kept[kind] += piece
    output, silent_s = _ended(bytes(kept[b"X"]), bytes(kept[b"O"]), bytes(kept[b"E"]), duration_s)
    if silent_s:
        raise ValueError("the controller was silent")
    return output


def printable(text: bytes, limit: int = 300) -> str:
    """One line of what a node sent, without control characters, cut to `limit` characters."""
    line = " ".join(text.decode("utf-8", "replace").split())
    line = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in line)
    return line if len(line) <= limit else line[: limit - 1] + "\N{HORIZONTAL ELLIPSIS}"
