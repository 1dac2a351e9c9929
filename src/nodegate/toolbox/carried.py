"""Tools that nodegate brings: the folder of --tools, packed once, and sent to a node when it first needs something."""

import os
import re
import stat
import tarfile
import tempfile
import threading
import weakref
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from nodegate.errors import CannotMeasure, UsageError
from nodegate.files.bounded import open_regular
from nodegate.node import Node
from nodegate.node_program import node_source
from nodegate.toolbox.found import Found, look
from nodegate.toolbox.tool_list import NAMES
from nodegate.transport.call import Call, printable
from nodegate.transport.session import LOCK_LIMIT_S, Session

MOST_BYTES = 1 << 30  # cuBLAS alone has 610 to 855 MB
MOST_FILES = 20_000
MOST_LIBRARY_FOLDERS = 16
PIECE_BYTES = 8 << 20
AT_ONCE = 16  # nodes to which it is sent at the same time: each costs some memory
PIECE_S = 120.0
UNPACK_S = 300.0
CHECK_S = 40.0
ORIGIN = "--tools"
_WITH_LIBRARIES = 'cd "$0" && LD_LIBRARY_PATH=$1 && export LD_LIBRARY_PATH && shift && exec "$@"'
_FOLDER = re.compile(r"(?:/[\w.@+-]+)*/nodegate-tools-\w+")
_CUBLAS = re.compile(r"libcublas\.so(\.\d{1,5}){1,5}")
_LIBRARY = re.compile(r"\.so(\.[0-9.]+)?$").search
_NAME = re.compile(r"[^\0-\x1f\x7f]{1,255}")


class Carried:
    """The content of --tools DIR. Read at creation, packed when it is first sent. Safe to use from several threads.

    `paths` are those of its tools below the folder, by their `names`; `cublas` the folders below it with a cuBLAS, for
    the burn, and `libraries` those with shared libraries, which the tools find (LD_LIBRARY_PATH).

    Raises:
        UsageError: it is not a folder, has neither a tool nor cuBLAS, is too large, or has what cannot be brought.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        if not folder.is_dir():
            raise UsageError(f"--tools {folder}: no such folder")
        self._entries = list(_entries(folder))
        self.size_bytes = sum(entry.size for entry in self._entries)
        if self.size_bytes > MOST_BYTES or len(self._entries) > MOST_FILES:
            size = f"{self.size_bytes >> 20} MiB in {len(self._entries)} entries"
            hint = "remove sources and debug symbols (strip), or put the tools on a shared file system"
            raise UsageError(f"--tools {folder}: {size}, at most {MOST_BYTES >> 20} MiB in {MOST_FILES}", hint=hint)
        files = [os.path.split(entry.path) for entry in self._entries if not entry.is_folder]
        self.cublas = tuple(sorted({at for at, name in files if _CUBLAS.fullmatch(name)}))
        self.paths = _tools(folder, self._entries)
        if not self.paths and not self.cublas:
            hint = f"known: {', '.join(NAMES[:7])} ..., libcublas.so.*"
            raise UsageError(f"--tools {folder}: it contains none of the tools", hint=hint)
        self.names = frozenset(self.paths)
        libraries = {at for at, name in map(os.path.split, (entry.path for entry in self._entries)) if _LIBRARY(name)}
        self.libraries = tuple(sorted(libraries))[:MOST_LIBRARY_FOLDERS]
        self.room = threading.BoundedSemaphore(AT_ONCE)
        self._lock = threading.Lock()
        self._archive = -1

    def pieces(self) -> Iterator[tuple[int, bytes, bool]]:
        """The archive in pieces: offset, bytes, whether it is the last.

        Raises:
            CannotMeasure: a file of it can no longer be read.
        """
        with self._lock:
            if self._archive < 0:
                self._archive = self._packed()
                weakref.finalize(self, os.close, self._archive)
        size = os.fstat(self._archive).st_size
        for at in range(0, size, PIECE_BYTES):
            yield at, os.pread(self._archive, PIECE_BYTES, at), at + PIECE_BYTES >= size

    def _packed(self) -> int:
        """The archive, a file without a name."""
        try:
            with tempfile.TemporaryFile() as file:
                with tarfile.open(fileobj=file, mode="w:gz", compresslevel=1, format=tarfile.PAX_FORMAT) as archive:
                    for entry in self._entries:
                        entry.add_to(archive, self.folder)
                file.flush()
                return os.dup(file.fileno())
        except OSError as error:
            step = "do not change the folder during a run"
            raise CannotMeasure(f"--tools {self.folder} could not be packed: {error}", next_step=step) from None


@dataclass(frozen=True)
class _Entry:
    """A file, folder or link below --tools, by its path there."""

    path: str
    size: int = 0
    is_folder: bool = False
    may_run: bool = False
    link: str = ""

    def add_to(self, archive: tarfile.TarFile, folder: Path) -> None:
        """Pack it, without its owner."""
        info = tarfile.TarInfo(self.path)
        info.mode = 0o700 if self.is_folder or self.may_run else 0o600
        if self.is_folder or self.link:
            info.type, info.linkname = (tarfile.DIRTYPE, "") if self.is_folder else (tarfile.SYMTYPE, self.link)
            archive.addfile(info)
            return
        with open_regular(folder / self.path) as file:
            info.size = self.size
            archive.addfile(info, file)


def _entries(root: Path) -> Iterator[_Entry]:
    """Everything below the folder, a folder before its content. Links to outside and special files are refused."""
    real_root = os.path.realpath(root)
    count = 0
    for at, folders, files in os.walk(root):
        folders.sort()
        for name in sorted([*folders, *files]):
            full = os.path.join(at, name)  # noqa: PTH118 - as os.walk gives it
            count += 1
            if count > MOST_FILES:
                raise UsageError(
                    f"--tools {root}: more than {MOST_FILES} entries", hint="give the folder that holds only the tools"
                )
            if not _NAME.fullmatch(name):
                raise UsageError(f"--tools {root}: {name[:80]!r} is not a valid file name", hint="rename it")
            try:
                what = os.lstat(full)
            except OSError as error:
                raise UsageError(f"--tools: {full}: {error.strerror}") from None
            is_link, is_file = stat.S_ISLNK(what.st_mode), stat.S_ISREG(what.st_mode)
            target = os.path.realpath(full) if is_link else ""
            if is_link and not target.startswith(real_root + os.sep):
                hint = "copy the file itself"
                raise UsageError(f"--tools: {full} is a link to {target}, outside the folder", hint=hint)
            if not (is_link or is_file or stat.S_ISDIR(what.st_mode)):
                raise UsageError(f"--tools: {full} is not a file, folder or link", hint="remove it")
            yield _Entry(
                os.path.relpath(full, root),
                size=what.st_size if is_file else 0,
                is_folder=stat.S_ISDIR(what.st_mode),
                may_run=is_file and bool(what.st_mode & 0o111),
                link=os.path.relpath(target, os.path.realpath(at)) if is_link else "",
            )


def _tools(folder: Path, entries: list[_Entry]) -> Mapping[str, str]:
    """The path of each tool; of several with one name the one with the shortest path."""
    found: dict[str, str] = {}
    for entry in sorted(entries, key=lambda entry: (entry.path.count(os.sep), entry.path)):
        name = os.path.basename(entry.path)  # noqa: PTH119 - text, not a file
        if name in NAMES and not entry.is_folder and (folder / entry.path).is_file():
            if not os.access(folder / entry.path, os.X_OK):
                raise UsageError(f"--tools: {folder / entry.path} is not executable", hint="run chmod +x on it")
            found.setdefault(name, entry.path)
    return found


@dataclass(frozen=True)
class Brought:
    """Tools that are on a node now, until `holder` is stopped, or until the connection or this process ends."""

    found: Mapping[str, tuple[Found, ...]]
    folder: str
    holder: Call


def bring(carried: Carried, session: Session, node: Node) -> Brought:
    """Send the tools to a node and check whether they can start there.

    Raises:
        CannotMeasure: there is no folder for them, or they could not be unpacked.
        Unreachable: the connection broke.
    """
    room = 2 * carried.size_bytes  # the archive and its content, for a moment
    python = [node.connection.python, "-I", "-S", "-c"]
    # As the login, which root can read too: a tool must start for every user.
    holder = session.start([*python, node_source("tools.tool_folder"), str(room)], timeout_s=LOCK_LIMIT_S)
    try:
        folder = _held(holder, node)
        with carried.room:
            _send(carried, session, node, folder)
        return Brought(_check(carried, session, node, f"{folder}/tools"), f"{folder}/tools", holder)
    except BaseException:
        holder.stop()
        raise


def _held(holder: Call, node: Node) -> str:
    word, _, rest = holder.line().partition(" ")
    if word == "held" and _FOLDER.fullmatch(rest):
        return rest
    said = printable(rest.encode() or holder.stop().stderr, 300)
    step = "free some space there, or mount one of these folders without noexec"
    raise CannotMeasure(f"no folder for the tools of {ORIGIN}: {said}", next_step=step, whose=node.name)


def _send(carried: Carried, session: Session, node: Node, folder: str) -> None:
    program = [node.connection.python, "-I", "-S", "-c", node_source("tools.unpack_tools"), folder]
    for at, piece, last in carried.pieces():
        limit_s = UNPACK_S if last else PIECE_S
        output = session.run([*program, str(at), *(["last"] if last else [])], timeout_s=limit_s, stdin=piece)
        if output.stdout.strip() != b"ok":
            said = printable(output.stdout + output.stderr) or f"not within {limit_s:g} s"
            reason = f"the tools of {ORIGIN} could not be brought: {said}"
            step = f"check free space and permissions of {folder}"
            raise CannotMeasure(reason, next_step=step, whose=node.name)


def _check(carried: Carried, session: Session, node: Node, folder: str) -> Mapping[str, tuple[Found, ...]]:
    """What the node's loader reports about the tools that were brought."""
    given = {name: f"{folder}/{path}" for name, path in carried.paths.items()}
    libraries = ":".join(f"{folder}/{each}".rstrip("/") for each in carried.libraries)
    _, found = look(session, node, limit_s=CHECK_S, names=sorted(given), given=given, libraries=libraries)
    brought: dict[str, tuple[Found, ...]] = {}
    for name, path in given.items():  # one with libraries of its own starts in its folder, where it may look for more
        argv = ("sh", "-c", _WITH_LIBRARIES, os.path.dirname(path), libraries, path) if libraries else (path,)  # noqa: PTH120
        brought[name] = tuple(replace(one, path=path, argv=argv, origin=ORIGIN) for one in found.get(name, ()))
    return brought
