"""A usual time that the user gives: `--usual 3.1s`, or that of an earlier run's log."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nodegate.watch.reading import Point

SETTINGS = {3: "global batch size", 4: "sequence length", 5: "number of ranks"}  # by their place in a point's key


@dataclass(frozen=True)
class Given:
    """What is usual by someone else's word.

    Args:
        name: where it comes from, as users read it.
        seconds: the time of an iteration (or sample, or token).
        per: what `seconds` is the time of.
        setting: the key of the earlier run's points; empty if only the time is known.
        tokens: of an iteration of the earlier run; None if it did not count them.
    """

    name: str
    seconds: float
    per: str = "iteration"
    setting: tuple[object, ...] = ()
    tokens: float | None = None

    def differs(self, point: Point, per: str) -> str:
        """Why these points cannot be compared with it; empty if they can."""
        if per != self.per:
            return f"{self.name} is the time of one {self.per}, this log has that of one {per}"
        for place, what in SETTINGS.items() if self.setting else ():
            there, here = self.setting[place], point.key[place]
            if there is not None and here is not None and there != here:
                return f"another {what}: {there} in {self.name}, {here} here"
        if self.setting and (self.tokens is None) != (point.tokens is None):
            return f"only one of the two counts tokens: {self.name} and this log"
        return ""

    def seconds_for(self, point: Point) -> float:
        """The time for as many tokens as an iteration of this point has."""
        return self.seconds * point.tokens / self.tokens if point.tokens and self.tokens else self.seconds
