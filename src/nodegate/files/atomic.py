"""Files that are complete or absent: written under another name, then renamed."""

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import IO, Any


def replacing(path: Path) -> AbstractContextManager[IO[str]]:
    """A text file (UTF-8, newlines as written) that replaces `path` if the block ends without an exception.

    Half of a character (from undecodable bytes) is written as a backslash escape, which JSON reads back unchanged.
    """
    return _replacing(path, "x", encoding="utf-8", errors="backslashreplace", newline="")


def replacing_bytes(path: Path) -> AbstractContextManager[IO[bytes]]:
    """A file of bytes that replaces `path` if the block ends without an exception; it is on disk then."""
    return _replacing(path, "xb")


def write_whole(path: Path, raw: bytes) -> None:
    """Write a file, whole or not at all; it is on disk when this returns.

    Raises:
        OSError: it cannot be written.
    """
    with replacing_bytes(path) as file:
        file.write(raw)


@contextmanager
def _replacing(path: Path, mode: str, **form: Any) -> Iterator[IO[Any]]:
    """A file at a temporary place until it is complete. Nothing is left there."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    temporary.unlink(missing_ok=True)
    try:
        with temporary.open(mode, **form) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
