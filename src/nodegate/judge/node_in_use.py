"""Whether a node is in use. A busy node is left alone at night."""

from nodegate.errors import CannotMeasure
from nodegate.facts import NodeFacts, known_or_none
from nodegate.node_side.probe.system import is_resident
from nodegate.probe.jobs import DeviceUser
from nodegate.unknown import Known, Unknown


def busy_reason(facts: NodeFacts) -> str:
    """Who uses the node, in one line; empty if it is idle."""
    return _slurm(facts) or _processes(facts)


def use_unknown(facts: NodeFacts) -> str:
    """Why the node may be in use although no user is seen, in one line; empty when all were looked for.

    Of a GPU whose processes cannot be listed, it is enough that only daemons have a GPU open: root sees that.
    """
    try:
        jobs = facts.jobs
    except CannotMeasure as said:
        return said.reason
    if isinstance(jobs.slurm_jobs, Unknown):
        return f"the Slurm jobs could not be read: {jobs.slurm_jobs}"
    unread = _processes_unread(facts)
    if not unread:
        return ""
    holders = _holders_in(jobs.gpu_users)
    if isinstance(holders, Unknown):
        return f"{unread}, nor who has a GPU open ({holders})"
    return f"{unread}, and {holders[0].name} (pid {holders[0].pid}) has a GPU open" if holders else ""


def _processes_unread(facts: NodeFacts) -> str:
    """That the processes on the GPUs, or on one, could not be listed; empty where they all were."""
    try:
        devices = facts.gpus.devices
    except CannotMeasure as said:
        return f"the processes on the GPUs could not be listed ({said.reason})"
    unread = [(gpu.index, gpu.processes) for gpu in devices if isinstance(gpu.processes, Unknown)]
    more = f" and {len(unread) - 1} more" if len(unread) > 1 else ""
    return f"the processes on GPU {unread[0][0]}{more} could not be listed ({unread[0][1]})" if unread else ""


def _holders_in(users: Known[tuple[DeviceUser, ...]]) -> Known[list[DeviceUser]]:
    """The processes with a GPU's device node open, without the daemons that hold one all day."""
    return users if isinstance(users, Unknown) else [each for each in users if not is_resident(each.name)]


def _holders(facts: NodeFacts) -> str:
    """Where NVML tells nothing (driver updated under a running job, say): a process that holds a GPU's device node."""
    jobs = known_or_none(lambda: facts.jobs)
    found = [] if jobs is None else _holders_in(jobs.gpu_users)
    if isinstance(found, Unknown) or not found:
        return ""
    return f"{found[0].name} (pid {found[0].pid}) holds a GPU, and NVML does not report what it does"


def _slurm(facts: NodeFacts) -> str:
    jobs = known_or_none(lambda: facts.jobs)
    if jobs is None or isinstance(jobs.slurm_jobs, Unknown) or not jobs.slurm_jobs:
        return ""
    return f"Slurm job {', '.join(jobs.slurm_jobs[:3])} runs here"


def _processes(facts: NodeFacts) -> str:
    gpus = known_or_none(lambda: facts.gpus)
    if gpus is None:
        return _holders(facts)
    found = [
        f"{process.name} (pid {process.pid}) on GPU {gpu.index}"
        for gpu in gpus.devices
        if not isinstance(gpu.processes, Unknown)
        for process in gpu.processes
        if not is_resident(process.name)
    ]
    more = f" and {len(found) - 1} more" if len(found) > 1 else ""
    return f"{found[0]}{more}" if found else ""
