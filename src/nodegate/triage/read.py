"""The bytes of a log, plain or compressed, in chunks of whole lines; bounded, whatever the file contains."""

from __future__ import annotations

import os
import shutil
import subprocess
import zlib
from contextlib import suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING

from nodegate.errors import UsageError
from nodegate.files.bounded import open_regular
from nodegate.triage import remarks

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nodegate.triage.remarks import Remarks

CHUNK_BYTES = 1 << 20
_LOOK_BYTES = 1 << 12
_GZIP = b"\x1f\x8b"
_ZSTD = b"\x28\xb5\x2f\xfd"
PACKED = (_GZIP, _ZSTD)
_EITHER_HEADER = 32  # zlib: read both gzip and zlib headers


def is_plain(path: str) -> bool:
    """Whether this is a regular file that is not compressed.

    Raises:
        OSError: it cannot be read.
    """
    if not Path(path).is_file():
        return False
    with open_regular(path) as stream:
        return not stream.read(4).startswith(PACKED)


def chunks(stream: IO[bytes], name: str, said: Remarks) -> Iterator[bytes]:
    """The text of a log in chunks that end at a line's end, about 1 MiB each.

    A line longer than a chunk is cut. Problems of the file are added to `said`; what could be read is returned.

    Raises:
        UsageError: it is zstd and there is no program that can read it.
    """
    head = _part(stream)
    if head.startswith(_GZIP):
        parts = _gunzipped(head, stream, said)
    elif head.startswith(_ZSTD):
        parts = _zstd(head, stream, name, said)
    else:
        parts = _plain(head, stream, said)
    yield from _whole_lines(parts, said)


def _plain(head: bytes, stream: IO[bytes], said: Remarks) -> Iterator[bytes]:
    while head:
        yield head
        try:
            head = _part(stream)
        except OSError as broken:
            said.lose(remarks.broke_off(str(broken.strerror)))
            return


def _part(stream: IO[bytes]) -> bytes:
    """The next part of a stream; of a file, up to the end of a line if one is near, so that no line is split."""
    try:
        seen = os.pread(stream.fileno(), _LOOK_BYTES, stream.tell() + CHUNK_BYTES - _LOOK_BYTES)
    except OSError:  # not a file
        seen = b""
    end = seen.rfind(b"\n") + 1 or _LOOK_BYTES
    return stream.read(CHUNK_BYTES - _LOOK_BYTES + end)


def _gunzipped(head: bytes, stream: IO[bytes], said: Remarks) -> Iterator[bytes]:
    """The members of a gzip file one after the other, never more than a chunk at once."""
    member = zlib.decompressobj(zlib.MAX_WBITS | _EITHER_HEADER)
    for packed in _plain(head, stream, said):
        data = packed
        while data:
            before = member.copy()
            try:
                text = member.decompress(data, CHUNK_BYTES)
            except zlib.error:
                said.lose(remarks.GZIP_CORRUPT)
                yield from _before_damage(before, data)
                return
            if text:
                yield text
            data = member.unconsumed_tail
            if member.eof:
                data = member.unused_data
                if data and not data.startswith(_GZIP):
                    if data.strip(b"\0"):
                        said.lose(remarks.GZIP_FOLLOWED)
                    return
                if data:
                    member = zlib.decompressobj(zlib.MAX_WBITS | _EITHER_HEADER)
    if not member.eof:
        said.lose(remarks.GZIP_TRUNCATED)


def _before_damage(member: zlib._Decompress, data: bytes) -> Iterator[bytes]:
    """The text up to where gzip data is damaged: zlib gives nothing of a piece in which it finds damage."""
    text = bytearray()
    with suppress(zlib.error):
        for at in range(len(data)):
            text += member.decompress(data[at : at + 1])
            if len(text) > CHUNK_BYTES:
                yield bytes(text)
                text.clear()
    yield bytes(text)


def _zstd(head: bytes, stream: IO[bytes], name: str, said: Remarks) -> Iterator[bytes]:
    program = shutil.which("zstd")
    if program is None:
        raise UsageError(
            "is compressed with zstd, and this machine has no zstd program",
            file=name,
            hint="decompress it first, or install zstd",
        )
    import threading  # noqa: PLC0415 - only here

    with subprocess.Popen(
        [program, "-d", "-c", "-q"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,  # zstd must not get Ctrl-C: a log that it truncated would look corrupt
    ) as running:
        assert running.stdin is not None and running.stdout is not None  # noqa: S101, PT018
        feeder = threading.Thread(target=_feed, args=(head, stream, running.stdin, said), daemon=True)
        feeder.start()
        try:
            while text := running.stdout.read(CHUNK_BYTES):
                yield text
        finally:
            running.kill() if running.poll() is None and not feeder.is_alive() else None
        feeder.join()
    if running.returncode:
        said.lose(remarks.ZSTD_CORRUPT)


def _feed(head: bytes, stream: IO[bytes], into: IO[bytes], said: Remarks) -> None:
    try:
        for packed in _plain(head, stream, said):
            into.write(packed)
        into.close()
    except OSError:
        return  # zstd stopped reading; its exit code says why


def _whole_lines(parts: Iterator[bytes], said: Remarks) -> Iterator[bytes]:
    rest = b""
    for part in parts:
        text = rest + part if rest else part
        end = text.rfind(b"\n") + 1
        if not end:
            end = text.rfind(b"\r") + 1  # a progress bar that never ends its line
        if not end and len(text) >= CHUNK_BYTES:
            said.say(remarks.LONG_LINE)
            end = len(text)
        if end:
            yield text[:end]
        rest = text[end:]
    if rest:
        yield rest
