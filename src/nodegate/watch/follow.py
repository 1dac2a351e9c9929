"""Where the bytes come from: a finished file, a growing one (which may be rotated or truncated), a pipe."""

from __future__ import annotations

import os
import select
import stat
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

from nodegate.errors import UsageError
from nodegate.files import bounded

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

CHUNK_BYTES = 1 << 18


class Source(Protocol):
    """Bytes as they come."""

    def read(self, wait_s: float) -> bytes | None:
        """New bytes; empty if none came within `wait_s`; None at the end."""

    def idle_s(self) -> float:
        """How long nothing had been written when the watch began, in seconds."""


class Finished:
    """A file that is read once, to its end."""

    def __init__(self, file: int) -> None:
        self._file = file

    def read(self, wait_s: float) -> bytes | None:  # noqa: ARG002 - a file never lets us wait
        """See `Source`."""
        return os.read(self._file, CHUNK_BYTES) or None

    def idle_s(self) -> float:
        """See `Source`."""
        return _age_s(self._file)


class Growing:
    """A growing file. A file that replaces it (rotation) or that starts again (truncation) is followed too."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = _opened(path)

    def read(self, wait_s: float) -> bytes | None:
        """See `Source`; never None."""
        data = os.read(self._file, CHUNK_BYTES) or self._anew()
        if not data:
            time.sleep(wait_s)
        return data

    def idle_s(self) -> float:
        """See `Source`."""
        return _age_s(self._file)

    def close(self) -> None:
        """Closes the file."""
        os.close(self._file)

    def _anew(self) -> bytes:
        """The content of the file that replaced this one, or of this one after it was truncated."""
        held = os.fstat(self._file)
        if held.st_size < os.lseek(self._file, 0, os.SEEK_CUR):
            os.lseek(self._file, 0, os.SEEK_SET)
            return os.read(self._file, CHUNK_BYTES)
        try:
            there = self._path.stat()
            if (there.st_dev, there.st_ino) == (held.st_dev, held.st_ino) or not stat.S_ISREG(there.st_mode):
                return b""
            new = _opened(self._path)
        except (OSError, UsageError):
            return b""  # during a rotation there may be no file
        left = os.read(self._file, CHUNK_BYTES)  # written after our last look and before the change
        if left:
            os.close(new)
            return left
        os.close(self._file)
        self._file = new
        return os.read(self._file, CHUNK_BYTES)


class Pipe:
    """Standard input or a named pipe; `name` is that of a pipe to which perhaps no program writes."""

    def __init__(self, file: int, name: str = "") -> None:
        self._file, self._name = file, name
        self._end = time.monotonic() + bounded.PIPE_LIMIT_S

    def read(self, wait_s: float) -> bytes | None:
        """See `Source`.

        Raises:
            UsageError: no program has opened the named pipe in time.
        """
        ready, _, _ = select.select([self._file], [], [], wait_s)
        if ready:
            self._name = ""
            return os.read(self._file, CHUNK_BYTES) or None
        if not self._name or time.monotonic() < self._end:
            return b""
        name, self._name = self._name, ""
        try:
            if data := os.read(self._file, CHUNK_BYTES):
                return data
        except BlockingIOError:  # a program that is silent
            return b""
        raise UsageError("it is a pipe, and no program writes to it", file=name)

    def idle_s(self) -> float:
        """See `Source`."""
        return 0.0


@contextmanager
def source(path: Path, *, once: bool) -> Iterator[Source]:
    """The log at `path`; `-` is standard input.

    Raises:
        UsageError: it cannot be read, or is neither a file nor a pipe.
    """
    if str(path) == "-":
        yield Pipe(0)
        return
    try:
        mode = path.stat().st_mode
    except OSError as said:
        raise UsageError(
            f"cannot be read: {said.strerror}", file=str(path), hint="give the path of the job's log"
        ) from said
    if stat.S_ISREG(mode) and not once:
        growing = Growing(path)
        try:
            yield growing
        finally:
            growing.close()
        return
    if not (stat.S_ISREG(mode) or stat.S_ISFIFO(mode)):
        raise UsageError("is neither a file nor a pipe", file=str(path), hint="give the path of the job's log")
    file = _opened(path, pipes=True)
    try:
        yield Finished(file) if stat.S_ISREG(mode) else Pipe(file, str(path))
    finally:
        os.close(file)


def _opened(path: Path, *, pipes: bool = False) -> int:
    try:
        return bounded.descriptor(path, pipes=pipes)
    except OSError as said:
        raise UsageError(
            f"cannot be read: {said.strerror}", file=str(path), hint="give the path of the job's log"
        ) from said


def _age_s(file: int) -> float:
    return max(0.0, time.time() - os.fstat(file).st_mtime)
