"""A notice: what is sent to a target, as data and as text."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from nodegate.text import visible

_LONGEST = 400  # of a line
SCHEMA = "nodegate.notice/1"
MOST_ITEMS = 1000  # of each list of a notice; `counts` has them all


def one_line(text: str) -> str:
    """Text that may come from a node as one line, printable and bounded."""
    return visible(" ".join(text.split()), most=_LONGEST)


@dataclass(frozen=True, slots=True)
class Item:
    """One problem of one node."""

    node: str
    part: str
    serial: str
    condition: str
    severity: str
    message: str
    action: str


@dataclass(frozen=True, slots=True)
class Notice:
    """The body `nodegate.notice/1`.

    Args:
        run: the id of the run; empty where there was none.
        entrance: what was called: "pytest", "nightly", "notify", "watch", "job".
        profile: of the run.
        time: when it ended, UTC, as 2026-11-21T08:15:00Z.
        result: the worst verdict on a node, "interrupted", "nothing-judged", or the kind of an event.
        new: problems that the target was not sent before, worst first.
        still: those that it was sent before and that are still there.
        gone: those that it was sent before and that a run looked at and did not find.
        counts: nodes by verdict, "nodes", "new", "still", "gone", and "unseen": problems that were not looked at again.
        text: the same for people, in lines; the first says who, what and the result.
    """

    run: str
    entrance: str
    profile: str
    time: str
    result: str
    new: tuple[Item, ...] = ()
    still: tuple[Item, ...] = ()
    gone: tuple[Item, ...] = ()
    counts: Mapping[str, int] = field(default_factory=dict)
    text: str = ""

    @property
    def title(self) -> str:
        """The first line of the text."""
        return self.text.partition("\n")[0]

    def document(self) -> dict[str, Any]:
        """The body as JSON takes it."""
        return {"schema": SCHEMA, **asdict(self)}
