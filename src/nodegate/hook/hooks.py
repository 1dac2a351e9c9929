"""Slurm's three hooks: what each does with the verdict on its node.

Only a verdict on the hardware blocks jobs. If nodegate could not tell (2) or another run holds the node (75), jobs
continue and it is logged, unless `strict`. A node that others have drained, or that is in another state, keeps its
state and its reason.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from nodegate.exit_codes import Exit
from nodegate.hook import current_verdict, job, slurm
from nodegate.hook.answer import Answer
from nodegate.hook.reason import reason

FRESH_S = 300.0
PORT = "; MASTER_PORT was not looked at"
NO_ANSWER = Answer(Exit.UNKNOWN, "could not tell")


@dataclass(frozen=True)
class HookOptions:
    """The site's settings for the hooks."""

    question: current_verdict.Question
    strict: bool = False
    fresh_s: float = FRESH_S
    resume: bool = False


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

    The node is drained here first, since Slurm's own reason would be "Prolog error"; if that fails, Slurm drains it.
    The job's own port is in the environment of its script alone: nodegate bootcheck looks at it there.
    """
    question = replace(asked.question, every_gpu=job.gets_every_gpu(os.environ))
    left_over = question.every_gpu and not question.exclusive  # the epilog did not look for it
    answer = current_verdict.answer(question, fresh_s=0.0 if left_over else asked.fresh_s)
    if _lets_work(answer, asked):
        is_fit = answer.exit is Exit.FIT
        port = PORT if is_fit and job.may_open_port(os.environ, _name()) else ""
        return HookResult(0, f"{answer.shown()}{port}", not is_fit, answer)
    _, done = _drain(answer)
    return HookResult(int(answer.exit), f"{answer.shown()}; {done}", answer=answer, done=done)


def epilog(asked: HookOptions) -> HookResult:
    """After a job. If the node is unfit and could not be drained, the exit code makes Slurm drain it."""
    return _between_jobs(current_verdict.answer(asked.question, fresh_s=0.0), asked)


def healthcheck(asked: HookOptions) -> HookResult:
    """At every HealthCheckInterval, also while jobs run."""
    answer = current_verdict.answer(replace(asked.question, exclusive=False), fresh_s=0.0)
    if answer.exit is Exit.FIT and asked.resume:
        return _resume(answer)
    return _between_jobs(answer, asked)


def _lets_work(answer: Answer, asked: HookOptions) -> bool:
    return answer.exit is Exit.FIT or (answer.exit is not Exit.UNFIT and not asked.strict)


def _between_jobs(answer: Answer, asked: HookOptions) -> HookResult:
    if _lets_work(answer, asked):
        return HookResult(0, answer.shown(), answer.exit is not Exit.FIT, answer)
    settled, done = _drain(answer)
    return HookResult(0 if settled else int(answer.exit), f"{answer.shown()}; {done}", answer=answer, done=done)


def _drain(answer: Answer) -> tuple[bool, str]:
    """Drain the node, unless others have drained it: whether it is done, and what was done."""
    try:
        node = slurm.node(_name())
        if node.is_drained:
            return True, "already drained" if node.is_ours else f"drained by others: {node.reason}"
        if node.not_in_service:
            return True, f"left alone: Slurm reports it as {node.not_in_service}"
        slurm.drain(_name(), reason(answer.line))
    except slurm.NoAnswer as said:
        return False, f"not drained: {said}"
    return True, "drained"


def _resume(answer: Answer) -> HookResult:
    """Resume the node if nodegate drained it, and only then."""
    try:
        node = slurm.node(_name())
        if not (node.is_drained and node.is_ours) or node.not_in_service:
            return HookResult(0, answer.shown(), is_news=False, answer=answer)
        slurm.undrain(_name())
        done = f"resumed, was {node.reason}"
    except slurm.NoAnswer as said:
        done = f"not resumed: {said}"
    return HookResult(0, f"{answer.shown()}; {done}", answer=answer, done=done)


def _name() -> str:
    """The node's name in Slurm."""
    return os.environ.get("SLURMD_NODENAME") or socket.gethostname().partition(".")[0]


HOOKS: dict[str, Hook] = {"slurm-prolog": prolog, "slurm-epilog": epilog, "slurm-healthcheck": healthcheck}
