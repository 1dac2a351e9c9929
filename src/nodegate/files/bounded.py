"""Reading a file that someone else wrote: a limited number of bytes, without waiting for them."""

from __future__ import annotations

import errno
import os
import stat
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def read_bounded(path: Path, most_bytes: int) -> bytes:
    """The first `most_bytes` + 1 bytes of a file: the extra one shows that it is larger.

    Raises:
        OSError: it cannot be read, or is not a regular file. A pipe in its place could block forever.
    """
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    with open(handle, "rb") as file:  # noqa: PTH123 - what is open already has no path
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise OSError(errno.EINVAL, "is not a regular file", str(path))
        return file.read(most_bytes + 1)
