"""The text of a log, plain, packed or recoded, in chunks of whole lines; bounded, whatever the file contains."""

from __future__ import annotations

import codecs
import os
import shutil
import subprocess
import zlib
from collections.abc import Iterator
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import IO

from nodegate.errors import UsageError
from nodegate.files.bounded import open_regular
from nodegate.triage import flight_recorder, packed, remarks
from nodegate.triage.remarks import Remarks

CHUNK_BYTES = 1 << 20
_LOOK_BYTES = 1 << 12
_HEAD_BYTES = 512  # that show what a file is
_GZIP = b"\x1f\x8b"
_ZSTD = b"\x28\xb5\x2f\xfd"
_PACKED = (_GZIP, _ZSTD, packed.XZ, packed.ZIP, *packed.BZIP2)
_EITHER_HEADER = 32  # zlib: read both gzip and zlib headers
_BYTE_ORDERS = {b"\xff\xfe": "utf-16-le", b"\xfe\xff": "utf-16-be"}


def text_of(data: bytes) -> str:
    """Bytes of a log as text, whatever they hold."""
    return data.decode("utf-8", "replace")


def is_text(head: bytes) -> bool:
    """Whether a file that begins with this is text as it is."""
    return not (head.startswith(_PACKED) or packed.is_tar(head) or _utf_16(head))


def is_plain(path: str) -> bool:
    """Whether this is a regular file that is neither packed nor recoded.

    Raises:
        OSError: it cannot be read.
    """
    if not Path(path).is_file():
        return False
    with open_regular(path) as stream:
        return is_text(stream.read(_HEAD_BYTES))


def members(stream: IO[bytes], name: str, said: Remarks) -> Iterator[tuple[str, Iterator[bytes]]]:
    """The logs of a file with their text: the file itself, whose name here is "", or the members of an archive.

    Each is to be read before the next. Problems of the file are added to `said`; what could be read is returned.

    Raises:
        UsageError: it is zstd and there is no program that can read it.
    """
    head = _part(stream)
    most = [packed.limit(stream)]
    if head.startswith(packed.ZIP):
        inside = packed.members_of_zip(stream, said)
    else:
        first, parts = begun(_unpacked(_plain(head, stream, said), name, said, most))
        if not packed.is_tar(first):
            yield "", parts
            return
        inside = packed.members_of_tar(parts, said)
    for member, text in inside:
        bounded = packed.limited(text, most, said) if head.startswith(packed.ZIP) else text
        first, parts = begun(_unpacked(bounded, name, said, most))
        foreign = _is_binary(first) and not _utf_16(first) and not flight_recorder.is_dump(first)
        if first.startswith(packed.ZIP) or packed.is_tar(first) or foreign:
            said.lose(remarks.NESTED)
        elif first:
            yield member, parts


def begun(parts: Iterator[bytes]) -> tuple[bytes, Iterator[bytes]]:
    """How these parts begin, and all of them."""
    first = next(parts, b"")
    return first, chain([first], parts)


def _is_binary(head: bytes) -> bool:
    return head[:_LOOK_BYTES].count(0) * 10 > len(head[:_LOOK_BYTES])


def _unpacked(parts: Iterator[bytes], name: str, said: Remarks, most: list[int]) -> Iterator[bytes]:
    """The content, if it is packed as a single stream; as it is otherwise."""
    head, parts = begun(parts)
    if head.startswith(_GZIP):
        text = _gunzipped(parts, said)
    elif head.startswith(_ZSTD):
        text = _zstd(parts, name, said)
    elif head.startswith((packed.XZ, *packed.BZIP2)):
        text = packed.unpacked(head, parts, said)
    else:
        return parts
    return packed.limited(text, most, said)


def chunks(parts: Iterator[bytes], said: Remarks) -> Iterator[bytes]:
    """The text of a log in UTF-8, in chunks of about 1 MiB that end at a line's end; a longer line is cut."""
    head, parts = begun(parts)
    encoding = _utf_16(head)
    if encoding:
        decoder = codecs.getincrementaldecoder(encoding)("replace")
        parts = (decoder.decode(part).removeprefix("\ufeff").encode("utf-8", "replace") for part in parts)
    elif _is_binary(head):
        said.lose(remarks.NOT_DECODED)
    yield from _whole_lines(parts, said)


def _utf_16(head: bytes) -> str:
    """The byte order of text in UTF-16 that begins so; "" for other text. Without a mark by the zeros of its ASCII."""
    units = head[: _HEAD_BYTES & ~1]
    low, high = units[::2].count(0), units[1::2].count(0)
    by_zeros, most, least = "utf-16-le" if high > low else "utf-16-be", max(low, high), min(low, high)
    if most > least and _BYTE_ORDERS.get(head[:2]) == by_zeros:
        return by_zeros
    return by_zeros if len(units) >= 16 and most * 8 >= len(units) and least * 16 <= most else ""


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


def _gunzipped(parts: Iterator[bytes], said: Remarks) -> Iterator[bytes]:
    """The members of a gzip file one after the other, never more than a chunk at once."""
    member = zlib.decompressobj(zlib.MAX_WBITS | _EITHER_HEADER)
    for part in parts:
        data = part
        while data:
            if member.eof and not data.startswith(_GZIP):
                if data.strip(b"\0"):
                    said.lose(remarks.GZIP_FOLLOWED)
                return
            member = zlib.decompressobj(zlib.MAX_WBITS | _EITHER_HEADER) if member.eof else member
            before = member.copy()
            try:
                text = member.decompress(data, CHUNK_BYTES)
            except zlib.error:
                said.lose(remarks.GZIP_CORRUPT)
                yield from _before_damage(before, data)
                return
            if text:
                yield text
            data = member.unused_data if member.eof else member.unconsumed_tail
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


def _zstd(parts: Iterator[bytes], name: str, said: Remarks) -> Iterator[bytes]:
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
        into = running.stdin

        def feed() -> None:
            with suppress(OSError), into:  # zstd may stop reading; its exit code says why
                into.writelines(parts)

        feeder = threading.Thread(target=feed, daemon=True)
        feeder.start()
        try:
            while text := running.stdout.read(CHUNK_BYTES):
                yield text
        finally:
            running.kill() if running.poll() is None and not feeder.is_alive() else None
        feeder.join()
    if running.returncode:
        said.lose(remarks.ZSTD_CORRUPT)


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
