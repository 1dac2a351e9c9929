"""Reading a file that root acts on: only one that no other user can have written."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path


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
