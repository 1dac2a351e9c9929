"""One program that ran on a node for a measurement, kept unchanged: what parsers read and people can check."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from nodegate.errors import CannotMeasure

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nodegate.transport.session import Output, Session

MAX_KEPT = 96 << 10  # characters of each stream; of a longer one the first two thirds and the end are kept
_LEFT_OUT = "\n[... {count} characters left out by nodegate ...]\n"


@dataclass(frozen=True)
class ProgramRun:
    """The result of a program, or why it did not run (`cannot`; then there is no output).

    `what` says which part of the measurement it is ("all_reduce", "all_reduce ring", "ib_write_bw"); `labels` what it
    was for ("device": "mlx5_0", "peer": "gpu07", "peer_device": "mlx5_0", "role": "client", "round": "2").
    `exit_code` is None if nodegate ended it. Times are seconds, by the controller's clock.
    """

    what: str
    argv: tuple[str, ...] = ()
    stdout: str = ""
    stderr: str = ""
    exit_code: int | None = None
    timed_out: bool = False
    truncated: bool = False
    stuck: tuple[str, ...] = ()
    started_epoch_s: float = 0.0
    duration_s: float = 0.0
    labels: Mapping[str, str] = field(default_factory=dict)
    cannot: str = ""
    next_step: str = ""
    lacks: str = ""
    whose: str = ""

    @property
    def why_not(self) -> str:
        """Why it did not run, with the node that it is about; empty if it did."""
        return f"{self.whose}: {self.cannot}" if self.whose else self.cannot

    def to_json(self) -> dict[str, object]:
        """Its form in evidence; empty values are left out, but never an exit code of 0."""
        whole: dict[str, object] = {
            "argv": list(self.argv),
            "stdout": self.stdout,
            "stderr": self.stderr,
            "exit_code": self.exit_code,
            "timed_out": self.timed_out or None,
            "truncated": self.truncated or None,
            "stuck": list(self.stuck),
            "started_epoch_s": round(self.started_epoch_s, 3),
            "duration_s": round(self.duration_s, 3),
            "labels": dict(self.labels),
            "cannot": self.cannot,
            "next_step": self.next_step,
            "lacks": self.lacks,
            "whose": self.whose,
        }
        return {"what": self.what, **{name: value for name, value in whole.items() if value not in ("", [], {}, None)}}


def run(
    session: Session,
    what: str,
    argv: Sequence[str],
    *,
    timeout_s: float,
    stdin: bytes = b"",
    as_root: bool = False,
    labels: Mapping[str, str] | None = None,
) -> ProgramRun:
    """Run a program on a node and keep its result.

    Raises:
        Unreachable: the connection broke.
    """
    started = time.time()
    output = session.run(argv, timeout_s=timeout_s, stdin=stdin, as_root=as_root)
    return kept(what, argv, output, started_epoch_s=started, labels=labels or {})


def kept(
    what: str, argv: Sequence[str], output: Output, *, started_epoch_s: float, labels: Mapping[str, str]
) -> ProgramRun:
    """An output for the evidence: text, bounded."""
    return ProgramRun(
        what=what,
        argv=tuple(argv),
        stdout=_bounded(output.stdout),
        stderr=_bounded(output.stderr),
        exit_code=output.exit_code,
        timed_out=output.timed_out,
        truncated=output.truncated or max(len(output.stdout), len(output.stderr)) > MAX_KEPT,
        stuck=output.stuck,
        started_epoch_s=started_epoch_s,
        duration_s=output.duration_s,
        labels=labels,
    )


def not_run(what: str, why: CannotMeasure, labels: Mapping[str, str] | None = None) -> ProgramRun:
    """A part of a measurement that failed: kept too, so that its absence is never taken for a pass."""
    return ProgramRun(
        what, labels=labels or {}, cannot=why.bare, next_step=why.next_step, lacks=why.lacks, whose=why.whose
    )


def refusal_of(ran: ProgramRun) -> CannotMeasure:
    """Why it did not run, as it was raised."""
    step = ran.next_step or "measure this node again"
    return CannotMeasure(ran.cannot, next_step=step, lacks=ran.lacks, whose=ran.whose)


def check_end(ran: ProgramRun, what: str, *, document: bool) -> None:
    """Check that one of nodegate's programs ended normally. If it sent a `document`, its exit code means nothing more.

    Raises:
        CannotMeasure: it did not run, did not end or failed; `what` is its name in a message ("the burn").
    """
    if ran.cannot:
        raise refusal_of(ran)
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


def from_json(value: object) -> ProgramRun:
    """A ProgramRun from evidence, whatever the file contains.

    Raises:
        CannotMeasure: it is malformed.
    """
    if not isinstance(value, dict) or not isinstance(value.get("what"), str):
        raise CannotMeasure("the evidence file is malformed", next_step="measure this node again")

    def text(name: str) -> str:
        found = value.get(name, "")
        return found if isinstance(found, str) else str(found)[:MAX_KEPT]

    def texts(name: str) -> tuple[str, ...]:
        found = value.get(name)
        return tuple(str(each) for each in found) if isinstance(found, list) else ()

    def number(name: str) -> float:
        found = value.get(name)
        return float(found) if isinstance(found, (int, float)) and abs(found) < 1e12 else 0.0

    code, labels = value.get("exit_code"), value.get("labels")
    return ProgramRun(
        what=text("what"),
        argv=texts("argv"),
        stdout=text("stdout"),
        stderr=text("stderr"),
        exit_code=code if isinstance(code, int) and not isinstance(code, bool) else None,
        timed_out=value.get("timed_out") is True,
        truncated=value.get("truncated") is True,
        stuck=texts("stuck"),
        started_epoch_s=number("started_epoch_s"),
        duration_s=number("duration_s"),
        labels={str(name): str(each) for name, each in labels.items()} if isinstance(labels, dict) else {},
        cannot=text("cannot"),
        next_step=text("next_step"),
        lacks=text("lacks"),
        whose=text("whose"),
    )


def _bounded(raw: bytes) -> str:
    text = raw.decode("utf-8", "replace")
    if len(text) <= MAX_KEPT:
        return text
    head, tail = MAX_KEPT * 2 // 3, MAX_KEPT // 3
    return text[:head] + _LEFT_OUT.format(count=len(text) - head - tail) + text[-tail:]
