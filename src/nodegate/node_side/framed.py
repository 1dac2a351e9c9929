"""Node side: one of many tasks whose outputs come in one stream: it starts a guard and sends what that sends as lines.

Sent like the guard and started as `main(stdin)`; standard input has what to start, its whole input, then signs of life,
which go on to the guard. Lines of at most 1,000 bytes: `MARKER node NAME`, `MARKER NUMBER BASE64`, at the end
`MARKER end SIZE SHA256`. Longer ones would be cut and mixed with those of other tasks (SLURM_IO_MAX_MSG_LEN).
"""

import base64
import contextlib
import hashlib
import json
import os
import select
import signal
import subprocess

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import IO, BinaryIO

PIECE = 600  # bytes in a line: 800 as base64
CHUNK = 65536


class Lines:
    """Standard output in lines."""

    def __init__(self, marker: str) -> None:
        self.marker, self.number, self.size = marker, 0, 0
        self.digest, self.waiting = hashlib.sha256(), b""

    def say(self, *words: str) -> None:
        """One line, whole."""
        line = (" ".join((self.marker, *words)) + "\n").encode()
        while line:
            line = line[os.write(1, line) :]

    def add(self, data: bytes, least: int = PIECE) -> None:
        """Send what fills lines of `least` bytes."""
        self.digest.update(data)
        self.size += len(data)
        self.waiting += data
        while len(self.waiting) >= max(1, least):
            piece, self.waiting = self.waiting[:PIECE], self.waiting[PIECE:]
            self.say(str(self.number), base64.b64encode(piece).decode())
            self.number += 1


def passed_on(fd: int, guard: "IO[bytes]", lease_s: int) -> bool:
    """Pass a sign of life on to the guard; False at the end of input."""
    signal.alarm(lease_s)  # without one it ends us, however we wait, and our end is the guard's
    data = os.read(fd, CHUNK)
    with contextlib.suppress(OSError):
        if data:
            os.write(guard.fileno(), data)
        else:
            guard.close()
    return bool(data)


def main(stdin: "BinaryIO") -> None:
    """Run the guard, pass on what comes and what goes."""
    asked = json.loads(stdin.read(int(stdin.readline())).decode())
    lease_s = int(asked["lease_s"])
    given = stdin.read(asked["bytes"])
    if len(given) < asked["bytes"]:
        return
    signal.alarm(lease_s)
    lines = Lines(asked["marker"])
    lines.say("node", os.environ.get("SLURMD_NODENAME", ""))
    quiet = os.open(os.devnull, os.O_RDWR)
    pipe = subprocess.PIPE
    with subprocess.Popen(asked["argv"], stdin=pipe, stdout=pipe, stderr=quiet, bufsize=0) as guard:
        if guard.stdin and guard.stdout:
            relay(guard.stdin, guard.stdout, given, lines, lease_s)
    lines.add(b"", least=1)
    lines.say("end", str(lines.size), lines.digest.hexdigest())
    while os.read(0, CHUNK):  # until the controller has it: slurmstepd may close with output of a task that has ended
        signal.alarm(lease_s)
    os._exit(0)


def relay(to_guard: "IO[bytes]", from_guard: "IO[bytes]", given: bytes, lines: Lines, lease_s: int) -> None:
    """Until the guard ends."""
    view = memoryview(given)  # which it reads before it writes anything
    with contextlib.suppress(OSError):
        while view:
            view = view[os.write(to_guard.fileno(), view) :]
    poll = select.poll()
    poll.register(from_guard.fileno(), select.POLLIN)
    poll.register(0, select.POLLIN)
    while True:
        ready = {fd for fd, _ in poll.poll()}
        if 0 in ready and not passed_on(0, to_guard, lease_s):
            poll.unregister(0)
        if from_guard.fileno() in ready:
            data = os.read(from_guard.fileno(), CHUNK)
            if not data:
                break
            lines.add(data)
