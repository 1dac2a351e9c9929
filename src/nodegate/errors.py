"""The errors that nodegate reports: bad input, a node that cannot be reached, a fact that cannot be read."""

from collections.abc import Callable
from typing import TypeVar

from nodegate.unknown import Why

T = TypeVar("T")


class UsageError(Exception):
    """Bad input from the user: one clear message with file, line and what to do. Never a traceback.

    Args:
        message: what is wrong, in one sentence.
        file: the file that it is in, as the user named it.
        line: its line, from 1.
        hint: what to do about it.
    """

    def __init__(self, message: str, *, file: str = "", line: int = 0, hint: str = "") -> None:
        self.message, self.file, self.line, self.hint = message, file, line, hint
        where = f"{file}:{line}: " if line else f"{file}: " if file else ""
        super().__init__(f"{where}{message}" + (f" - {hint}" if hint else ""))


class CannotMeasure(Exception):  # noqa: N818 - reads as the sentence that it raises
    """A fact that could not be read: verdict `error`, never `pass` and never `fail`.

    Args:
        reason: why not, in one line.
        next_step: what a technician or operator should do.
        blocked_by: the check whose failure prevented the measurement; empty for none.
        lacks: the code of what was not there, as a finding has it; empty where only this one reading lacks it.
        whose: the node or host that it is about. Its name then begins `reason`; `bare` is the reason without it.
    """

    def __init__(self, reason: str, *, next_step: str, blocked_by: str = "", lacks: str = "", whose: str = "") -> None:
        self.bare, self.whose = reason, whose
        reason = f"{whose}: {reason}" if whose else reason
        self.reason, self.next_step, self.blocked_by, self.lacks = reason, next_step, blocked_by, lacks
        super().__init__(f"{reason} - {next_step}")


END_OF_THE_RUN = "end of the run"  # the code of what is lacking where a run was ended before its time
TOOL = "tool "  # how the code of a program that is lacking begins


class NotApplicable(Exception):  # noqa: N818
    """Nothing is judged: verdict `skip`, with the reason. Raised by itself it says only that this was not looked at.

    Attributes:
        why: what the silence means; only `by_design` and `not_demanded` leave a claim closed.
        witness: who says that it is by design: a platform's file, the order, the device itself.
    """

    why, witness = Why.NOT_DONE, ""


class NotDone(NotApplicable):
    """It applies, but this run did not measure it: no partner, no tool, left out."""


class NotDemanded(NotApplicable):
    """Neither the platform nor the order nor a contract asks for it."""

    why = Why.NOT_DEMANDED


class ByDesign(NotApplicable):
    """This kind of node or part has no such thing, and `witness` says so."""

    why = Why.BY_DESIGN

    def __init__(self, reason: str, *, witness: str) -> None:
        self.witness = witness
        super().__init__(reason)


class NotJudged(Exception):  # noqa: N818
    """The check applies, but nothing says what is right (no limit, no peers): verdict `not-judged`, with the reason."""


UNREACHABLE_KINDS = frozenset(
    (
        "unresolved", "refused", "no-route", "timeout", "host-key-unknown", "host-key-changed", "authentication",
        "no-sudo", "no-python", "dropped", "jump-host", "configuration",
    )
)  # fmt: skip


class Unreachable(CannotMeasure):
    """The node could not be reached or refused access.

    `kind` is one of `UNREACHABLE_KINDS`.
    """

    def __init__(self, kind: str, reason: str, *, next_step: str, whose: str = "") -> None:
        self.kind = kind
        super().__init__(reason, next_step=next_step, whose=whose)


def tried(do: Callable[[], T]) -> T | CannotMeasure:
    """What it gives, or why it gives nothing. Raises Unreachable where the connection broke."""
    try:
        return do()
    except Unreachable:
        raise
    except CannotMeasure as why:
        return why


class Busy(CannotMeasure):
    """Another run holds the node, or a job is on it: it must not be disturbed now."""
