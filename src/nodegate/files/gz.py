"""Files that may be kept compressed: NAME, or NAME.gz in its place, as gzip writes it."""

import zlib
from pathlib import Path

from nodegate.files.bounded import read_bounded

ENDING = ".gz"
_GZIP = zlib.MAX_WBITS | 16  # gzip's header and check sum
_LEVEL = 6  # gzip's own: level 1 takes half the time and leaves 1.4 times as much, level 9 twice the time for 5 %


class Damaged(ValueError):  # noqa: N818 - reads as the sentence that it raises
    """What was read is not a whole gzip file."""


def packed_path(path: Path) -> Path:
    """Where the compressed form of a file stands."""
    return path.with_name(path.name + ENDING)


def compress(raw: bytes) -> bytes:
    """A gzip file of these bytes: the same for the same bytes, since it has neither name nor time."""
    packer = zlib.compressobj(_LEVEL, zlib.DEFLATED, _GZIP)
    return packer.compress(raw) + packer.flush()


def expand(packed: bytes, most_bytes: int) -> bytes:
    """The first `most_bytes` + 1 bytes of a gzip file's content, however large it would become.

    Raises:
        Damaged: it is none, is cut, or is followed by something else.
    """
    unpacker = zlib.decompressobj(_GZIP)
    try:
        raw = unpacker.decompress(packed, most_bytes + 1)
    except zlib.error as error:
        raise Damaged(f"is damaged gzip data ({error})") from error
    if len(raw) > most_bytes:
        return raw
    if not unpacker.eof:
        raise Damaged("is gzip data that was cut off")
    if unpacker.unused_data:
        raise Damaged("has trailing data after the gzip stream")
    return raw


def read_either(path: Path, most_bytes: int) -> tuple[Path, bytes]:
    """The file, or its compressed form where only that is there: which one, and its own first `most_bytes` + 1 bytes.

    Raises:
        OSError: neither can be read.
    """
    try:
        return path, read_bounded(path, most_bytes)
    except FileNotFoundError:
        packed = packed_path(path)
        return packed, read_bounded(packed, most_bytes)


def content(path: Path, raw: bytes, most_bytes: int) -> bytes:
    """What `read_either` found, expanded where it is compressed; `most_bytes` + 1 at most.

    Raises:
        Damaged: it is compressed, and not whole.
    """
    return expand(raw, most_bytes) if path.suffix == ENDING else raw
