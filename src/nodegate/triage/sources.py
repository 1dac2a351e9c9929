"""Which logs are to be read: files, folders, globs, standard input, a run folder."""

import glob
import os
import stat
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from nodegate.errors import UsageError
from nodegate.files.bounded import open_given, open_regular
from nodegate.knowledge.words import Text
from nodegate.triage import flight_recorder, remarks
from nodegate.triage.read import is_text

STDIN = "-"
MOST_LOGS = 100_000
_SNIFFED_BYTES = 4096
_EMPTY = Text("", "")  # skipped without a word
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
        return sys.stdin.buffer if self.name == STDIN else open_given(self.name)


@dataclass
class Sources:
    """The logs to read, the run folders among the arguments, files of folders that cannot be logs or be read."""

    logs: Sequence[Source] = ()
    runs: list[Path] = field(default_factory=list)
    passed_over: list[tuple[str, Text]] = field(default_factory=list)
    unread: list[str] = field(default_factory=list)


def find(asked: Sequence[str], kernel: Sequence[str]) -> Sources:
    """What these arguments name; `kernel` are kernel logs, each a path or NODE=PATH.

    Raises:
        UsageError: one of them does not exist.
    """
    logs: dict[str, Source] = {}
    found = Sources()
    for argument in asked:
        path = Path(argument)
        if argument != STDIN and (path / "evidence").is_dir():
            found.runs.append(path)
            continue
        for name in _names(argument, found):
            logs.setdefault(name, Source(name))
    for argument in kernel:
        node, mark, name = argument.partition("=")
        if not mark or Path(argument).exists():
            node, name = "", argument
        for each in _names(name, found):
            logs[each] = Source(each, node=node, kernel=True)
    if len(logs) > MOST_LOGS:
        raise UsageError(f"{len(logs)} logs are more than {MOST_LOGS}", hint="give fewer")
    found.logs = tuple(logs.values())
    return found


def _names(argument: str, found: Sources) -> Iterator[str]:
    if argument == STDIN or Path(argument).exists():
        named = [argument]
    else:
        named = sorted(glob.glob(argument, recursive=True)) if glob.has_magic(argument) else []  # noqa: PTH207
    if not named:
        raise UsageError("there is no such log", file=argument, hint="give a file, a folder, a glob or - for stdin")
    for name in named:
        yield from _inside(Path(name), found) if name != STDIN and Path(name).is_dir() else (name,)


def _inside(folder: Path, found: Sources) -> Iterator[str]:
    """The logs in a folder and below: regular text files, in the order of their names."""

    def cannot(broken: OSError) -> None:
        found.unread.append(f"{broken.filename}: {broken.strerror or broken}")

    for root, folders, names in os.walk(folder, onerror=cannot):
        folders.sort()
        for name in sorted(names):
            path = os.path.join(root, name)  # noqa: PTH118 - 100,000 times
            try:
                why = _no_log(path, name)
            except OSError as broken:
                found.unread.append(f"{path}: {broken.strerror or broken}")
                continue
            if why is None:
                yield path
            elif why is not _EMPTY:
                found.passed_over.append((path, why))


def _no_log(path: str, name: str) -> Text | None:
    """Why this file of a folder is skipped; `_EMPTY` if it is empty; None if it is a log.

    Raises:
        OSError: it may be one, and cannot be read.
    """
    if name.lower().endswith(_NO_LOGS):
        return remarks.BY_NAME
    try:
        state = os.stat(path)  # noqa: PTH116
    except FileNotFoundError:
        return remarks.NO_TARGET
    if not stat.S_ISREG(state.st_mode):
        return remarks.NO_FILE
    if not state.st_size:
        return _EMPTY
    with open_regular(path) as stream:
        head = stream.read(_SNIFFED_BYTES)
    if flight_recorder.is_dump(head) or not is_text(head):
        return None
    return remarks.NO_TEXT if head.count(0) * 10 > len(head) else None
