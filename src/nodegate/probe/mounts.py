"""Mounted file systems and their free space, and the disks that are built in. Sections `mounts` and `disks`."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from nodegate.probe import readings as read
from nodegate.text import shown
from nodegate.unknown import Known, Unknown, Why, value_or

_SECTOR_BYTES = 512  # the kernel's unit in /sys/block, whatever the disk's own


@dataclass(frozen=True)
class Mount:
    """One mounted file system. Usage is unknown if the mount hangs or refuses."""

    path: str
    source: str
    type: str
    options: tuple[str, ...]
    size_bytes: Known[int]
    free_bytes: Known[int]

    @property
    def read_only(self) -> bool:
        """Mounted (or remounted by the kernel after errors) read-only."""
        return "ro" in self.options


@dataclass(frozen=True)
class Mounts:
    """Mounted file systems by path."""

    by_path: Mapping[str, Mount]


def parse(found: Mapping[str, object]) -> Mounts:
    """The data of section `mounts`.

    A path that is not a mount point, but whose usage was read, is listed too, without type.

    Raises:
        CannotMeasure: it has no mount table.
    """
    table = read.needed(read.body(found, "table"), "mount table", "read /proc/self/mounts on the node")
    usage = value_or(read.mapping(found, "usage"), {})
    mounted = {mount.path: mount for line in table.splitlines() if (mount := _mount(line, usage))}
    for path in usage:
        if path not in mounted:
            size, free, read_only = _usage(path, usage)
            mounted[path] = Mount(path, "", "", ("ro",) if value_or(read_only, False) else (), size, free)
    return Mounts(mounted)


def _mount(line: str, usage: Mapping[str, object]) -> Mount | None:
    words = line.split(" ")
    if len(words) < 4:
        return None
    source, path, kind = (shown(_unescaped(word), read.MAX_LABEL) for word in words[:3])
    size, free, _ = _usage(path, usage)
    return Mount(path, source, kind, tuple(shown(words[3], 1000).split(",")), size, free)


def _usage(path: str, usage: Mapping[str, object]) -> tuple[Known[int], Known[int], Known[bool]]:
    numbers = read.mapping(usage, path) if path in usage else Unknown(Why.MISSING, "its usage was not read")
    return read.integer(numbers, "size_bytes"), read.integer(numbers, "free_bytes"), read.flag(numbers, "read_only")


def _unescaped(word: str) -> str:
    """The kernel writes blanks, tabs, newlines and backslashes in octal."""
    return re.sub(r"\\([0-3][0-7]{2})", lambda match: chr(int(match[1], 8)), word)


@dataclass(frozen=True)
class Disk:
    """One disk."""

    name: str  # "nvme0n1"
    serial: Known[str]  # of NVMe; the kernel has no file with that of a SCSI disk
    model: Known[str]
    size_bytes: Known[int]


@dataclass(frozen=True)
class Disks:
    """The disks by name."""

    devices: tuple[Disk, ...]


def parse_disks(found: Mapping[str, object]) -> Disks:
    """The data of section `disks`. Raises CannotMeasure: a disk is not an object."""
    return Disks(tuple(_disk(name, read.mapping(found, name)) for name in sorted(found)))


def _disk(name: str, disk: Known[Mapping[str, object]]) -> Disk:
    data = read.needed(disk, f"disk {shown(name)}", "read what the node sent in the evidence file")
    sectors = read.mapped(read.text(data, "sectors"), read.integer_in)
    size = read.mapped(sectors, lambda count: count * _SECTOR_BYTES)
    return Disk(shown(name), read.text(data, "serial"), read.text(data, "model"), size)
