"""The bytes between the controller and one guard on a node: over SSH, or over the pipes of a local program."""

import contextlib
import os
import select
import subprocess
import threading
from collections.abc import Mapping, Sequence
from typing import Protocol

CHUNK_BYTES = 1 << 16
MAX_STDERR_BYTES = 1 << 14
MAX_NOISE_BYTES = 1 << 20  # what a login may print before the guard, on each stream


class Errors:
    """What a command printed on standard error: its first 16 KiB are kept. Only a login's words come this way."""

    def __init__(self) -> None:
        self.kept, self._bytes = b"", 0

    def add(self, data: bytes) -> None:
        """The next piece."""
        self.kept = (self.kept + data)[:MAX_STDERR_BYTES]
        self._bytes += len(data)

    def check(self) -> None:
        """Raise ValueError if this is more than any login prints."""
        if self._bytes > MAX_NOISE_BYTES:
            raise ValueError(f"the login printed more than {MAX_NOISE_BYTES} bytes of errors")


class Channel(Protocol):
    """One started command, its three streams and its end."""

    def send(self, data: bytes, pause_s: float) -> None:
        """Write all to its standard input. Raises OSError; TimeoutError if it reads nothing for so long."""
        ...

    def receive(self, timeout_s: float) -> bytes | None:
        """The next bytes of standard output; None if none came in time, b"" at its end.

        Raises:
            ValueError: it printed more on standard error than any login.
        """
        ...

    def stderr(self) -> bytes:
        """What was received on standard error so far, its first 16 KiB."""
        ...

    def exit_status(self, timeout_s: float) -> int | None:
        """The exit status; None if none was received: the connection broke, or the command still runs."""
        ...

    def end_input(self) -> None:
        """Close its standard input: the guard ends everything."""
        ...

    def close(self) -> None:
        """Release the command. May be called twice."""
        ...


class PipeChannel:
    """A command on this machine; with `ssh` as the command, one on a node."""

    def __init__(
        self, argv: Sequence[str], *, broken_exit: int | None = None, environ: Mapping[str, str] | None = None
    ) -> None:
        self._broken_exit = broken_exit  # the exit status with which the command reports that it lost the connection
        pipe = subprocess.PIPE
        # Its own session: the controller handles Ctrl-C on the terminal, so that what runs on a node is ended in order.
        self._process = subprocess.Popen(
            argv, stdin=pipe, stdout=pipe, stderr=pipe, bufsize=0, start_new_session=True, env=environ
        )
        self._streams = [each for each in (self._process.stdin, self._process.stdout, self._process.stderr) if each]
        self._in, self._out, self._err = (stream.fileno() for stream in self._streams)
        for fd in (self._in, self._out, self._err):
            os.set_blocking(fd, False)
        self._errors, self._stderr_ended = Errors(), False
        self._lock = threading.Lock()

    def send(self, data: bytes, pause_s: float) -> None:
        """See `Channel.send`."""
        view = memoryview(data)
        while view:
            poll = select.poll()
            poll.register(self._in, select.POLLOUT)
            if not poll.poll(pause_s * 1000):
                raise TimeoutError("the command does not read its input")
            with self._lock:
                if self._streams[0].closed:
                    raise BrokenPipeError("closed")
                view = view[os.write(self._in, view[:CHUNK_BYTES]) :]

    def receive(self, timeout_s: float) -> bytes | None:
        """See `Channel.receive`."""
        poll = select.poll()
        poll.register(self._out, select.POLLIN)
        if not self._stderr_ended:
            poll.register(self._err, select.POLLIN)
        ready = {fd for fd, _ in poll.poll(timeout_s * 1000)}
        if self._err in ready:
            self._read_stderr()
            self._errors.check()
        return os.read(self._out, CHUNK_BYTES) if self._out in ready else None

    def _read_stderr(self) -> bool:
        """Read one piece, keep it while there is room; False when there is none now."""
        try:
            data = os.read(self._err, CHUNK_BYTES)
        except BlockingIOError:
            return False
        self._errors.add(data)
        self._stderr_ended = not data
        return bool(data)

    def stderr(self) -> bytes:
        """See `Channel.stderr`."""
        for _ in range(MAX_NOISE_BYTES // CHUNK_BYTES):
            if self._stderr_ended or not self._read_stderr():
                break
        return self._errors.kept

    def exit_status(self, timeout_s: float) -> int | None:
        """See `Channel.exit_status`."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            status = self._process.wait(timeout_s)
            return None if status == self._broken_exit else status
        return None

    def end_input(self) -> None:
        """See `Channel.end_input`."""
        with self._lock, contextlib.suppress(OSError):
            self._streams[0].close()

    def close(self) -> None:
        """Close the pipes and reap the command, which ends by itself within the guard's limits."""
        self.end_input()
        try:
            self._process.wait(10.0)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        for stream in self._streams[1:]:
            stream.close()
