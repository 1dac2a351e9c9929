"""Programs run on a node for a measurement: their results are kept unchanged, to be parsed and checked by people."""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise

from nodegate.errors import CannotMeasure
from nodegate.records.program_run import Attempt, MissingRail, Plan, ProgramRun
from nodegate.transport.session import Session

MAX_KEPT = 96 << 10  # characters of each stream; of a longer one the first two thirds and the end are kept
_LEFT_OUT = "\n[... {count} characters left out by nodegate ...]\n"
_NO_PLAN = Plan()


def run(
    session: Session,
    what: str,
    argv: Sequence[str],
    *,
    timeout_s: float,
    stdin: bytes = b"",
    plan: Plan = _NO_PLAN,
    shortened: Callable[[str], str] | None = None,
) -> ProgramRun:
    """Run a program on a node and keep its result for the evidence: its output `shortened`, as text, and bounded.

    Raises:
        Unreachable: the connection broke.
    """
    started = time.time()
    output = session.run(argv, timeout_s=timeout_s, stdin=stdin)
    if shortened:
        output = replace(output, stdout=shortened(output.stdout.decode("utf-8", "replace")).encode())
    return ProgramRun(
        what=what,
        argv=tuple(argv),
        stdout=_bounded(output.stdout),
        stderr=_bounded(output.stderr),
        exit_code=output.exit_code,
        timed_out=output.timed_out,
        truncated=output.truncated or max(len(output.stdout), len(output.stderr)) > MAX_KEPT,
        stuck=output.stuck,
        started_epoch_s=round(started, 3),
        duration_s=round(output.duration_s, 3),
        plan=plan,
    )


def not_run(what: str, why: CannotMeasure, plan: Plan = _NO_PLAN) -> ProgramRun:
    """A program that could not be run: kept too, so that its absence is never taken for a pass."""
    return ProgramRun(what, cannot=why.bare, next_step=why.next_step, plan=plan, lacks=why.lacks, whose=why.whose)


def not_begun(why: CannotMeasure) -> Attempt:
    """An attempt in which nothing could be run."""
    return Attempt(cannot=why.bare, next_step=why.next_step, lacks=why.lacks, whose=why.whose)


def reason(of: ProgramRun | Attempt | MissingRail) -> CannotMeasure:
    """Why a program or a whole attempt did not run, or a rail is not measured."""
    step = of.next_step or "measure this node again"
    return CannotMeasure(of.cannot, next_step=step, lacks=of.lacks, whose=of.whose)


def option(ran: ProgramRun, name: str) -> str:
    """The value of an option in a command line; empty where it has none."""
    return next((value for word, value in pairwise(ran.argv) if word == name), "")


def count_asked(ran: ProgramRun, name: str) -> int:
    """The number that an option asks for; 0 where the command line, which was read from a file, names none."""
    text = option(ran, name)
    return int(text) if text.isascii() and text.isdigit() and len(text) < 12 else 0


def check_end(ran: ProgramRun, what: str, *, document: bool) -> None:
    """Check that one of nodegate's programs ended normally. If it sent a `document`, its exit code means nothing more.

    Raises:
        CannotMeasure: it did not run, did not end or failed; `what` is its name in a message ("the burn").
    """
    if ran.cannot:
        raise reason(ran)
    if ran.timed_out or ran.stuck:
        raise unended(ran, what)
    if ran.exit_code != 0 and not document:
        last = next((line for line in reversed(ran.stderr.splitlines()) if line.strip()), "it printed nothing")
        raise CannotMeasure(
            f"{what} ended with exit code {ran.exit_code}: {last[:160]}", next_step="read the evidence file"
        )


def unended(ran: ProgramRun, what: str) -> CannotMeasure:
    """The message for a program that did not end within its time limit."""
    held = f"; still there: {', '.join(ran.stuck)}" if ran.stuck else ""
    return CannotMeasure(
        f"{what} did not end within {ran.duration_s:.0f} s{held}",
        next_step="look for processes in D state on the node, then power-cycle it",
    )


def _bounded(raw: bytes) -> str:
    text = raw.decode("utf-8", "replace")
    if len(text) <= MAX_KEPT:
        return text
    head, tail = MAX_KEPT * 2 // 3, MAX_KEPT // 3
    return text[:head] + _LEFT_OUT.format(count=len(text) - head - tail) + text[-tail:]
