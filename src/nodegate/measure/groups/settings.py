"""The inventory's settings for launches over several nodes: nodegate_launcher and nodegate_nccl_env."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from nodegate.errors import UsageError
from nodegate.files.strict_yaml import did_you_mean, shown

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nodegate.node import Node

LAUNCHERS = ("mpirun", "srun")
_SAME = {"slurm": "srun", "openmpi": "mpirun", "mpi": "mpirun"}
_NAME = re.compile(r"NCCL_[A-Z0-9_]{1,80}", re.ASCII)
_VALUE = re.compile(r"[^\0-\x1f\x7f]{0,500}")
MOST_SETTINGS = 64
# Variables that nodegate sets itself, and those that would change what is measured.
OURS = frozenset(
    {
        "NCCL_DEBUG",
        "NCCL_TESTS_SPLIT",
        "NCCL_TESTS_SPLIT_MASK",
        "NCCL_TESTS_MIN_BW",
        "NCCL_TESTS_DEVICE",
        "NCCL_COMM_ID",
    }
)


@dataclass(frozen=True)
class LaunchSettings:
    """`launcher` is empty if the inventory does not set it: mpirun, then srun. `environment` is of NCCL."""

    launcher: Literal["", "mpirun", "srun"] = ""
    environment: Mapping[str, str] = field(default_factory=dict)


def launch_settings(node: Node) -> LaunchSettings:
    """The settings of a node.

    Raises:
        UsageError: a value is invalid, with the node's file and line.
    """
    given = str(node.expected.get("launcher", "")).lower()
    launcher = _SAME.get(given, given)
    if launcher not in ("", "mpirun", "srun"):
        raise _wrong(node, f"nodegate_launcher: {shown(given)} is not supported", did_you_mean(given, LAUNCHERS))
    return LaunchSettings(launcher, _environment(node))  # type: ignore[arg-type]


def _environment(node: Node) -> Mapping[str, str]:
    given = node.mapping("nccl_env")
    if given is None or len(given) > MOST_SETTINGS:
        raise _wrong(node, "nodegate_nccl_env must map NCCL_* variables to values", "{NCCL_SOCKET_IFNAME: eth0}")
    for name, value in given.items():
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise _wrong(node, f"nodegate_nccl_env: {shown(str(name))} is not an NCCL_* variable", "NCCL_SOCKET_IFNAME")
        if name in OURS:
            raise _wrong(node, f"nodegate_nccl_env: {name} is set by nodegate itself", "remove it")
        if isinstance(value, (dict, list, bool)) or not _VALUE.fullmatch(str(value)):
            raise _wrong(node, f"nodegate_nccl_env: {name} must be a number or one line of text", 'write "1", not true')
    return {name: str(value) for name, value in given.items()}


def _wrong(node: Node, message: str, hint: str) -> UsageError:
    file, _, line = node.origin.rpartition(":")
    if not line.isdigit():
        file, line = node.origin, "0"
    return UsageError(f"{node.name}: {message}", file=file, line=int(line), hint=hint)
