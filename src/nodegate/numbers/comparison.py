"""The outcome of comparing a measured number with one reference."""

import math
from dataclasses import dataclass

from nodegate.records.finding import AnyLimit
from nodegate.records.verdict import Verdict

_MOST = 1e12  # in every unit of measurement here far beyond any machine; squares of it are still numbers


@dataclass(frozen=True)
class Comparison:
    """The outcome of one comparison; `said` is what the limit does not say.

    `notable`: a reason for not judging that is worth saying even when another comparison passes the value. `again`:
    nothing is said of it yet, but it has to be measured again.
    """

    verdict: Verdict
    comparison: str
    said: str = ""
    limit: AnyLimit | None = None
    notable: bool = False
    again: bool = False


def nothing(comparison: str) -> Comparison:
    """This comparison has nothing to say."""
    return Comparison(Verdict.SKIP, comparison)


def believable(value: float) -> bool:
    """Whether a number can be a measurement at all: a node may send anything."""
    return math.isfinite(value) and 0 <= value < _MOST


def number(value: object) -> str:
    """A number as people read it, to four digits: 483.2, 1979, 2333."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return str(value)
    return f"{value:.0f}" if 1000 <= abs(value) < 1e15 else f"{value:.4g}"


def shown(value: object, unit: str) -> str:
    """A number with its unit."""
    return f"{number(value)} {unit}".rstrip()
