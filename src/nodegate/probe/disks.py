"""The disks that are built in. Section `disks`."""

from collections.abc import Mapping
from dataclasses import dataclass

from nodegate.errors import CannotMeasure
from nodegate.probe import readings as read
from nodegate.text import shown
from nodegate.unknown import Known, Unknown

_SECTOR_BYTES = 512  # the kernel's unit in /sys/block, whatever the disk's own


@dataclass(frozen=True)
class Disk:
    """One disk."""

    name: str  # "nvme0n1"
    model: Known[str]
    size_bytes: Known[int]


@dataclass(frozen=True)
class Disks:
    """The disks by name."""

    devices: tuple[Disk, ...]


def parse(found: Mapping[str, object]) -> Disks:
    """The data of section `disks`.

    Raises:
        CannotMeasure: a disk is not an object.
    """
    return Disks(tuple(_disk(name, read.mapping(found, name)) for name in sorted(found)))


def _disk(name: str, data: Known[Mapping[str, object]]) -> Disk:
    if isinstance(data, Unknown):
        raise CannotMeasure(f"disk {shown(name)}: {data}", next_step="read what the node sent in the evidence file")
    sectors = read.mapped(read.text(data, "sectors"), read.integer_in)
    return Disk(shown(name), read.text(data, "model"), read.mapped(sectors, lambda count: count * _SECTOR_BYTES))
