"""What to do with the job, as a program can act on it: wait, stop, restart or fix, and which nodes to leave out."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from nodegate.knowledge.words import Cause


class Do(str, Enum):
    """What to do with the job."""

    WAIT = "wait"  # nothing shows that it ended: it goes on, or waits for its nodes
    STOP = "stop"  # it holds its nodes and does not get on
    RESTART = "restart"  # start it again, without the nodes named
    FIX = "fix"  # it would fail again: change something first


# What Slurm or Kubernetes did with a job on purpose, or did not do yet.
_BY_KIND = {"slurm_limit": Do.RESTART, "k8s_preempted": Do.RESTART, "k8s_unschedulable": Do.WAIT}
_OF_NODES = (Cause.HARDWARE, Cause.FABRIC)


@dataclass(frozen=True)
class Advice:
    """What to do. `without` are nodes to leave out: only those of a fault that is sure."""

    do: Do
    without: tuple[str, ...]
    sure: bool

    @property
    def exclude(self) -> str:
        """The option for srun and sbatch; empty if no node is to be left out."""
        return f"--exclude={','.join(self.without)}" if self.without else ""

    def as_json(self) -> dict[str, object]:
        """The keys of `--json`."""
        return {"do": self.do.value, "without": list(self.without), "exclude": self.exclude, "sure": self.sure}


def advice(*, failed: bool, hangs: bool, kind: str, cause: Cause, sure: bool, nodes: Sequence[str]) -> Advice:
    """What to do: `kind` is the signature of the first error, `nodes` are those that it names."""
    if not failed:
        return Advice(Do.WAIT, (), sure)
    of_nodes = cause in _OF_NODES
    if kind in _BY_KIND:
        do = _BY_KIND[kind]
    elif hangs:
        do = Do.STOP
    else:
        do = Do.RESTART if of_nodes or cause is Cause.UNKNOWN else Do.FIX
    return Advice(do, tuple(nodes) if of_nodes and sure else (), sure)
