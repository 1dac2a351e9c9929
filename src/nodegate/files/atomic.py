"""Files that are complete or absent: written under another name, then renamed."""

import io
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO


@contextmanager
def replacing(path: Path) -> Iterator[IO[str]]:
    """A text file (UTF-8, newlines as written) that replaces `path` if the block ends without an exception.

    Half of a character (from undecodable bytes) is written as a backslash escape, which JSON reads back unchanged.
    """
    with replacing_bytes(path) as raw:
        file = io.TextIOWrapper(raw, encoding="utf-8", errors="backslashreplace", newline="")
        yield file
        file.flush()


@contextmanager
def replacing_bytes(path: Path) -> Iterator[IO[bytes]]:
    """A file of bytes that replaces `path` if the block ends without an exception; it is on disk then."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    temporary.unlink(missing_ok=True)
    try:
        with temporary.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def write_whole(path: Path, raw: bytes) -> None:
    """Write a file, whole or not at all; it is on disk when this returns.

    Raises:
        OSError: it cannot be written.
    """
    with replacing_bytes(path) as file:
        file.write(raw)
