"""Jobs and processes on the node now. Section `jobs`."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from nodegate.probe import readings as read
from nodegate.text import shown
from nodegate.unknown import Known, Unknown, value_or

_SLURM = "Slurm job "
_STARTERS = (
    (_SLURM.strip(), re.compile(r"\bjob_([0-9]{1,12})\b")),  # .../job_4711/step_0, /slurm/uid_1/job_4711
    ("pod", re.compile(r"\bkubepods\S{0,200}?[/-]pod([0-9a-f][0-9a-f_-]{7,40})")),
    ("container", re.compile(r"(?:docker|libpod|containerd|crio)[/-]([0-9a-f]{12,64})\b")),
)
_LOGIN = re.compile(r"/user-[0-9]{1,10}\.slice\b")


class Whose(Enum):
    """Whether a process on a GPU belongs to the job there."""

    JOB = "the job's"
    FOREIGN = "foreign"
    UNKNOWN = "not known whose"


@dataclass(frozen=True)
class Owner:
    """Whose a process is, in words that follow those on the process; "" if nothing at all is known."""

    whose: Whose
    words: str


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
    shared_gpus: Known[tuple[str, ...]] = ()  # that Kubernetes gives to several pods, by UUID

    def owners(self, pids: Sequence[int], *, shared: bool = False) -> dict[int, Owner]:
        """Whose the processes of one GPU are. `shared`: several jobs may use it.

        Of several jobs the one with the most processes on the node is the job, and the others are foreign to it.
        """
        users = {} if isinstance(self.gpu_users, Unknown) else {each.pid: each for each in self.gpu_users}
        running = {pid: job for pid, user in users.items() if (job := self._running(user))}
        everywhere = list(running.values())
        main = max((running[pid] for pid in pids if pid in running), key=everywhere.count, default="")
        by_user = {users[pid].uid: job for pid, job in running.items() if job.startswith(_SLURM) and main in {"", job}}
        owners = {}
        for pid in pids:
            if pid not in running:
                owners[pid] = self._of_no_job(users.get(pid), main, by_user)
                continue
            own = shared or running[pid] == main
            words = f"for {running[pid]}, user {users[pid].uid}" + ("" if own else f", on the GPU of {main}")
            owners[pid] = Owner(Whose.JOB if own else Whose.FOREIGN, words)
        return owners

    def running(self, pid: int) -> str:
        """The job that a process belongs to and that still runs, in words; empty if none is known."""
        owner = self.owners([pid])[pid]
        return owner.words.removeprefix("for ") if owner.whose is Whose.JOB else ""

    def _of_no_job(self, user: DeviceUser | None, main: str, by_user: Mapping[int, str]) -> Owner:
        """A login of another user than the job's is foreign; a service, or what cannot be looked into, need not be."""
        slurm = () if isinstance(self.slurm_jobs, Unknown) else self.slurm_jobs
        here = f"not known whose; {_SLURM}{', '.join(slurm[:3])} runs here" if slurm else ""
        if user is None:
            return Owner(Whose.UNKNOWN, here)
        if user.job:
            return Owner(Whose.FOREIGN, f"left over of {user.job}, user {user.uid}")
        if user.uid in by_user:
            return Owner(Whose.JOB, f"for {by_user[user.uid]}, by its user {user.uid}")
        if (main or by_user) and (_LOGIN.search(user.cgroup) or (user.uid > 0 and not user.cgroup)):
            return Owner(Whose.FOREIGN, f"of user {user.uid}, of no job here")
        return Owner(Whose.UNKNOWN, here or ("not known whose" if main else ""))

    def _running(self, user: DeviceUser) -> str:
        """The job that started a process, if it still runs; a Slurm job without a step on the node does not."""
        number = user.job.removeprefix(_SLURM) if user.job.startswith(_SLURM) else ""
        if not number or isinstance(self.slurm_jobs, Unknown):
            return user.job
        return user.job if number in {each.partition("_")[0] for each in self.slurm_jobs} else ""


def parse(found: Mapping[str, object]) -> Jobs:
    """The data of section `jobs`."""
    return Jobs(
        slurm_jobs=read.mapped(read.items(found, "slurm"), lambda ids: tuple(map(shown, ids))),
        gpu_users=read.mapped(read.items(found, "gpu_users"), lambda users: tuple(_user(one) for one in users)),
        listening_ports=read.mapped(read.items(found, "listening_ports"), _ports),
        shared_gpus=read.mapped(read.items(found, "shared_gpus"), lambda uuids: tuple(map(shown, uuids))),
    )


def _user(entry: object) -> DeviceUser:
    """A holder that cannot be read is still a holder."""
    data = value_or(read.record(entry), {})
    pid, uid = value_or(read.integer(data, "pid"), 0), value_or(read.integer(data, "uid"), -1)
    return DeviceUser(pid, value_or(read.text(data, "comm"), "unknown"), uid, value_or(read.text(data, "cgroup"), ""))


def _ports(values: Sequence[object]) -> Known[frozenset[int]]:
    ports = [read.whole(value) for value in values]
    bad = next((port for port in ports if isinstance(port, Unknown)), None)
    return bad if bad is not None else frozenset(port for port in ports if not isinstance(port, Unknown))
