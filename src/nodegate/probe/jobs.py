"""Jobs and processes on the node now. Section `jobs`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nodegate.probe import readings as read
from nodegate.text import shown
from nodegate.unknown import Known, Unknown, value_or

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


_STARTERS = (
    ("Slurm job", re.compile(r"\bjob_([0-9]{1,12})\b")),  # .../slurmstepd.scope/job_4711/step_0, /slurm/uid_1/job_4711
    ("pod", re.compile(r"\bkubepods\S{0,200}?[/-]pod([0-9a-f][0-9a-f_-]{7,40})")),
    ("container", re.compile(r"(?:docker|libpod|containerd|crio)[/-]([0-9a-f]{12,64})\b")),
)


@dataclass(frozen=True)
class DeviceUser:
    """A process that has a GPU's device node open."""

    pid: int
    name: str
    uid: int
    cgroup: str = ""  # the text of /proc/PID/cgroup; empty if it could not be read

    @property
    def job(self) -> str:
        """What started it: "Slurm job 4711", "pod 3f2a...", "container 1a2b..."; empty if its cgroup does not say."""
        for word, pattern in _STARTERS:
            if found := pattern.search(self.cgroup):
                return f"{word} {found[1].replace('_', '-') if word == 'pod' else found[1][:12]}"
        return ""


@dataclass(frozen=True)
class Jobs:
    """What runs on the node now."""

    slurm_jobs: Known[tuple[str, ...]]
    gpu_users: Known[tuple[DeviceUser, ...]]
    listening_ports: Known[frozenset[int]]

    def running(self, pid: int) -> str:
        """The job that a process belongs to and that still runs, in words; empty if none is known.

        A process of a Slurm job that has no step on the node any more is left over. Where the process cannot be looked
        into, the Slurm job that runs here is as good as its own.
        """
        slurm = () if isinstance(self.slurm_jobs, Unknown) else self.slurm_jobs
        users = () if isinstance(self.gpu_users, Unknown) else self.gpu_users
        user = next((each for each in users if each.pid == pid), None)
        if user is None or not user.job:
            return f"Slurm job {', '.join(slurm[:3])}" if slurm else ""
        if user.job.startswith("Slurm job ") and user.job.split()[-1] not in {each.partition("_")[0] for each in slurm}:
            return ""
        return f"{user.job}, user {user.uid}"


def parse(found: Mapping[str, object]) -> Jobs:
    """The data of section `jobs`."""
    return Jobs(
        slurm_jobs=read.mapped(read.items(found, "slurm"), lambda ids: tuple(map(shown, ids))),
        gpu_users=read.mapped(read.items(found, "gpu_users"), lambda users: tuple(_user(one) for one in users)),
        listening_ports=read.mapped(read.items(found, "listening_ports"), _ports),
    )


def _user(entry: object) -> DeviceUser:
    """A holder that cannot be read is still a holder."""
    data = value_or(read.record(entry), {})
    return DeviceUser(
        pid=value_or(read.integer(data, "pid"), 0),
        name=value_or(read.text(data, "comm"), "unknown"),
        uid=value_or(read.integer(data, "uid"), -1),
        cgroup=value_or(read.text(data, "cgroup"), ""),
    )


def _ports(values: Sequence[object]) -> Known[frozenset[int]]:
    ports = [read.whole(value) for value in values]
    bad = next((port for port in ports if isinstance(port, Unknown)), None)
    return bad if bad is not None else frozenset(port for port in ports if not isinstance(port, Unknown))
