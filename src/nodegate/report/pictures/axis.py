"""Where a value lies on a picture, without one far value pressing the others into a corner."""

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

_ENDS = 20  # the lowest and the highest twentieth do not say how wide an axis is
_ROOM = 2.0  # but are drawn where they lie within so many widths of the rest; what is further off stands at the edge
_NEAR = 0.1  # of the median: a limit within it is drawn, so that a reader sees the margin


@dataclass(frozen=True, slots=True)
class Axis:
    """From `low` to `high` over `size` pixels."""

    low: float
    high: float
    size: float

    def at(self, value: float) -> float:
        """Pixels from the start; a value beyond an end is at that end."""
        return self.size * min(1.0, max(0.0, (value - self.low) / (self.high - self.low)))

    def holds(self, value: float) -> bool:
        """Whether the value is on the axis."""
        return self.low <= value <= self.high


def axis(values: Sequence[float], size: float, *marks: float | None) -> Axis:
    """The axis of sorted values and of the marks (limits) that are not far from them."""
    cut = len(values) // _ENDS
    inner = values[cut : len(values) - cut]
    room = _ROOM * ((inner[-1] - inner[0]) or abs(inner[0]) * 0.01 or 1.0)
    low, high = max(values[0], inner[0] - room), min(values[-1], inner[-1] + room)
    reach = max(room, _NEAR * abs(values[len(values) // 2]))
    near = [mark for mark in marks if mark is not None and low - reach <= mark <= high + reach]
    low, high = min(low, *near, low), max(high, *near, high)
    edge = (high - low) * 0.02 or abs(high) * 0.01 or 1.0
    return Axis(low - edge, high + edge, size)


def svg(width: float, height: float, drawn: str, said: str = "", style: str = "") -> Markup:
    """The picture; `said` is what it shows, for those who do not see it, escaped by the caller."""
    about = f'role="img" aria-label="{said}"' if said else 'aria-hidden="true"'
    kind = f' class="{style}"' if style else ""
    size = f'width="{width:g}" height="{height:g}" viewBox="0 0 {width:g} {height:g}"'
    return Markup(f"<svg {size} {about}{kind}>{drawn}</svg>")  # noqa: S704 - callers escape what is not ours
