"""results.jsonl, the authoritative record: one line per (node, check), written while the run goes on."""

from __future__ import annotations

import hashlib
from array import array
from collections import defaultdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, TYPE_CHECKING, Any

from nodegate.errors import UsageError
from nodegate.files.strict_json import loads
from nodegate.report.jsonl import RECORD_KEYS, from_json
from nodegate.report.short import Shortener
from nodegate.report.short_reader import Tables

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from types import TracebackType

    from nodegate.records.finding import Record

RESULTS, TABLES = "results.jsonl", "results.tables.jsonl"
MOST_LINE_BYTES = 4 << 20
_COMMA = b'",'  # after the name of a line's node, by which a file is sorted in parts: all of it takes much memory
_AGAIN = "a newer nodegate wrote it, or it is damaged: judge its evidence again (pytest --replay FOLDER)"


class ResultsFile:
    """A new results.jsonl with its tables; each record is on disk when `write` returns. For one thread at a time."""

    def __init__(self, folder: Path) -> None:
        for name in (RESULTS, TABLES):
            (folder / name).unlink(missing_ok=True)
        self._tables, self._file = (folder / TABLES).open("ab"), (folder / RESULTS).open("ab")
        self._short = Shortener(self._tell)

    def write(self, record: Record) -> Record:
        """Append one record and flush. Returns it as it will be read."""
        line, as_read = self._short.line(record)
        self._tables.flush()  # before what refers to it
        self._file.write(line.encode("utf-8", errors="backslashreplace"))
        self._file.flush()
        return as_read

    def node_done(self, node: str) -> None:
        """No record of this node will come any more."""
        self._short.node_done(node)

    def _tell(self, line: str) -> None:
        self._tables.write(line.encode("utf-8", errors="backslashreplace"))

    def close(self) -> None:
        """Close the files; may be called twice."""
        self._tables.close()
        self._file.close()

    def __enter__(self) -> ResultsFile:  # noqa: PYI034 - typing.Self needs Python 3.11
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def write_all(records: Iterable[Record], folder: Path) -> None:
    """Write the results of a run that has ended, whole or not at all.

    Raises:
        OSError: the folder cannot be written.
    """
    with TemporaryDirectory(prefix=".results.", dir=folder) as name:
        with ResultsFile(Path(name)) as file:
            for record in records:
                file.write(record)
        for each in (TABLES, RESULTS):
            (Path(name) / each).replace(folder / each)


def read(path: Path) -> list[Record]:
    """All records of a results.jsonl, in the order in which they were written; also of one of nodegate 0.2.

    A last line without its newline was cut by a crash and is left out: its check has no record.

    Raises:
        UsageError: a file is missing, or a line is no record.
    """
    tables: Tables | None = None
    records = []
    for number, entry in _entries(path):
        try:
            is_whole = "passed" not in entry and entry.keys() >= RECORD_KEYS - {"remark"}  # as in 0.2 and before
            if is_whole:
                records.append(from_json(entry))
                continue
            if tables is None:
                tables = _tables(path.with_name(TABLES))
            records.append(tables.record(entry))
        except UsageError as error:
            if error.file:
                raise
            hint = error.hint or _AGAIN
            raise UsageError(error.message, file=str(path), line=number, hint=hint) from error
    return records


def _tables(path: Path) -> Tables:
    found = Tables()
    for number, entry in _entries(path):
        try:
            found.add(entry)
        except UsageError as error:  # noqa: PERF203 - with its line
            raise UsageError(error.message, file=str(path), line=number, hint=error.hint) from error
    return found


def _entries(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """The objects of a file, with the numbers of their lines."""
    for number, raw in _lines(path):
        try:
            entry = loads(raw)
        except (ValueError, RecursionError) as error:
            raise UsageError("not JSON", file=str(path), line=number, hint=_AGAIN) from error
        if not isinstance(entry, dict):
            raise UsageError("not a JSON object", file=str(path), line=number, hint=_AGAIN)
        yield number, entry


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    try:
        with path.open("rb") as file:
            for number, raw in enumerate(iter(lambda: file.readline(MOST_LINE_BYTES), b""), start=1):
                if not raw.endswith(b"\n"):
                    if len(raw) == MOST_LINE_BYTES:
                        raise UsageError("line too long", file=str(path), line=number, hint="not written by nodegate")
                    break
                yield number, raw
    except OSError as error:
        hint = "name the folder of a run, with all of its files"
        raise UsageError(f"cannot be read ({error.strerror})", file=str(path), hint=hint) from error


def cut_line(path: Path) -> int:
    """The number of the last line, if it was cut; else 0.

    Raises:
        OSError: it cannot be read.
    """
    with path.open("rb") as file:
        lines = enumerate(iter(lambda: file.readline(MOST_LINE_BYTES), b""), start=1)
        return next((number for number, line in lines if not line.endswith(b"\n")), 0)


def fingerprint(path: Path) -> tuple[str, int]:
    """`LC_ALL=C sort FILE | sha256sum`, the same for the same lines in any order, and how many there are.

    Raises:
        OSError: it cannot be read.
    """
    digest = hashlib.sha256()
    places: defaultdict[bytes, array[int]] = defaultdict(lambda: array("Q"))  # by how a line begins: its node
    with path.open("rb") as file:
        at = 0
        for line in file:
            places[_beginning(line)].append(at)
            at += len(line)
        for _, own in sorted(places.items()):
            for line in sorted(_line_at(file, place) for place in own):
                digest.update(line)
    return digest.hexdigest(), sum(map(len, places.values()))


def _beginning(line: bytes) -> bytes:
    """A line to the end of its first member; all of one that has none. None of them begins with another."""
    end = line.find(_COMMA)
    return line if end < 0 else line[: end + len(_COMMA)]


def _line_at(file: IO[bytes], place: int) -> bytes:
    file.seek(place)
    return file.readline()
