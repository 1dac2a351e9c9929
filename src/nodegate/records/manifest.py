"""The manifest of a run: the sha256 of each file of its evidence, in the form that `sha256sum --check` reads.

A line is on disk before the file that it is about: whoever reads a file and then the manifest finds its line, also
while the run goes on or after it was killed. At the end each file has one line.
"""

from __future__ import annotations

import hashlib
import os
import re
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from nodegate.files.atomic import replacing
from nodegate.files.bounded import open_regular, read_bounded
from nodegate.files.gz import ENDING
from nodegate.text import visible

MANIFEST = "manifest.sha256"
MAX_MANIFEST_BYTES = 32 << 20  # that of 1,250 nodes has about one megabyte
CHANGED = "has changed since it was written"
ADDED = "is not in the manifest"
MISSING = "is missing, though the manifest lists it"
UNREADABLE = "cannot be read"
_LINE = re.compile(r"(?P<sha256>[0-9a-f]{64})  (?P<file>evidence/[^/\n]+/[^/\n]+\.json(?:\.gz)?)\n")
_BLOCK = 1 << 20


@dataclass(frozen=True, slots=True)
class OddFile:
    """A file of evidence that is not what the manifest says; `file` is its name below the run folder, printable."""

    file: str
    what: str  # CHANGED, ADDED, MISSING or UNREADABLE

    @property
    def node(self) -> str:
        """The node whose evidence it is, by its folder."""
        return self.file.split("/")[1]

    def __str__(self) -> str:
        return f"{self.file} {self.what}"


class Manifest:
    """The manifest of one run folder; a run of an earlier release has none. May be used by many threads at once."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._file = folder, folder / MANIFEST
        self._known: dict[str, list[str]] = {}
        self._seen: tuple[int, int, int] | None = None  # the state of the file when it was read
        self._guard = threading.Lock()
        self._closed = False

    @property
    def exists(self) -> bool:
        """Whether this run has one."""
        return self._file.exists()

    @property
    def sha256(self) -> str:
        """The fingerprint of the manifest itself, and so of all evidence; empty if there is none."""
        try:
            return hashlib.sha256(read_bounded(self._file, MAX_MANIFEST_BYTES)).hexdigest()
        except OSError:
            return ""

    def begin(self) -> None:
        """Make it for a new run, or go on with the one of an earlier run that may have been killed.

        What an earlier release left without a manifest is taken as it is.

        Raises:
            OSError: it cannot be written.
        """
        with self._guard:
            if self.exists:
                self._read_again()
                self._known = {file: [self._right(file, known)] for file, known in self._known.items()}
            else:
                self._known = {file: [_sha256(self._folder / file)] for file in _evidence_files(self._folder)}
            self._write()

    def add(self, files: Mapping[str, bytes], *, is_packing: bool = False) -> bool:
        """Note what is about to be written to files of evidence. False: the run has ended, write nothing.

        `is_packing`: these are the compressed forms of files of a run that has ended; `close` it again then.

        Raises:
            OSError: it cannot be written.
        """
        with self._guard:
            if self._closed and not is_packing:
                return False
            found = {file: hashlib.sha256(raw).hexdigest() for file, raw in files.items()}
            if self.exists:
                handle = os.open(self._file, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
                try:
                    os.write(handle, "".join(f"{sha256}  {file}\n" for file, sha256 in found.items()).encode())
                    os.fsync(handle)
                finally:
                    os.close(handle)
            for file, sha256 in found.items():
                self._known.setdefault(file, []).append(sha256)
        return True

    def close(self) -> None:
        """The evidence is complete: one line for each file that there is. What comes later is not written.

        Raises:
            OSError: it cannot be written.
        """
        with self._guard:
            if self.exists:
                self._closed = True
                self._read_again()
                there = {file: known[-1:] for file, known in self._known.items() if (self._folder / file).exists()}
                self._known = there
                self._write()

    def trouble(self, file: str, raw: bytes) -> str:
        """What is wrong with a file of evidence that was read just now; empty if it is as it was written."""
        found = hashlib.sha256(raw).hexdigest()
        with self._guard:
            if found not in self._known.get(file, ()):
                self._read_again()
            if found in self._known.get(file, ()) or not self.exists:
                return ""
            return CHANGED if file in self._known else ADDED

    def lists(self, file: str) -> bool:
        """Whether the run has written this file of evidence."""
        with self._guard:
            self._read_again()
            return file in self._known

    def lines(self) -> list[tuple[str, str]]:
        """SHA-256 and name of each file of evidence that the run has written, by name."""
        with self._guard:
            self._read_again()
            return [(known[-1], file) for file, known in sorted(self._known.items()) if known[-1]]

    def odd_files(self) -> tuple[OddFile, ...]:
        """Every file of evidence that was changed, added or deleted since it was written; none without a manifest."""
        with self._guard:
            self._read_again()
            if not self.exists:
                return ()
            there = dict.fromkeys(_evidence_files(self._folder))
            odd = [
                OddFile(visible(" ".join(file.split())), what)
                for file in sorted({*there, *self._known})
                if (what := self._what(file, is_there=file in there))
            ]
        return tuple(odd)

    def _what(self, file: str, *, is_there: bool) -> str:
        if not is_there:  # a run that was killed while it compressed its evidence lists both forms
            return "" if (self._folder / f"{file}{ENDING}").exists() else MISSING
        if file not in self._known:
            return ADDED
        found = _sha256(self._folder / file)
        return UNREADABLE if not found else CHANGED if found not in self._known[file] else ""

    def _right(self, file: str, known: list[str]) -> str:
        """The line that counts: a run that was killed may have left one for what it did not come to write."""
        found = _sha256(self._folder / file) if len(known) > 1 else ""
        return found if found in known else known[-1]

    def _read_again(self) -> None:
        """Read what is on disk, if it is not what was read last; a line without its end is left out."""
        try:
            state = self._file.stat()
            seen = (state.st_ino, state.st_size, state.st_mtime_ns)
            if seen == self._seen:
                return
            raw = read_bounded(self._file, MAX_MANIFEST_BYTES)
        except OSError:
            return
        self._seen, self._known = seen, {}
        for line in raw.decode("utf-8", "replace").splitlines(keepends=True):
            if match := _LINE.fullmatch(line):
                self._known.setdefault(match["file"], []).append(match["sha256"])

    def _write(self) -> None:
        with replacing(self._file) as stream:
            stream.writelines(f"{known[-1]}  {file}\n" for file, known in sorted(self._known.items()) if known[-1])
        self._seen = None


def _evidence_files(folder: Path) -> Iterator[str]:
    """The names of all files of evidence below a run folder, in order."""
    for node in sorted((folder / "evidence").iterdir()):
        if node.is_dir():
            files = sorted((*node.glob("[!.]*.json"), *node.glob("[!.]*.json.gz")))
            yield from (f"evidence/{node.name}/{file.name}" for file in files)


def _sha256(file: Path) -> str:
    """The fingerprint of a regular file; empty if it cannot be read."""
    digest = hashlib.sha256()
    try:
        with open_regular(file) as stream:
            while block := stream.read(_BLOCK):
                digest.update(block)
    except OSError:
        return ""
    return digest.hexdigest()
