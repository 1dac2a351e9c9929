"""What a packed or archived log holds, in pieces: nothing is written anywhere, and nothing is larger than its limit.

gzip, zstd, xz and bzip2, zip and tar; in an archive the regular members one level deep. An archive or a member that is
larger than the limits, damaged or packed once more is "not read to its end".
"""

import bz2
import lzma
import os
import re
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import suppress
from typing import IO

from nodegate.triage import remarks
from nodegate.triage.remarks import Remarks

PIECE_BYTES = 1 << 20
MOST_MEMBERS = 1000
MOST_BYTES = 20 << 30
MOST_TIMES = 1000  # the packed size
_ALWAYS_BYTES = 1 << 30  # whatever the packed size is
_MOST_DIRECTORY_BYTES = 2 << 20  # of a zip file: its list of members is held in memory
_MOST_NAME_BYTES = 1 << 14
_DICTIONARY_BYTES = 96 << 20  # xz -9 needs 65 MiB
_BLOCK = tarfile.BLOCKSIZE
_TAR_AT, _TAR = 257, b"ustar"
XZ, ZIP = b"\xfd7zXZ\0", b"PK\3\4"
BZIP2 = tuple(b"BZh%d1AY&SY" % size for size in range(1, 10))
_DAMAGED = (zlib.error, lzma.LZMAError, OSError, EOFError, zipfile.BadZipFile, RuntimeError, ValueError)


def is_tar(head: bytes) -> bool:
    """Whether an archive of tar begins with this."""
    return head[_TAR_AT : _TAR_AT + len(_TAR)] == _TAR


def limit(stream: IO[bytes]) -> int:
    """How many bytes of text are read of a packed file."""
    with suppress(OSError):
        held = os.fstat(stream.fileno())
        if stat.S_ISREG(held.st_mode):
            return min(MOST_BYTES, max(_ALWAYS_BYTES, MOST_TIMES * held.st_size))
    return MOST_BYTES


def limited(parts: Iterator[bytes], most: list[int], said: Remarks) -> Iterator[bytes]:
    """These parts, as far as the limit goes that they share with others."""
    for part in parts:
        most[0] -= len(part)
        if most[0] < 0:
            said.lose(remarks.TOO_LARGE)
            return
        yield part


def unpacked(head: bytes, packed: Iterator[bytes], said: Remarks) -> Iterator[bytes]:
    """The text of xz or bzip2 data, stream after stream, never more than a piece at once."""

    def new() -> lzma.LZMADecompressor | bz2.BZ2Decompressor:
        return lzma.LZMADecompressor(memlimit=_DICTIONARY_BYTES) if head.startswith(XZ) else bz2.BZ2Decompressor()

    running, ended = new(), False
    for part in packed:
        data = part
        while data or not (running.needs_input or running.eof):
            if running.eof:  # another stream may follow; xz fills up with zeros
                if not (data := data.lstrip(b"\0")):
                    break
                running = new()
            try:
                text = running.decompress(data, PIECE_BYTES)
            except (lzma.LZMAError, OSError, ValueError):
                said.lose(remarks.PACKED_FOLLOWED if ended else remarks.PACKED_CORRUPT)
                return
            if text:
                yield text
            ended = ended or running.eof
            data = running.unused_data if running.eof else b""
    if not running.eof:
        said.lose(remarks.PACKED_TRUNCATED)


def members_of_tar(parts: Iterator[bytes], said: Remarks) -> Iterator[tuple[str, Iterator[bytes]]]:
    """The regular members of a tar archive, each with its name and text; each is to be read before the next."""
    source, name = _Pieces(parts), ""
    for _ in range(MOST_MEMBERS):
        header = source.exactly(_BLOCK)
        if not header.strip(b"\0"):
            if len(header) < _BLOCK:
                said.lose(remarks.PACKED_TRUNCATED)
            return
        try:
            info = tarfile.TarInfo.frombuf(header, "utf-8", "replace")
        except tarfile.TarError:
            said.lose(remarks.PACKED_CORRUPT)
            return
        size, padding = max(0, info.size), -max(0, info.size) % _BLOCK
        if info.type in (tarfile.GNUTYPE_LONGNAME, tarfile.XHDTYPE) and size <= _MOST_NAME_BYTES:
            data = source.exactly(size)  # the name of the next one: as it is, or in the POSIX form `30 path=logs/a.log`
            found = [data] if info.type == tarfile.GNUTYPE_LONGNAME else re.findall(rb" path=(.*)", data)
            name = found[-1].rstrip(b"\0").decode("utf-8", "replace") if found else ""
            source.skip(padding)
            continue
        if not info.isreg() or info.issparse():
            if info.issparse():
                said.lose(remarks.SPARSE)
            source.skip(size + padding)
            name = name if info.type == tarfile.XGLTYPE else ""
            continue
        text = source.up_to(size, said)
        yield name or info.name, text
        for _ in text:  # what was not asked for
            pass
        source.skip(padding)
        name = ""
    said.lose(remarks.TOO_MANY)


class _Pieces:
    """Bytes from pieces, so many as are asked for."""

    def __init__(self, parts: Iterator[bytes]) -> None:
        self.parts, self.held = parts, b""

    def some(self, most: int) -> bytes:
        """At most so many of the next bytes; none at the end."""
        self.held = self.held or next(filter(None, self.parts), b"")
        found, self.held = self.held[:most], self.held[most:]
        return found

    def up_to(self, count: int, said: Remarks | None = None) -> Iterator[bytes]:
        """The next bytes in pieces, with a remark if they end too early."""
        while count > 0:
            if not (more := self.some(min(count, PIECE_BYTES))):
                if said:
                    said.lose(remarks.PACKED_TRUNCATED)
                return
            count -= len(more)
            yield more

    def exactly(self, count: int) -> bytes:
        """So many bytes; fewer at the end."""
        return b"".join(self.up_to(count))

    def skip(self, count: int) -> None:
        """Go over so many bytes."""
        for _ in self.up_to(count):
            pass


def members_of_zip(stream: IO[bytes], said: Remarks) -> Iterator[tuple[str, Iterator[bytes]]]:
    """The regular members of a zip archive, each with its name and text; each is to be read before the next."""
    try:
        if not stream.seekable():
            said.lose(remarks.ZIP_OF_A_PIPE)
            return
        size = stream.seek(0, os.SEEK_END)
        stream.seek(max(0, size - (1 << 16) - 22))
        _, found, end = stream.read(1 << 17).rpartition(b"PK\5\6")  # where it says how long its list of members is
        if found and int.from_bytes(end[8:12], "little") > _MOST_DIRECTORY_BYTES:  # of the 64-bit form: the most
            said.lose(remarks.TOO_MANY)
            return
        archive = zipfile.ZipFile(stream)
    except _DAMAGED:
        said.lose(remarks.PACKED_CORRUPT)
        return
    with archive:
        infos = archive.infolist()
        if len(infos) > MOST_MEMBERS:
            said.lose(remarks.TOO_MANY)
        for info in infos[:MOST_MEMBERS]:
            mode = info.external_attr >> 16
            if not info.is_dir() and (not stat.S_IFMT(mode) or stat.S_ISREG(mode)):
                yield info.filename, _of_zip(archive, info, said)


def _of_zip(archive: zipfile.ZipFile, info: zipfile.ZipInfo, said: Remarks) -> Iterator[bytes]:
    try:
        with archive.open(info) as member:
            while text := member.read(PIECE_BYTES):
                yield text
    except _DAMAGED:
        said.lose(remarks.PACKED_CORRUPT)
