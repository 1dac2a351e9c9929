"""Sections `mounts`, `disks` and `storage`: file systems, their free space, and whether files can be written; disks.

Each file system is queried in its own child: a dead file server hangs the process that queries it.
"""

import functools
import os
import re
import time
from typing import Callable, Dict, List

from nodegate.node_side.probe import child, children, files, reading

USAGE_LIMIT_S = 2.0
PATIENCE_S = 5.0  # more on a node whose processors are busy: there a sound file system is late too
MOST_MOUNTS = 40
ALWAYS = ("/", "/dev/shm", "/tmp", "/var/log")  # noqa: S108 - asked for their size, nothing is written
_DISK = ("ext2", "ext3", "ext4", "xfs", "btrfs", "zfs", "bcachefs")
_NETWORK = re.compile(
    r"(nfs4?|lustre|gpfs|beegfs|ceph|cifs|smb3|wekafs|glusterfs|9p|orangefs|pvfs2|afs|fhgfs|virtiofs|panfs|fuse\..+)\Z"
)
_NOT_STORAGE = re.compile(r"fuse\.(lxcfs|gvfsd-fuse|portal|snapfuse|squashfuse)\Z")
_OF_CONTAINERS = re.compile(r"/(run|snap|var/lib/(kubelet|docker|containers|containerd|rancher))/")
_BLOCK = "/sys/block"
MOST_DISKS = 256
BYTES = 4 << 20  # of the file that is written where the site asks for it
ROOM = 10  # times its size must be free
WRITE_LIMIT_S = 4.0
MOST_FOLDERS = 16
asked_for: List[str] = []  # folders in which a file is written


def read() -> object:
    """The data of the section."""
    rows = [(line, line.split(" ")) for line in files.required("/proc/self/mounts").splitlines()]
    named = [(line, _unescaped(words[1]), words[2]) for line, words in rows if len(words) > 3]
    mounted = [(line, path) for line, path, kind in named if _matters(path, kind)]
    paths = list(dict.fromkeys((*ALWAYS, *(path for _, path in mounted))))[:MOST_MOUNTS]
    return {"table": "\n".join(line for line, _ in mounted), "usage": _of_each(paths, _usage, USAGE_LIMIT_S)}


def _of_each(paths: List[str], ask: Callable[[str], object], limit_s: float) -> Dict[str, object]:
    tasks = {path: child.Task(functools.partial(ask, path), limit_s, patience_s=PATIENCE_S) for path in paths}
    asked = children.run(tasks, child.remaining_s())
    return {path: outcome.unknown or outcome.value for path, outcome in asked.items()}


def _unescaped(word: str) -> str:
    """The kernel writes blanks, tabs, newlines and backslashes in octal."""
    return re.sub(r"\\([0-3][0-7]{2})", lambda match: chr(int(match.group(1), 8)), word)


def _matters(path: str, kind: str) -> bool:
    if path in ALWAYS:
        return True
    if _OF_CONTAINERS.match(path) or _NOT_STORAGE.match(kind):
        return False
    return kind in _DISK or _NETWORK.match(kind) is not None


def _usage(path: str) -> object:
    child.note(f"statvfs {path}")
    try:
        found = os.statvfs(files.rooted(path))
    except OSError as error:
        return files.os_failure(error, path)
    return {
        "size_bytes": found.f_frsize * found.f_blocks,
        "free_bytes": found.f_frsize * found.f_bavail,
        "read_only": bool(found.f_flag & os.ST_RDONLY),
    }


def read_disks() -> object:
    """The data of section `disks`: those by name, without loop, md and dm devices and without what is removable."""
    names = [name for name in files.required_entries(_BLOCK) if _is_built_in(f"{_BLOCK}/{name}")]
    texts = {"sectors": "size", "model": "device/model", "serial": "device/serial"}
    return {
        name: {key: files.text(f"{_BLOCK}/{name}/{file}") for key, file in texts.items()} for name in names[:MOST_DISKS]
    }


def _is_built_in(folder: str) -> bool:
    if not os.path.lexists(files.rooted(folder + "/device")):
        return False
    if files.plain(folder + "/hidden", "0") != "0":  # one path of several to an NVMe disk
        return False
    return files.plain(folder + "/removable", "0") == "0" and files.plain(folder + "/size", "0") != "0"


def read_storage() -> object:
    """The data of section `storage`: in each folder that the site names a small file is written, read and removed.

    A probe that runs as root writes as the folder's owner: a file server may give root no rights.
    """
    return _of_each(list(dict.fromkeys(asked_for))[:MOST_FOLDERS], _try, WRITE_LIMIT_S)


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
