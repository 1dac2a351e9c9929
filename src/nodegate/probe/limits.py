"""Resource limits of the login and of slurmd. Section `limits`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from nodegate.probe import readings as read
from nodegate.unknown import Known, Unknown, Why

UNLIMITED = -1


@dataclass(frozen=True)
class ResourceLimits:
    """Resource limits (soft, hard) of the login, and of slurmd if it runs. -1 is unlimited.

    Jobs inherit those of slurmd.
    """

    open_files: Known[tuple[int, int]]
    processes: Known[tuple[int, int]]
    locked_memory_bytes: Known[tuple[int, int]]
    slurmd_open_files: Known[tuple[int, int]]
    slurmd_processes: Known[tuple[int, int]]
    slurmd_locked_memory_bytes: Known[tuple[int, int]]


def parse(found: Mapping[str, object]) -> ResourceLimits:
    """The data of section `limits`."""
    own, slurmd = read.mapping(found, "self"), read.body(found, "slurmd")
    return ResourceLimits(
        *(read.mapped(read.integers(own, key, 2), _pair) for key in ("nofile", "nproc", "memlock")),
        *(read.mapped(slurmd, partial(limit_in, f"Max {row}")) for row in ("open files", "processes", "locked memory")),
    )


def limit_in(name: str, written: str) -> Known[tuple[int, int]]:
    """Soft and hard limit of one row of /proc/PID/limits."""
    match = re.search(rf"^{name}\s+(unlimited|[0-9]{{1,20}})\s+(unlimited|[0-9]{{1,20}})\b", written, re.MULTILINE)
    if match is None:
        return Unknown(Why.MISSING, f"/proc/PID/limits has no row {name}")
    soft, hard = (UNLIMITED if word == "unlimited" else int(word) for word in match.groups())
    return soft, hard


def _pair(both: tuple[int, ...]) -> tuple[int, int]:
    return both[0], both[1]
