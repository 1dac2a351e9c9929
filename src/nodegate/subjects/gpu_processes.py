"""Whose the processes on a GPU are: the job's, foreign to it, or not known whose."""

from nodegate.node_side.load.residents import is_mps, is_resident
from nodegate.probe.gpu import Gpu
from nodegate.probe.jobs import Jobs, Owner
from nodegate.unknown import Unknown


def owners(gpu: Gpu, jobs: Jobs) -> dict[int, Owner]:
    """The owner of each process on this GPU by its number, without NVIDIA's own daemons."""
    found = () if isinstance(gpu.processes, Unknown) else gpu.processes
    by_mps = any(each.kind == "mps" or is_mps(each.name) for each in found)
    sliced = not isinstance(jobs.shared_gpus, Unknown) and gpu.uuid in jobs.shared_gpus
    pids = [each.pid for each in found if not is_resident(each.name)]
    return jobs.owners(pids, shared=gpu.mig_enabled is True or by_mps or sliced)
