"""Reading the files of the node: a reading is the text, or an object that says why there is none.

Every path is below NODEGATE_PROBE_ROOT if that variable is set: then a synthetic file tree is read in place of the
machine's own /sys, /proc, /etc, /var and /dev, and programs are searched for in that tree only.
"""

import errno
import os
from typing import BinaryIO, Callable, Dict, Iterable, List, TypeVar, Union

from nodegate.node_side.probe import child, reading

ROOT = os.environ.get("NODEGATE_PROBE_ROOT", "")
TEXT_LIMIT = 64 << 10
T = TypeVar("T")

_WHY = {
    **dict.fromkeys((errno.ENOENT, errno.ENOTDIR, errno.ENXIO, errno.ENODEV), "missing"),
    **dict.fromkeys((errno.EACCES, errno.EPERM), "denied"),
    **dict.fromkeys((errno.EOPNOTSUPP, errno.ENOSYS), "not supported"),
}


def rooted(path: str) -> str:
    """The real path of a path of the node."""
    return ROOT + path


def clean(raw: bytes) -> str:
    """Bytes as text for JSON; invalid UTF-8 is replaced."""
    return raw.decode("utf-8", "replace")


def without_newline(written: str) -> str:
    """A text without its last newline."""
    return written[:-1] if written.endswith("\n") else written


def os_failure(error: OSError, subject: str) -> reading.Reading:
    """The reading for an error of the operating system."""
    return reading.unknown(_WHY.get(error.errno or 0, "failed"), f"{subject}: {error.strerror or error}")


def text(
    path: str, limit: int = TEXT_LIMIT, subject: str = "", *, from_end: bool = False
) -> Union[str, reading.Reading]:
    """The first `limit` bytes of a file, or the last, without the last newline.

    An error names the path, or `subject` for it.
    """

    def read(file: BinaryIO) -> str:
        if from_end:
            file.seek(max(0, file.seek(0, os.SEEK_END) - limit))
        return without_newline(clean(file.read(limit)))

    return opened(path, read, subject)


def opened(path: str, use: "Callable[[BinaryIO], T]", subject: str = "") -> "Union[T, reading.Reading]":
    """What is made of an open file, or the reading for the error, which names the path or `subject` for it."""
    child.note(path)
    try:
        with open(rooted(path), "rb") as file:
            return use(file)
    except OSError as error:
        return os_failure(error, subject or path)


def is_there(path: str) -> Union[bool, reading.Reading]:
    """Whether there is such a file or folder."""
    child.note(path)
    try:
        os.stat(rooted(path))
    except OSError as error:
        return False if error.errno in (errno.ENOENT, errno.ENOTDIR) else os_failure(error, path)
    return True


def plain(path: str, default: str = "", limit: int = TEXT_LIMIT) -> str:
    """The text of a file if it can be read, else `default`: for files that only control what is read next."""
    found = text(path, limit)
    return found if isinstance(found, str) else default


def required(path: str) -> str:
    """The text of a file that a section needs. Raises reading.CannotRead."""
    found = text(path)
    if isinstance(found, str):
        return found
    raise reading.CannotRead(found)


def texts(folder: str, names: Iterable[str]) -> Dict[str, object]:
    """A reading of each named file of a folder."""
    return {name: text(f"{folder}/{name}", subject=name) for name in names}


def entries(folder: str) -> List[str]:
    """The names in a folder, sorted; none if it cannot be read."""
    try:
        return required_entries(folder)
    except reading.CannotRead:
        return []


def required_entries(folder: str) -> List[str]:
    """The names in a folder that a section needs, sorted. Raises reading.CannotRead."""
    child.note(folder)
    try:
        return sorted(clean(os.fsencode(name)) for name in os.listdir(rooted(folder)))
    except OSError as error:
        raise reading.CannotRead(os_failure(error, folder)) from None


def link_name(path: str) -> str:
    """The last part of a symbolic link's target, or empty."""
    child.note(path)
    try:
        return os.path.basename(os.readlink(rooted(path)))
    except OSError:
        return ""
