"""What a prolog knows from Slurm of the job that is about to start."""

import pwd
from collections.abc import Mapping
from pathlib import Path

from nodegate.errors import UsageError
from nodegate.hook import slurm
from nodegate.inventory.hostlist import expand
from nodegate.scheduler.hold import NAME
from nodegate.scheduler.programs import NoAnswer

_ROOT = Path("/")


def is_our_hold(environ: Mapping[str, str], login: str) -> bool:
    """Whether the job is nodegate's own hold on the node: of this login (a name or a number), and by its name.

    Every user may give a job that name; the number of the login is from Slurm.
    """
    if not login or environ.get("SLURM_JOB_UID") != _number(login):
        return False
    try:
        return slurm.job_name(environ.get("SLURM_JOB_ID", "")) == NAME
    except NoAnswer:
        return False


def _number(login: str) -> str:
    try:
        return login if login.isdecimal() else str(pwd.getpwnam(login).pw_uid)
    except KeyError:
        return ""


def gets_every_gpu(environ: Mapping[str, str], root: Path = _ROOT) -> bool:
    """Whether the job has all GPUs of the node to itself (SLURM_JOB_GPUS), so that no other job can be on one.

    False where that is not certain: parts of GPUs (MIG) have numbers too, and shards and MPS share a GPU.
    """
    shared = any("SHARD" in name or "MPS" in name for name in environ)
    if shared or any(root.glob("proc/driver/nvidia/capabilities/gpu*/mig/gi*")):
        return False
    every = {path.name.removeprefix("nvidia") for path in root.glob("dev/nvidia[0-9]*")}
    return bool(every) and every == set(environ.get("SLURM_JOB_GPUS", "").split(","))


def may_open_port(environ: Mapping[str, str], name: str) -> bool:
    """Whether rank 0 of the job may be on this node: the first of its nodes (SLURM_JOB_NODELIST), or none is known."""
    try:
        return expand(environ.get("SLURM_JOB_NODELIST", ""))[:1] in ([], [name])
    except UsageError:
        return True
