"""Opening a file to read it: the one place of the project that does, so that no file can make it wait or fill memory.

What the user names is a regular file, or a pipe to which a program writes; what is in a folder is a regular file.
A device, a socket or a folder is refused before it is opened: a device may act on that, and never ends.
"""

import errno
import os
import select
import stat
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO

PIPE_LIMIT_S = 30.0  # for the program that writes to a pipe: <(...) of a shell
_CHUNK = 1 << 16


def read_bounded(path: Path | str, most_bytes: int) -> bytes:
    """The first `most_bytes` + 1 bytes of a file in a folder: the extra one shows that it is larger.

    Raises:
        OSError: it cannot be read, or is not a regular file.
    """
    with open_regular(path) as file:
        return file.read(most_bytes + 1)


def read_whole(path: Path | str, most_bytes: int) -> bytes:
    """The content of a file in a folder.

    Raises:
        OSError: it cannot be read, is not a regular file, or has more than `most_bytes`.
    """
    with open_regular(path) as file:
        raw = file.read(most_bytes + 1) if os.fstat(file.fileno()).st_size <= most_bytes else None
    if raw is None or len(raw) > most_bytes:  # it may say that it is empty, as those of /proc do
        raise OSError(errno.EFBIG, f"is larger than {most_bytes >> 20} MiB", str(path))
    return raw


def read_given(path: Path | str, most_bytes: int) -> bytes:
    """The first `most_bytes` + 1 bytes of a file that the user names: also of a pipe, while a program writes to it.

    Raises:
        OSError: it cannot be read, is neither, or is a pipe that brings nothing or does not end in time.
    """
    end = time.monotonic() + PIPE_LIMIT_S
    with open_given(path) as file:
        if not _is_pipe(file.fileno()):
            return file.read(most_bytes + 1)
        found = bytearray()
        while len(found) <= most_bytes:
            _wait(file.fileno(), end)
            if not (more := os.read(file.fileno(), _CHUNK)):
                break
            found += more
    if not found:
        raise OSError(errno.ENODATA, "it is a pipe, and no program writes to it", str(path))
    return bytes(found[: most_bytes + 1])


def open_regular(path: Path | str) -> IO[bytes]:
    """A file in a folder, to be read in pieces.

    Raises:
        OSError: it cannot be read, or is not a regular file.
    """
    return open(path, "rb", opener=lambda name, _: descriptor(name))


def open_given(path: Path | str) -> IO[bytes]:
    """A file that the user names, to be read in pieces; a pipe, as soon as something has come.

    Raises:
        OSError: it cannot be read, is neither, or is a pipe from which nothing came in time.
    """
    file = open(path, "rb", opener=lambda name, _: descriptor(name, pipes=True))  # noqa: SIM115 - the caller's
    if _is_pipe(file.fileno()):
        try:
            _wait(file.fileno(), time.monotonic() + PIPE_LIMIT_S)
        except OSError:
            file.close()
            raise
        os.set_blocking(file.fileno(), True)
    return file


def descriptor(path: Path | str, *, pipes: bool = False) -> int:
    """A descriptor of a regular file, or with `pipes` of a pipe, which it does not wait for.

    Raises:
        OSError: it cannot be opened, or is something else.
    """
    _refuse(os.stat(path).st_mode, path, pipes=pipes)  # noqa: PTH116 - text or path
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    try:
        _refuse(os.fstat(handle).st_mode, path, pipes=pipes)  # it may have been replaced
    except OSError:
        os.close(handle)
        raise
    return handle


def _refuse(mode: int, path: Path | str, *, pipes: bool) -> None:
    if stat.S_ISREG(mode) or (pipes and stat.S_ISFIFO(mode)):
        return
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    raise OSError(errno.EINVAL, "is neither a file nor a pipe" if pipes else "is not a regular file", str(path))


def _is_pipe(handle: int) -> bool:
    return stat.S_ISFIFO(os.fstat(handle).st_mode)


def _wait(handle: int, end: float) -> None:
    """Until a pipe has something to read, or has ended."""
    if not select.select([handle], [], [], max(0.0, end - time.monotonic()))[0]:
        raise OSError(errno.ETIMEDOUT, f"it is a pipe, and nothing came within {PIPE_LIMIT_S:g} s")


def read_trusted(file: Path, most_bytes: int) -> bytes:
    """The first `most_bytes` + 1 bytes of a regular file that only root or this user can have written.

    Raises:
        OSError: it cannot be read, is a link, or its owner or mode, or those of its folder, let others write.
    """
    with open(open_trusted(file, os.O_RDONLY), "rb") as opened:
        return opened.read(most_bytes + 1)


def open_trusted(file: Path, flags: int, mode: int = 0o600) -> int:
    """A descriptor of a regular file that only root or this user can have written; `flags` and `mode` as of os.open.

    Raises:
        OSError: as `read_trusted`.
    """
    _check(file.parent.stat(), stat.S_ISDIR, "its folder")
    descriptor = os.open(file, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, mode)
    try:
        _check(os.fstat(descriptor), stat.S_ISREG, "it")
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def _check(status: os.stat_result, is_kind: Callable[[int], bool], what: str) -> None:
    if not is_kind(status.st_mode):
        raise PermissionError(f"{what} is not a regular file or folder")
    if status.st_uid not in (0, os.geteuid()):
        raise PermissionError(f"{what} does not belong to root")
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise PermissionError(f"other users can write {'into ' if stat.S_ISDIR(status.st_mode) else ''}{what}")
