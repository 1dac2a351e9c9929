"""Section `disks`: the disks that are built in."""

import os
from typing import Dict

from nodegate.node_side.probe import files

_BLOCK = "/sys/block"
MOST_DISKS = 256


def read() -> object:
    """The data of the section: disks by name, without loop, md and dm devices and without what is removable."""
    names = [name for name in files.required_entries(_BLOCK) if _is_built_in(f"{_BLOCK}/{name}")]
    return {name: _disk(f"{_BLOCK}/{name}") for name in sorted(names)[:MOST_DISKS]}


def _is_built_in(folder: str) -> bool:
    if not os.path.lexists(files.rooted(folder + "/device")):
        return False
    if files.plain(folder + "/hidden", "0") != "0":  # one path of several to an NVMe disk
        return False
    return files.plain(folder + "/removable", "0") == "0" and files.plain(folder + "/size", "0") != "0"


def _disk(folder: str) -> Dict[str, object]:
    return {"sectors": files.text(folder + "/size"), "model": files.text(folder + "/device/model")}
