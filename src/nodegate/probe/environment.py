"""What a job inherits: login variables, files of NCCL, the site's demands; limits. Sections `environment`, `limits`."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from nodegate.probe import readings as read
from nodegate.text import shown
from nodegate.unknown import Known, Unknown, Why, value_or

_hash = read.first(r'^ "sha256": "([0-9a-f]{64})",?$', Unknown(Why.FAILED, "it has no hash"))
UNLIMITED = -1


@dataclass(frozen=True)
class Environment:
    """Variables that a job's login shell would have, and NCCL's own settings files (name -> value).

    `files` are the files that settings name, and whether they are there; of evidence from before there are none.
    `origin` says where each setting comes from: "login environment", "/etc/nccl.conf" or "~/.nccl.conf". `demands` is
    the hash that the node's demands file has.
    """

    variables: Mapping[str, str]
    nccl_conf: Known[Mapping[str, str]]
    user_nccl_conf: Known[Mapping[str, str]]
    files: Mapping[str, Known[bool]]
    demands: Known[str]


def parse(found: Mapping[str, object]) -> Environment:
    """The data of section `environment`. Raises CannotMeasure: the login environment could not be read."""
    step = "run sh -l -c env on the node by hand"
    variables = read.needed(read.mapping(found, "variables"), "login environment", step)
    files = value_or(read.mapping(found, "files"), {})
    return Environment(
        variables={name: value_or(read.text(variables, name), "") for name in variables},
        nccl_conf=read.mapped(read.body(found, "nccl_conf"), nccl_settings),
        user_nccl_conf=read.mapped(read.body(found, "user_nccl_conf"), nccl_settings),
        files={path: read.flag(files, path) for path in files},
        demands=read.mapped(read.body(found, "demands"), _hash),
    )


def nccl_settings(written: str) -> Mapping[str, str]:
    """The NAME=VALUE lines of an NCCL settings file as NCCL reads them.

    NCCL takes the name and the value unchanged, including blanks: "NCCL_DEBUG = INFO" sets nothing that NCCL knows.
    """
    lines = (line.partition("=") for line in written.splitlines()[: read.MAX_ITEMS] if not line.startswith("#"))
    return {shown(name): shown(value, read.MAX_LABEL) for name, equals, value in lines if equals}


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


def parse_limits(found: Mapping[str, object]) -> ResourceLimits:
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
