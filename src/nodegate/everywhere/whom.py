"""Which nodes are asked: those of the inventory, of a job of Slurm, or names as they are typed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from nodegate.errors import UsageError
from nodegate.inventory import inventory
from nodegate.inventory.hostlist import expand, fold
from nodegate.scheduler.jobs import Job, job_of, slurm_name
from nodegate.scheduler.programs import NoAnswer

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import TextIO

    from nodegate.inventory.inventory import Inventory
    from nodegate.node import Node

_HOW = "give --inventory FILE, --job ID, or --nodes 'gpu[1-8]'"


@dataclass(frozen=True)
class Whom:
    """The nodes to ask, what the user should know of them, the job, and its nodes that the inventory lacks."""

    nodes: tuple[Node, ...]
    notes: tuple[str, ...] = ()
    job: Job | None = None
    absent: tuple[str, ...] = ()


def whom(sources: Sequence[str], pattern: str, job: str, stdin: TextIO | None = None) -> Whom:
    """The nodes to ask.

    Args:
        sources: values of --inventory; none: nodes are reached by `ssh NAME`.
        pattern: --nodes; empty: all.
        job: --job; empty: none.
        stdin: for `--inventory -`.

    Raises:
        UsageError: the inventory is wrong, Slurm does not know the job, or there is no node.
    """
    found = None
    try:
        found = job_of(job) if job else None
    except NoAnswer as said:
        raise UsageError(f"--job {job}: {said}", hint="is it over? name its nodes: --nodes 'gpu[1-8]'") from None
    if not sources:
        names = _named(pattern, found)
        read = inventory.read([f"{','.join(names)},"])
        return Whom(read.nodes, read.notes, found)
    read = inventory.read(sources, stdin=stdin)
    nodes = read.select(pattern) if pattern else read.nodes if found is None else ()
    if found is None:
        return Whom(nodes, read.notes)
    return _of_job(read, found, {node.name for node in nodes} if pattern else None)


def _named(pattern: str, job: Job | None) -> list[str]:
    names = expand(pattern) if pattern else list(job.nodes) if job else []
    if job and pattern:
        names = [name for name in job.nodes if name in names]
    if not names:
        raise UsageError("no node is named" if not pattern else f"no node of {pattern}", hint=_HOW)
    return names


def _of_job(read: Inventory, job: Job, chosen: set[str] | None) -> Whom:
    """The nodes of the inventory that a job runs on; `chosen` are the only ones that are asked for."""
    by_slurm = {slurm_name(node): node for node in read.nodes}
    nodes = [by_slurm[name] for name in job.nodes if name in by_slurm]
    absent = tuple(name for name in job.nodes if name not in by_slurm) if chosen is None else ()
    nodes = [node for node in nodes if chosen is None or node.name in chosen]
    if not nodes:
        raise UsageError(f"job {job.id} runs on {fold(job.nodes)}: none of them is asked for", hint=_HOW)
    return Whom(tuple(nodes), read.notes, job, absent)
