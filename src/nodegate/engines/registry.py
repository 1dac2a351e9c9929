"""The engines by their names, which are those of ansible_connection and of inventory sources (NAME:[...])."""

from __future__ import annotations

import os
import re
from importlib import import_module
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nodegate.engines.engine import Engine, Job, Member

# Each module has ENGINE, an `Engine`. Imported where a node is reached that way, and not before.
ENGINES: dict[str, str] = {
    "kubernetes": "nodegate.engines.kubernetes.engine",
    "slurm": "nodegate.engines.slurm.nodes",
}
SCHEDULER = "slurm"  # where nodes are reached in no engine's way
# How jobs are kept from nodes: a line for a shell with their names in one word or in several, and what to know first.
DRAINS: dict[str, tuple[str, str]] = {
    "slurm": (
        "scontrol update NodeName={folded} State=DRAIN Reason={reason}",
        "look at sinfo -R first: a reason that a node has there would be replaced",
    ),
    "kubernetes": (
        "kubectl taint nodes {names} nodegate.io/unfit={cause}:NoSchedule --overwrite",
        "pods that run go on; nodegate kubernetes verdict --mode enforce sets the same taint and removes it",
    ),
}
_SOURCE = re.compile(r"([a-z]+):(?:\[([^\[\]]*)\]|([^\[\]]*))")
# What has members(words), the pods of a job that the words of a source name (job:NAME), as `Member`s.
PODS = {"kubernetes": "nodegate.engines.kubernetes.members"}


def engine(name: str) -> Engine:
    """The engine of this name, which must be one of `ENGINES`."""
    return cast("Engine", import_module(ENGINES[name]).ENGINE)


def named(source: str) -> tuple[str, list[str]] | None:
    """The engine's name and the words of a source NAME:[WORD,...]; None where it is a file or something else."""
    found = _SOURCE.fullmatch(source)
    if found is None or found[1] not in ENGINES or os.path.lexists(source):
        return None
    return found[1], [each for each in (found[2] or found[3] or "").split(",") if each]


def pods_of(source: str) -> Sequence[Member] | None:
    """The pods of the job that a source names, in their order; None where it names no engine that has any.

    Raises:
        UsageError: the engine does not answer, or knows no such job.
    """
    name, words = named(source) or ("", [])
    return cast("Sequence[Member]", import_module(PODS[name]).members_of(words)) if name in PODS else None


def job_here() -> Job:
    """The job that this process runs in.

    Raises:
        UsageError: it is in none.
    """
    here = import_module("nodegate.engines.slurm.allocation")  # the only scheduler with jobs of many nodes so far
    return cast("Job", here.Allocation.here())
