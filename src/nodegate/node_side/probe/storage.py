"""Section `storage`: in each folder that the site names a small file is written, read back and removed.

Each folder in its own child. A probe that runs as root writes as the folder's owner: a file server may give root no
rights.
"""

import functools
import os
import time
from typing import List

from nodegate.node_side.probe import child, children, files, reading

BYTES = 4 << 20
ROOM = 10  # times its size must be free
LIMIT_S = 4.0
PATIENCE_S = 5.0  # more on a node whose processors are busy
MOST = 16
asked_for: List[str] = []


def read() -> object:
    """The data of the section; nothing without folders."""
    folders = list(dict.fromkeys(asked_for))[:MOST]
    tasks = {each: child.Task(functools.partial(_try, each), LIMIT_S, patience_s=PATIENCE_S) for each in folders}
    asked = children.run(tasks, child.remaining_s())
    return {folder: outcome.unknown or outcome.value for folder, outcome in asked.items()}


def _try(folder: str) -> object:
    child.note(f"open {folder}")
    try:
        owner = os.lstat(files.rooted(folder))
        if os.geteuid() == 0 and owner.st_uid != 0:
            os.setgroups([])
            os.setresgid(owner.st_gid, owner.st_gid, owner.st_gid)
            os.setresuid(owner.st_uid, owner.st_uid, owner.st_uid)
            child.die_with_parent(os.getppid())  # another user: the kernel has forgotten it
        place = os.open(files.rooted(folder), os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        room = os.fstatvfs(place)
        if room.f_bavail * room.f_frsize < ROOM * BYTES:
            return reading.unknown("failed", f"{folder}: less than {ROOM * BYTES >> 20} MiB are free")
        return _written(place, folder)
    except OSError as error:
        return files.os_failure(error, folder)


def _written(place: int, folder: str) -> object:
    """Its name goes at once: nothing is left, however this ends."""
    name = f".nodegate-{os.uname()[1]}-{os.getpid()}-{os.urandom(4).hex()}"
    sent = os.urandom(BYTES)
    child.note(f"write in {folder}")
    began = time.monotonic()
    file = os.open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=place)
    os.unlink(name, dir_fd=place)
    left = memoryview(sent)
    while left:
        left = left[os.write(file, left) :]
    os.fsync(file)
    written = time.monotonic()
    child.note(f"read in {folder}")
    os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)  # from the disk or the server, not from memory
    os.lseek(file, 0, os.SEEK_SET)
    came = bytearray()
    while len(came) < BYTES:
        piece = os.read(file, BYTES - len(came))
        if not piece:
            break
        came += piece
    ended = time.monotonic()
    return {"write_s": round(written - began, 4), "read_s": round(ended - written, 4), "same": bytes(came) == sent}
