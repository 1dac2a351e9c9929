"""Sections `mounts` and `disks`: file systems with their free space, and the disks that are built in.

Each file system is queried in its own child: a dead file server hangs the process that queries it.
"""

import functools
import os
import re

from nodegate.node_side.probe import child, children, files

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


def read() -> object:
    """The data of the section."""
    rows = [(line, line.split(" ")) for line in files.required("/proc/self/mounts").splitlines()]
    mounted = [(line, _unescaped(words[1])) for line, words in rows if len(words) > 3 and _matters(*words[1:3])]
    paths = list(dict.fromkeys((*ALWAYS, *(path for _, path in mounted))))[:MOST_MOUNTS]
    tasks = {path: child.Task(functools.partial(_usage, path), USAGE_LIMIT_S, patience_s=PATIENCE_S) for path in paths}
    asked = children.run(tasks, child.remaining_s())
    usage = {path: outcome.unknown or outcome.value for path, outcome in asked.items()}
    return {"table": "\n".join(line for line, _ in mounted), "usage": usage}


def _unescaped(word: str) -> str:
    """The kernel writes blanks, tabs, newlines and backslashes in octal."""
    return re.sub(r"\\([0-3][0-7]{2})", lambda match: chr(int(match.group(1), 8)), word)


def _matters(written: str, kind: str) -> bool:
    path = _unescaped(written)
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
