"""results.jsonl.gz, the authoritative record of a run: a line for each (node, check), a gzip member for each node.

A reader needs nothing of nodegate: `zcat results.jsonl.gz | jq`. What a killed run has written is whole up to its last
member. Where a resumed run has judged a check again, its last line counts.
"""

from __future__ import annotations

import hashlib
import zlib
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO

from nodegate.errors import UsageError
from nodegate.files.atomic import replacing_bytes
from nodegate.files.bounded import open_regular
from nodegate.files.gz import compress
from nodegate.records.finding import Record
from nodegate.records.store import from_bytes, to_lines

RESULTS = "results.jsonl.gz"
MOST_NODE_BYTES = 64 << 20  # of the lines of one node; a node under load has half a megabyte
_GZIP = zlib.MAX_WBITS | 16
_BLOCK = 1 << 16
_KEY_END = b'",'  # after the node's name, the first value of a line
_AGAIN = "a newer nodegate wrote it, or it is damaged: judge its evidence again (pytest --replay FOLDER)"


class ResultsFile:
    """The results of a run that goes on; what `write` was given is on disk when it returns. For one thread at a time.

    With `resumed` what an earlier run has written stays, up to its last whole member.
    """

    def __init__(self, folder: Path, *, resumed: bool = False) -> None:
        self.path = folder / RESULTS
        end = _end_of_whole(self.path) if resumed and self.path.exists() else 0
        self._file = self.path.open("ab")
        self._file.truncate(end)

    def write(self, records: Iterable[Record]) -> None:
        """Append the records of one node as a member of their own."""
        self._file.write(_member(records))
        self._file.flush()

    def close(self) -> None:
        """Close the file; may be called twice."""
        self._file.close()


def write_all(nodes: Iterable[Iterable[Record]], folder: Path) -> None:
    """Write the results of a run that has ended, whole or not at all.

    Raises:
        OSError: the folder cannot be written.
    """
    with replacing_bytes(folder / RESULTS) as file:
        for records in nodes:
            file.write(_member(records))


def read(folder: Path) -> list[Record]:
    """All records of a run folder, in the order in which they were written.

    A last member that was cut by a crash is left out: its node has no records from it.

    Raises:
        UsageError: the file is missing, or a line is no record.
    """
    path = folder / RESULTS
    found: dict[str, dict[str, Record]] = {}
    number = 0
    for _, lines in _members(path):
        node: dict[str, Record] = {}
        for raw in lines:
            number += 1
            try:
                record = from_bytes(Record, raw)
            except ValueError as error:
                raise UsageError(str(error), file=str(path), line=number, hint=_AGAIN) from error
            if record.check in node or any(each.node != record.node for each in node.values()):
                said = f"{record.check[:60]} of {record.node[:60]} is there twice, or among the lines of another node"
                raise UsageError(said, file=str(path), line=number, hint=_AGAIN)
            node[record.check] = record
        for record in node.values():
            found.setdefault(record.node, {})[record.check] = record
    return [record for records in found.values() for record in records.values()]


def is_cut(folder: Path) -> bool:
    """Whether the results end in the middle of a node: their run was killed.

    Raises:
        UsageError: they cannot be read.
    """
    path = folder / RESULTS
    return _end_of_whole(path) != path.stat().st_size


def fingerprint(folder: Path) -> tuple[str, int]:
    """`zcat results.jsonl.gz | LC_ALL=C sort | sha256sum`, and how many lines there are.

    It is the same for the same records, however they were written.

    Raises:
        UsageError: it cannot be read.
    """
    path, digest, count = folder / RESULTS, hashlib.sha256(), 0
    places: defaultdict[bytes, list[int]] = defaultdict(list)  # of the members of a node; all lines take a gigabyte
    for place, lines in _members(path):
        places[lines[0].partition(_KEY_END)[0] + _KEY_END].append(place)
    with _opened(path) as file:
        for _, own in sorted(places.items()):
            lines = []
            for place in own:
                file.seek(place)
                lines += next(each for _, each in _ends(file))
            lines.sort()
            count += len(lines)
            digest.update(b"".join(each + b"\n" for each in lines))
    return digest.hexdigest(), count


def _member(records: Iterable[Record]) -> bytes:
    lines = to_lines(records)
    return compress(lines) if lines else b""


def _members(path: Path) -> Iterator[tuple[int, list[bytes]]]:
    """Where each whole member begins, and its lines."""
    with _opened(path) as file:
        begins = 0
        for end, lines in _ends(file):
            yield begins, lines
            begins = end


def _end_of_whole(path: Path) -> int:
    """Where the last whole member ends."""
    with _opened(path) as file:
        return max((end for end, _ in _ends(file)), default=0)


def _ends(file: IO[bytes]) -> Iterator[tuple[int, list[bytes]]]:
    """Where each whole member ends, and its lines; a last one that was cut is left out.

    Raises:
        UsageError: it is not gzip data, or a member is larger than the results of any node.
    """
    end, block = file.tell(), file.read(_BLOCK)
    while block:
        unpacker, parts, size = zlib.decompressobj(_GZIP), list[bytes](), 0
        while block and not unpacker.eof:
            end += len(block)
            try:
                parts.append(unpacker.decompress(block, MOST_NODE_BYTES - size + 1))
            except zlib.error as error:
                raise UsageError(f"damaged gzip data ({error})", file=str(file.name), hint=_AGAIN) from error
            size += len(parts[-1])
            if size > MOST_NODE_BYTES:
                said = f"a node has more than {MOST_NODE_BYTES >> 20} MiB of results"
                raise UsageError(said, file=str(file.name), hint="not written by nodegate")
            block = unpacker.unused_data if unpacker.eof else file.read(_BLOCK)
        if not unpacker.eof:
            return
        end -= len(block)
        whole = b"".join(parts)
        if not whole.endswith(b"\n"):
            raise UsageError("a member without the end of its last line", file=str(file.name), hint=_AGAIN)
        yield end, whole[:-1].split(b"\n")
        block = block or file.read(_BLOCK)


def _opened(path: Path) -> IO[bytes]:
    try:
        return open_regular(path)
    except OSError as error:
        hint = (
            "name the folder of a run, with all of its files; of an older release judge its evidence (pytest --replay)"
        )
        raise UsageError(f"cannot be read ({error.strerror})", file=str(path), hint=hint) from error
