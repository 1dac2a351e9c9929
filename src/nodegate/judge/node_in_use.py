"""Whether a node works for somebody now. A busy node is left alone at night."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nodegate.errors import CannotMeasure
from nodegate.node_side.load.residents import is_resident
from nodegate.unknown import Unknown

if TYPE_CHECKING:
    from nodegate.facts import NodeFacts


def busy_reason(facts: NodeFacts) -> str:
    """Who works on the node, in one line; empty when nobody is seen."""
    return _slurm(facts) or _processes(facts)


def _holders(facts: NodeFacts) -> str:
    """Where NVML tells nothing (driver updated under a running job, say): a process that holds a GPU's device node."""
    try:
        holders = facts.jobs.gpu_users
    except CannotMeasure:
        return ""
    found = [] if isinstance(holders, Unknown) else [each for each in holders if not is_resident(each.name)]
    return f"{found[0].name} (pid {found[0].pid}) holds a GPU, and NVML does not tell what it does" if found else ""


def _slurm(facts: NodeFacts) -> str:
    try:
        jobs = facts.jobs.slurm_jobs
    except CannotMeasure:
        return ""
    if isinstance(jobs, Unknown) or not jobs:
        return ""
    return f"Slurm job {', '.join(jobs[:3])} runs here"


def _processes(facts: NodeFacts) -> str:
    try:
        devices = facts.gpus.devices
    except CannotMeasure:
        return _holders(facts)
    found = [
        f"{process.name} (pid {process.pid}) on GPU {gpu.index}"
        for gpu in devices
        if not isinstance(gpu.processes, Unknown)
        for process in gpu.processes
        if not is_resident(process.name)
    ]
    more = f" and {len(found) - 1} more" if len(found) > 1 else ""
    return f"{found[0]}{more}" if found else ""
