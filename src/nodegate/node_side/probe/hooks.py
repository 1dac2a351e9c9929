"""Section `hooks`: the verdicts that Slurm's hooks noted on this node, and whether they ask that it has passed."""

import os
import stat

from nodegate.node_side.probe import files, reading

SPOOL = "/var/lib/nodegate/spool.jsonl"
CONF = "/etc/nodegate/hooks.conf"
SPOOL_BYTES = 256 << 10


def read() -> object:
    """The data of the section."""
    return {"spool": _of_root(SPOOL, SPOOL_BYTES), "conf": _of_root(CONF, files.TEXT_LIMIT)}


def _of_root(path: str, limit: int) -> object:
    """The end of a file that only root (or who reads it) can have written."""
    try:
        found = os.lstat(files.rooted(path))
    except OSError as error:
        return files.os_failure(error, path)
    if not stat.S_ISREG(found.st_mode):
        return reading.unknown("denied", f"{path} is not a regular file")
    if found.st_uid not in (0, os.geteuid()) or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return reading.unknown("denied", f"{path}: others than root can write it")
    return files.text(path, limit, from_end=True)
