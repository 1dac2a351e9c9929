"""Slurm's three hooks: what each does with the verdict on its node.

Only a verdict on the hardware blocks jobs. If nodegate could not tell (2) or another run holds the node (75), jobs
continue and it is logged, unless `strict`; between jobs a node that another run holds is left to it also then. A node
that others have drained, or that is in another state, keeps its state and its reason. Slurm drains the node of a hook
that fails, so none fails where nodegate may not drain it.
"""

import os
import pwd
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from nodegate.errors import UsageError
from nodegate.exit_codes import Exit
from nodegate.hook import current_verdict, guard, slurm
from nodegate.hook.current_verdict import Answer
from nodegate.inventory.hostlist import expand
from nodegate.scheduler.hold import NAME
from nodegate.scheduler.programs import NoAnswer

FRESH_S = 300.0
PORT = "; MASTER_PORT was not looked at"
HELD = Answer(Exit.BUSY, "busy: held by a run of nodegate, which looks at it itself")
NO_ANSWER = Answer(Exit.UNKNOWN, "could not tell")
_ROOT = Path("/")


@dataclass(frozen=True)
class HookOptions:
    """The site's settings for the hooks."""

    question: current_verdict.Question
    strict: bool = False
    fresh_s: float = FRESH_S
    resume: bool = False
    rules: guard.Rules = field(default_factory=guard.Rules)
    user: str = ""  # who holds nodes with nodegate


@dataclass(frozen=True)
class HookResult:
    """The hook's exit code, its one line, and whether that is news.

    `answer` is what it knew of its node, `done` what was done in Slurm, or why not; empty for nothing.
    """

    exit: int
    line: str
    is_news: bool = True
    answer: Answer = field(default=NO_ANSWER, compare=False)
    done: str = field(default="", compare=False)


Hook = Callable[[HookOptions], HookResult]


def prolog(asked: HookOptions) -> HookResult:
    """Before a job. An exit code other than 0 makes Slurm drain the node and requeue the job.

    The node is drained here first, since Slurm's own reason would be "Prolog error"; if it is not, the job starts.
    The job's own port is in the environment of its script alone: nodegate bootcheck looks at it there.
    """
    if is_our_hold(os.environ, asked.user):
        return HookResult(0, HELD.shown(), is_news=False, answer=HELD)
    question = replace(asked.question, every_gpu=gets_every_gpu(os.environ))
    left_over = question.every_gpu and not question.exclusive  # the epilog did not look for it
    answer = current_verdict.answer(question, fresh_s=0.0 if left_over else asked.fresh_s)
    if _lets_work(answer, asked):
        is_fit = answer.exit is Exit.FIT
        port = PORT if is_fit and may_open_port(os.environ, _name()) else ""
        return HookResult(0, f"{answer.shown()}{port}", not is_fit, answer)
    done = guard.drain(_name(), slurm.reason(answer.line), asked.rules)
    return _told(answer, done, int(answer.exit) if done.is_out else 0)


def epilog(asked: HookOptions) -> HookResult:
    """After a job."""
    return _between_jobs(current_verdict.answer(asked.question, fresh_s=0.0), asked)


def healthcheck(asked: HookOptions) -> HookResult:
    """At every HealthCheckInterval, also while jobs run."""
    answer = current_verdict.answer(replace(asked.question, exclusive=False), fresh_s=0.0)
    if answer.exit is Exit.FIT and asked.resume:
        done = guard.resume(_name(), asked.rules)  # if nodegate drained it, and only then
        return _told(answer, done) if done else HookResult(0, answer.shown(), is_news=False, answer=answer)
    return _between_jobs(answer, asked)


def _lets_work(answer: Answer, asked: HookOptions) -> bool:
    return answer.exit is Exit.FIT or (answer.exit is not Exit.UNFIT and not asked.strict)


def _between_jobs(answer: Answer, asked: HookOptions) -> HookResult:
    """Who holds the node looks at it itself; should a job come before that, its prolog asks again."""
    if answer.exit is Exit.BUSY or _lets_work(answer, asked):
        return HookResult(0, answer.shown(), answer.exit is not Exit.FIT, answer)
    return _told(answer, guard.drain(_name(), slurm.reason(answer.line), asked.rules))


def _told(answer: Answer, done: guard.Done, code: int = 0) -> HookResult:
    return HookResult(code, f"{answer.shown()}; {done.words}", answer=answer, done=done.code)


def _name() -> str:
    """The node's name in Slurm."""
    return os.environ.get("SLURMD_NODENAME") or socket.gethostname().partition(".")[0]


def is_our_hold(environ: Mapping[str, str], login: str) -> bool:
    """Whether the job is nodegate's own hold on the node: of this login (a name or a number), and by its name.

    Every user may give a job that name; the number of the login is from Slurm.
    """
    try:
        number = login if login.isdecimal() else str(pwd.getpwnam(login).pw_uid)
    except KeyError:
        return False
    if environ.get("SLURM_JOB_UID") != number:
        return False
    try:
        return slurm.job_name(environ.get("SLURM_JOB_ID", "")) == NAME
    except NoAnswer:
        return False


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


HOOKS: dict[str, Hook] = {"slurm-prolog": prolog, "slurm-epilog": epilog, "slurm-healthcheck": healthcheck}
