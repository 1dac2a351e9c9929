"""What a rule answers."""

from dataclasses import dataclass
from typing import Protocol

from nodegate.watch.reading import ONE, Span


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
