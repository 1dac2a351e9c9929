"""Mounted file systems and their free space, and the disks that are built in. Sections `mounts`, `disks`, `storage`."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from nodegate.probe import readings as read
from nodegate.text import shown
from nodegate.unknown import Known, Unknown, Why, unread, value_or

_ASKED = re.compile(r"(?P<mount>/.{0,299}?):write(?:=(?P<folder>/[^\0]{0,299}))?")
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


def split(asked: str) -> tuple[str, str]:
    """The mount that an entry of `nodegate_mounts` names, and the folder in which it asks to write; empty: in none.

    "/lustre:write=/lustre/nodegate", or "/lustre:write" for the mount itself; any other word after it is part of its
    name.
    """
    found = _ASKED.fullmatch(asked)
    return (found["mount"], found["folder"] or found["mount"]) if found else (asked, "")


def folders_of(asked: Iterable[str]) -> list[str]:
    """The folders in which `nodegate_mounts` asks to write."""
    return [folder for each in asked if (folder := split(each)[1])]


@dataclass(frozen=True)
class Written:
    """A file of 4 MiB: how long it took to write and to read it back, in seconds, and whether it was the same."""

    write_s: float
    read_s: float
    same: bool


@dataclass(frozen=True)
class Storage:
    """By folder, or why it could not be written; `otherwise` is why nothing is known of any other."""

    folders: Mapping[str, Known[Written]]
    otherwise: Unknown

    def of(self, folder: str) -> Known[Written]:
        """What became of the file in a folder."""
        return self.folders.get(folder, self.otherwise)


def parse_storage(found: Known[Mapping[str, object]]) -> Storage:
    """The data of section `storage`; evidence of an older probe has none, which matters where a folder is asked for."""
    if isinstance(found, Unknown):
        return Storage({}, Unknown(Why.NOT_SUPPORTED, f"the probe did not write there: {found}"))
    folders = {name: _written(read.mapping(found, name)) for name in found}
    return Storage(folders, Unknown(Why.NOT_SUPPORTED, "the probe did not write there"))


def _written(data: Known[Mapping[str, object]]) -> Known[Written]:
    if isinstance(data, Unknown):
        return data
    took, read_in, same = read.number(data, "write_s"), read.number(data, "read_s"), read.flag(data, "same")
    if isinstance(took, Unknown) or isinstance(read_in, Unknown) or isinstance(same, Unknown):
        return Unknown(Why.IMPLAUSIBLE, f"it is not said what became of it: {unread(took, read_in, same)}")
    return Written(took, read_in, same)
