"""Slurm's three hooks: what each does with the verdict on its node.

Only a verdict on the hardware blocks jobs. If nodegate could not tell (2) or another run holds the node (75), jobs
continue and it is logged, unless `strict`; between jobs a node that another run holds is left to it also then. A node
that others have drained, or that is in another state, keeps its state and its reason. Slurm drains the node of a hook
that fails, so none fails where nodegate may not drain it.
"""

import os
import socket
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from nodegate.exit_codes import Exit
from nodegate.hook import current_verdict, guard, job
from nodegate.hook.slurm import reason
from nodegate.hook.verdict_cache import Answer

FRESH_S = 300.0
PORT = "; MASTER_PORT was not looked at"
HELD = Answer(Exit.BUSY, "busy: held by a run of nodegate, which looks at it itself")
NO_ANSWER = Answer(Exit.UNKNOWN, "could not tell")


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
    if job.is_our_hold(os.environ, asked.user):
        return HookResult(0, HELD.shown(), is_news=False, answer=HELD)
    question = replace(asked.question, every_gpu=job.gets_every_gpu(os.environ))
    left_over = question.every_gpu and not question.exclusive  # the epilog did not look for it
    answer = current_verdict.answer(question, fresh_s=0.0 if left_over else asked.fresh_s)
    if _lets_work(answer, asked):
        is_fit = answer.exit is Exit.FIT
        port = PORT if is_fit and job.may_open_port(os.environ, _name()) else ""
        return HookResult(0, f"{answer.shown()}{port}", not is_fit, answer)
    done = _drain(answer, asked)
    return _told(answer, done, int(answer.exit) if done.is_out else 0)


def epilog(asked: HookOptions) -> HookResult:
    """After a job."""
    return _between_jobs(current_verdict.answer(asked.question, fresh_s=0.0), asked)


def healthcheck(asked: HookOptions) -> HookResult:
    """At every HealthCheckInterval, also while jobs run."""
    answer = current_verdict.answer(replace(asked.question, exclusive=False), fresh_s=0.0)
    if answer.exit is Exit.FIT and asked.resume:
        return _resume(answer, asked)
    return _between_jobs(answer, asked)


def _lets_work(answer: Answer, asked: HookOptions) -> bool:
    return answer.exit is Exit.FIT or (answer.exit is not Exit.UNFIT and not asked.strict)


def _between_jobs(answer: Answer, asked: HookOptions) -> HookResult:
    """Who holds the node looks at it itself; should a job come before that, its prolog asks again."""
    if answer.exit is Exit.BUSY or _lets_work(answer, asked):
        return HookResult(0, answer.shown(), answer.exit is not Exit.FIT, answer)
    return _told(answer, _drain(answer, asked))


def _told(answer: Answer, done: guard.Done, code: int = 0) -> HookResult:
    return HookResult(code, f"{answer.shown()}; {done.words}", answer=answer, done=done.code)


def _drain(answer: Answer, asked: HookOptions) -> guard.Done:
    return guard.drain(_name(), reason(answer.line), asked.rules)


def _resume(answer: Answer, asked: HookOptions) -> HookResult:
    """Resume the node if nodegate drained it, and only then."""
    done = guard.resume(_name(), asked.rules)
    if done is None:
        return HookResult(0, answer.shown(), is_news=False, answer=answer)
    return _told(answer, done)


def _name() -> str:
    """The node's name in Slurm."""
    return os.environ.get("SLURMD_NODENAME") or socket.gethostname().partition(".")[0]


HOOKS: dict[str, Hook] = {"slurm-prolog": prolog, "slurm-epilog": epilog, "slurm-healthcheck": healthcheck}
