"""Section `hooks`: the verdicts that Slurm's hooks noted on this node, and whether they ask that it has passed."""

import os
import re
import stat
from typing import Union

from nodegate.node_side.probe import files, reading

SPOOL = "/var/lib/nodegate/spool.jsonl"
CONF = "/etc/nodegate/hooks.conf"
SPOOL_BYTES = 256 << 10
_GATE = re.compile(r"^\s*(?:export\s+)?(?:gate|NODEGATE_GATE)\s*=\s*([\"']?)on\1\s*$", re.MULTILINE)


def read() -> object:
    """The data of the section."""
    conf = _of_root(CONF, files.TEXT_LIMIT)
    return {"spool": _of_root(SPOOL, SPOOL_BYTES), "gate": _asks_for_gate(conf) if isinstance(conf, str) else conf}


def _asks_for_gate(conf: str) -> bool:
    """Whether these settings have `gate = on`, as deploy/slurm-hook.sh reads them."""
    return _GATE.search(conf.replace("\r", "")) is not None


def _of_root(path: str, limit: int) -> Union[str, reading.Reading]:
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
