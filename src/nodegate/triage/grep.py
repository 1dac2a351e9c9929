"""The search for lines with triggers in plain files, done by GNU grep: many times as fast as in Python.

One grep reads the files in a second process, in the order in which they are read here, and prints the lines that hold
a trigger with their places; the chunks are cut and read here as always. Without GNU grep, or if it fails, the search in
Python does the same.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path

from nodegate.triage.read import is_plain
from nodegate.triage.scan import GLOG, STRINGS

LARGE_BYTES = 1 << 16  # a smaller file is searched faster in Python
MOST_FILES = 1000  # of one grep: the system limits how long a command is
_TIMEOUT_S = 10.0
_PART_BYTES = 1 << 16  # of a line that grep prints; longer than any path
_SPECIAL = re.compile(r"[.[{()*+?^$|\\]")
_ESCAPED = r"\\\g<0>"


class GrepGaveUp(Exception):  # noqa: N818 - reads as the sentence that it raises
    """grep ended with an error: its output is not complete."""


@cache
def program() -> str | None:
    """The path of GNU grep; None if there is none."""
    if (found := shutil.which("grep")) is None:
        return None
    try:
        said = subprocess.run([found, "--version"], capture_output=True, timeout=_TIMEOUT_S, check=False).stdout
    except (OSError, subprocess.SubprocessError):
        return None
    return found if b"GNU grep" in said else None


def fits(path: str) -> bool:
    """Whether grep can search this log: a regular file that is large enough, not compressed."""
    try:
        large = "\n" not in path and Path(path).stat().st_size >= LARGE_BYTES
        return large and program() is not None and is_plain(path)
    except OSError:
        return False


def expression(strings: Iterable[str], expressions: Iterable[str] = ()) -> str:
    """One extended expression for these strings and expressions.

    The parentheses are for speed: strings alone GNU grep searches as `-F` does, by a tree, at a third of the speed of
    the table that it makes of an expression.
    """
    return f"({'|'.join([*(_SPECIAL.sub(_ESCAPED, string) for string in strings), *expressions])})"


class Positions:
    """Where in files the lines with triggers are, as grep finds them. The files are read in this order."""

    def __init__(self, *paths: str) -> None:
        self.numbers = {path: number for number, path in enumerate(paths)}
        self.at = 0  # the number of the file that is read now
        self._grep = subprocess.Popen(
            [str(program()), "-a", "-b", "-E", "-H", "-Z", "-e", expression(STRINGS, GLOG), "--", *paths],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "LC_ALL": "C", "GREP_COLORS": ""},
        )
        self._next: tuple[int, int, int] | None = None

    def close(self) -> None:
        """End grep."""
        if self._grep.poll() is None:
            self._grep.kill()
        if self._grep.stdout is not None:
            self._grep.stdout.close()
        self._grep.wait()

    def between(self, begin: int, end: int) -> list[tuple[int, int]]:
        """The lines, or parts of them, between two places: where they begin and end, in bytes from `begin`.

        Places are bytes from the start of the file, and asked for in ascending order.

        Raises:
            GrepGaveUp: grep did not reach the end of the file.
        """
        found: list[tuple[int, int]] = []
        while True:
            if self._next is None:
                self._next = self._read()
            if self._next is None or self._next[:2] >= (self.at, end):
                return found
            number, first, last = self._next
            if number == self.at and last > begin:  # else it is of a file that was not searched to its end
                found.append((max(first, begin) - begin, min(last, end) - begin))
                if last > end:
                    return found  # the line goes on in the next chunk
            self._next = None

    def _read(self) -> tuple[int, int, int] | None:
        """The number of the next line's file, and where in it the line begins and ends."""
        assert self._grep.stdout is not None  # noqa: S101
        part = self._grep.stdout.readline(_PART_BYTES)
        if part:
            path, _, rest = part.partition(b"\0")
            offset, colon, text = rest.partition(b":")
            number = self.numbers.get(os.fsdecode(path))
            if number is None or not colon or not offset.isdigit():
                raise GrepGaveUp
            end = int(offset) + len(text)
            while part and not part.endswith(b"\n"):  # a line may be longer than memory
                part = self._grep.stdout.readline(_PART_BYTES)
                end += len(part)
            return number, int(offset), end
        if self._grep.wait() not in (0, 1):
            raise GrepGaveUp
        return None


class Searches:
    """grep over many files: one process for each `MOST_FILES` of them, started when the first one is read."""

    def __init__(self, paths: Sequence[str]) -> None:
        batches = [tuple(paths[at : at + MOST_FILES]) for at in range(0, len(paths), MOST_FILES)]
        self._batch_of = {path: batch for batch in batches for path in batch}
        self._running: Positions | None = None

    def close(self) -> None:
        """End the grep that runs."""
        if self._running is not None:
            self._running.close()

    def of(self, path: str) -> Positions | None:
        """The lines in this file; None if grep does not search it."""
        batch = self._batch_of.get(path)
        if batch is None:
            return None
        if self._running is None or path not in self._running.numbers:
            self.close()
            self._running = Positions(*batch)
        self._running.at = self._running.numbers[path]
        return self._running
