"""Where the bytes come from: a finished file, plain or packed, a growing one (rotated or truncated), a pipe."""

import os
import select
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from nodegate.errors import UsageError
from nodegate.files import bounded
from nodegate.knowledge.words import Text

CHUNK_BYTES = 1 << 18


class Stream:
    """Bytes as they come: of a file that is read once, standard input or a named pipe.

    `name` is that of a pipe to which perhaps no program writes.
    """

    lost: Text | None = None  # once it is at its end: what of it was not read

    def __init__(self, file: int, name: str = "") -> None:
        self.file, self._name = file, name
        self._end = time.monotonic() + bounded.PIPE_LIMIT_S

    def read(self, wait_s: float) -> bytes | None:
        """New bytes; empty if none came within `wait_s`; None at the end.

        Raises:
            UsageError: no program has opened the named pipe in time.
        """
        ready, _, _ = select.select([self.file], [], [], wait_s)
        if not ready and (not self._name or time.monotonic() < self._end):
            return b""
        name, self._name = self._name, ""
        try:
            data = os.read(self.file, CHUNK_BYTES)
        except BlockingIOError:  # a program that is silent
            return b""
        if not data and not ready:
            raise UsageError("it is a pipe, and no program writes to it", file=name)
        return data or None

    def idle_s(self) -> float:
        """How long nothing had been written to a named file when the watch began, in seconds."""
        held = os.fstat(self.file)
        return max(0.0, time.time() - held.st_mtime) if self.file and stat.S_ISREG(held.st_mode) else 0.0

    def close(self) -> None:
        """Close the file."""
        os.close(self.file)


class Packed(Stream):
    """The text of a packed or recoded log (gzip, zstd, xz, bzip2, UTF-16; the only log of a zip or tar file)."""

    def __init__(self, path: Path) -> None:
        from nodegate.triage.read import chunks, members  # noqa: PLC0415 - only here
        from nodegate.triage.remarks import Remarks  # noqa: PLC0415

        self._stream = bounded.open_regular(path)
        super().__init__(self._stream.fileno())
        self._said = Remarks()
        self._path, self._chunks = path, chunks
        self._members = members(self._stream, str(path), self._said)
        self._parts: Iterator[bytes] | None = None

    def read(self, wait_s: float) -> bytes | None:  # noqa: ARG002 - it does not wait
        """See `Stream`.

        Raises:
            UsageError: it holds several logs, or cannot be unpacked here.
        """
        if self._parts is None:
            self._parts = self._chunks(next(self._members, ("", iter(())))[1], self._said)
        part = next(self._parts, None)
        if part is None and next(self._members, None):
            raise UsageError("holds several logs", file=str(self._path), hint="unpack it and give one of them")
        self.lost = self._said.lost
        return part

    def close(self) -> None:
        """See `Stream`."""
        self._stream.close()


class Growing(Stream):
    """A growing file. A file that replaces it (rotation) or that starts again (truncation) is followed too."""

    def __init__(self, path: Path) -> None:
        super().__init__(_opened(path))
        self._path = path

    def read(self, wait_s: float) -> bytes | None:
        """See `Stream`; never None."""
        data = os.read(self.file, CHUNK_BYTES) or self._anew()
        if not data:
            time.sleep(wait_s)
        return data

    def _anew(self) -> bytes:
        """The content of the file that replaced this one, or of this one after it was truncated."""
        held = os.fstat(self.file)
        if held.st_size < os.lseek(self.file, 0, os.SEEK_CUR):
            os.lseek(self.file, 0, os.SEEK_SET)
            return os.read(self.file, CHUNK_BYTES)
        try:
            there = self._path.stat()
            if (there.st_dev, there.st_ino) == (held.st_dev, held.st_ino) or not stat.S_ISREG(there.st_mode):
                return b""
            new = _opened(self._path)
        except (OSError, UsageError):
            return b""  # during a rotation there may be no file
        left = os.read(self.file, CHUNK_BYTES)  # written after our last look and before the change
        if left:
            os.close(new)
            return left
        os.close(self.file)
        self.file = new
        return os.read(self.file, CHUNK_BYTES)


@contextmanager
def source(path: Path, *, once: bool) -> Iterator[Stream]:
    """The log at `path`; `-` is standard input.

    Raises:
        UsageError: it cannot be read, or is neither a file nor a pipe.
    """
    if str(path) == "-":
        yield Stream(0)
        return
    try:
        mode = path.stat().st_mode
    except OSError as said:
        raise _unreadable(path, said) from said
    if not (stat.S_ISREG(mode) or stat.S_ISFIFO(mode)):
        raise UsageError("is neither a file nor a pipe", file=str(path), hint="give the path of the job's log")
    from nodegate.triage.read import is_text  # noqa: PLC0415 - the log may be standard input

    log: Stream = Growing(path) if stat.S_ISREG(mode) else Stream(_opened(path, pipes=True), str(path))
    if stat.S_ISREG(mode) and not is_text(os.pread(log.file, 512, 0)):
        log.close()
        log = Packed(path)
    elif once:
        log = Stream(log.file, str(path))
    try:
        yield log
    finally:
        log.close()


def _opened(path: Path, *, pipes: bool = False) -> int:
    try:
        return bounded.descriptor(path, pipes=pipes)
    except OSError as said:
        raise _unreadable(path, said) from said


def _unreadable(path: Path, said: OSError) -> UsageError:
    return UsageError(f"cannot be read: {said.strerror}", file=str(path), hint="give the path of the job's log")
