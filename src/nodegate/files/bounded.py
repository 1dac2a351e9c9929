"""Reading a file that somebody else wrote: at most so many bytes, and never waiting for them."""

from __future__ import annotations

import errno
import os
import stat
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def read_bounded(path: Path, most_bytes: int) -> bytes:
    """The first `most_bytes` + 1 bytes of a file: the one more says that it is larger.

    Raises:
        OSError: it cannot be read, or is no file. A pipe in its place would be waited for without end.
    """
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    with open(handle, "rb") as file:  # noqa: PTH123 - what is open already has no path
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise OSError(errno.EINVAL, "is no file", str(path))
        return file.read(most_bytes + 1)
