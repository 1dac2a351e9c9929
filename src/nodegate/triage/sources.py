"""Which logs are to be read: files, folders, globs, standard input, a run folder."""

from __future__ import annotations

import glob
import os
import stat
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING

from nodegate.errors import UsageError
from nodegate.triage.read import PACKED

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

STDIN = "-"
MOST_LOGS = 100_000
_SNIFFED_BYTES = 4096
_NO_LOGS = (".pt", ".pth", ".bin", ".safetensors", ".ckpt", ".npy", ".npz", ".py", ".pyc", ".png", ".nsys-rep", ".html")


@dataclass(frozen=True)
class Source:
    """One log. `node` is set if the user named its node; `kernel` if it was given as a kernel log."""

    name: str
    node: str = ""
    kernel: bool = False

    def open(self) -> IO[bytes]:
        """Its bytes.

        Raises:
            OSError: it cannot be read.
        """
        return sys.stdin.buffer if self.name == STDIN else Path(self.name).open("rb")


@dataclass(frozen=True)
class Sources:
    """The logs to read, the run folders among the arguments, and what was skipped."""

    logs: tuple[Source, ...]
    runs: tuple[Path, ...]
    passed_over: tuple[str, ...]


def find(asked: Sequence[str], kernel: Sequence[str]) -> Sources:
    """What these arguments name; `kernel` are kernel logs, each a path or NODE=PATH.

    Raises:
        UsageError: one of them does not exist.
    """
    logs: dict[str, Source] = {}
    runs: list[Path] = []
    passed_over: list[str] = []
    for argument in asked:
        path = Path(argument)
        if argument != STDIN and (path / "evidence").is_dir():
            runs.append(path)
            continue
        for name in _names(argument, passed_over):
            logs.setdefault(name, Source(name))
    for argument in kernel:
        node, mark, name = argument.partition("=")
        if not mark or Path(argument).exists():
            node, name = "", argument
        for each in _names(name, passed_over):
            logs[each] = Source(each, node=node, kernel=True)
    if len(logs) > MOST_LOGS:
        raise UsageError(f"{len(logs)} logs are more than {MOST_LOGS}", hint="give fewer")
    return Sources(tuple(logs.values()), tuple(runs), tuple(passed_over))


def _names(argument: str, passed_over: list[str]) -> Iterator[str]:
    path = Path(argument)
    if argument == STDIN:
        yield STDIN
    elif path.is_dir():
        yield from _inside(path, passed_over)
    elif path.exists():
        yield argument
    else:
        found = sorted(glob.glob(argument, recursive=True)) if glob.has_magic(argument) else []  # noqa: PTH207
        if not found:
            raise UsageError("there is no such log", file=argument, hint="give a file, a folder, a glob or - for stdin")
        for name in found:
            yield from _inside(Path(name), passed_over) if Path(name).is_dir() else (name,)


def _inside(folder: Path, passed_over: list[str]) -> Iterator[str]:
    """The logs in a folder and below: regular text files, in the order of their names."""
    for root, folders, names in os.walk(folder, onerror=lambda broken: passed_over.append(str(broken))):
        folders.sort()
        for name in sorted(names):
            path = os.path.join(root, name)  # noqa: PTH118 - 100,000 times
            why = _no_log(path, name)
            if why:
                passed_over.append(f"{path}: {why}")
            elif why is None:
                yield path


def _no_log(path: str, name: str) -> str | None:
    """Why this file of a folder is skipped; "" if it is empty; None if it is a log."""
    if name.lower().endswith(_NO_LOGS):
        return "not a log by its name"
    try:
        state = os.stat(path)  # noqa: PTH116
        if not stat.S_ISREG(state.st_mode):
            return "not a regular file"
        if not state.st_size:
            return ""
        with open(path, "rb") as stream:  # noqa: PTH123
            head = stream.read(_SNIFFED_BYTES)
    except OSError as broken:
        return f"cannot be read: {broken.strerror}"
    if head.startswith(PACKED):
        return None
    return "is not text" if head.count(0) * 10 > len(head) else None
