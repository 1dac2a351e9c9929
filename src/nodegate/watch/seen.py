"""What a rule is given and what it answers."""

from dataclasses import dataclass
from typing import NamedTuple, Protocol


class Span(NamedTuple):
    """What a value stands for.

    How many `iterations` it covers, how many `seconds` of training (0: unknown), and whether it measured the last of
    these iterations `alone`.
    """

    iterations: int
    seconds: float
    alone: bool = False


ONE = Span(1, 0.0)


@dataclass(frozen=True)
class Seen:
    """The state of a rule after one more value: smoothed and baseline in the values' unit; slow or not.

    `worse`: with this value it became much slower than was reported.
    """

    smoothed: float
    baseline: float
    slow: bool
    worse: bool = False


class Rule(Protocol):
    """Takes the values of comparable points, one by one."""

    name: str
    smoothed_by: str
    needs: int

    def add(self, value: float, span: Span = ONE) -> Seen | None:
        """The next value; None while there are too few to judge."""

    def restart(self) -> None:
        """The process was started again: what is normal is remembered, the last values no longer count."""

    def window(self) -> int:
        """The number of values in the smoothed one."""
