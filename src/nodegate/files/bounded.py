"""Reading a file that someone else wrote: a limited number of bytes, without waiting for them."""

from __future__ import annotations

import errno
import os
import select
import stat
import time
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

PIPE_LIMIT_S = 30.0  # for the program that writes to a pipe: <(...) of a shell
_CHUNK = 1 << 16


def read_bounded(path: Path, most_bytes: int) -> bytes:
    """The first `most_bytes` + 1 bytes of a file: the extra one shows that it is larger.

    Raises:
        OSError: it cannot be read, or is not a regular file.
    """
    with open_regular(path) as file:
        return file.read(most_bytes + 1)


def open_regular(path: Path) -> IO[bytes]:
    """A file to read from.

    Raises:
        OSError: it cannot be read, or is not a regular file. A pipe in its place could block forever.
    """
    file = open(path, "rb", opener=_without_waiting)  # noqa: SIM115 - the caller closes it
    if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        return file
    file.close()
    raise OSError(errno.EINVAL, "is not a regular file", str(path))


def _without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)


def read_given(path: Path, most_bytes: int) -> bytes:
    """The first `most_bytes` + 1 bytes of a file that the user names: also of a pipe, while a program writes to it.

    Raises:
        OSError: it cannot be read, or is a pipe to which no program writes.
    """
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    with open(handle, "rb", buffering=0) as file:  # noqa: PTH123 - what is open already has no path
        if not stat.S_ISFIFO(os.fstat(handle).st_mode):
            os.set_blocking(handle, True)
            return _all(lambda: file.read(_CHUNK), most_bytes)
        end = time.monotonic() + PIPE_LIMIT_S
        read = _all(lambda: _within(handle, end), most_bytes)
        if not read:
            raise OSError(errno.ENODATA, "it is a pipe, and no program writes to it", str(path))
        return read


def _all(read: Callable[[], bytes | None], most_bytes: int) -> bytes:
    found = bytearray()
    while len(found) <= most_bytes and (chunk := read()):
        found += chunk
    return bytes(found[: most_bytes + 1])


def _within(handle: int, end: float) -> bytes:
    """What the pipe has next; empty at its end."""
    while True:
        try:
            return os.read(handle, _CHUNK)
        except BlockingIOError:
            ready, _, _ = select.select([handle], [], [], max(0.0, end - time.monotonic()))
        if not ready:
            raise OSError(errno.ETIMEDOUT, f"it is a pipe, and nothing came within {PIPE_LIMIT_S:g} s")
