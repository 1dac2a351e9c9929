"""The iteration times as a curve of bounded size, and as an SVG, which contains only numbers."""

from collections.abc import Sequence
from typing import NamedTuple

from nodegate.watch.answer import Slow, of_one

MOST_BUCKETS = 2000  # neighbouring points share a bucket once there are more
WIDTH, HEIGHT, LEFT, BELOW = 960, 260, 70, 24
TOP_OF_MEANS = 1.25  # the axis ends this far above the highest mean: one spike of minutes must not flatten the rest


class Bucket(NamedTuple):
    """Neighbouring points: their iterations, and the lowest, mean and highest seconds."""

    first: int
    last: int
    low: float
    mean: float
    high: float
    points: int


class Curve:
    """Buckets in the order of the log; one that begins before the last one ended begins a new run."""

    def __init__(self) -> None:
        self.buckets: list[Bucket] = []
        self._width = 1

    def add(self, first: int, last: int, seconds: float) -> None:
        """The next point."""
        open_one = self.buckets[-1] if self.buckets else None
        new = Bucket(first, last, seconds, seconds, seconds, 1)
        if open_one is None or open_one.points >= self._width or first < open_one.first:
            self.buckets.append(new)
        else:
            self.buckets[-1] = _joined(open_one, new)
        if len(self.buckets) > MOST_BUCKETS:
            self._width *= 2
            pairs = [self.buckets[at : at + 2] for at in range(0, len(self.buckets), 2)]
            self.buckets = [_joined(*pair) if len(pair) == 2 else pair[0] for pair in pairs]


def _joined(one: Bucket, other: Bucket) -> Bucket:
    points = one.points + other.points
    mean = (one.mean * one.points + other.mean * other.points) / points
    first, last = min(one.first, other.first), max(one.last, other.last)
    return Bucket(first, last, min(one.low, other.low), mean, max(one.high, other.high), points)


def plot(buckets: Sequence[Bucket], slow: Sequence[Slow], usual_s: float | None, per: str = "iteration") -> str:
    """SVG of the buckets in the order of the log, slow times shaded; its axes: iterations, ms of one `per`."""
    if not buckets:
        return ""
    top_s = max([usual_s or 0, *(bucket.mean for bucket in buckets)]) * TOP_OF_MEANS
    step = (WIDTH - LEFT) / len(buckets)

    def x(index: float) -> float:
        return LEFT + index * step

    def y(seconds: float) -> float:
        return (HEIGHT - BELOW) * (1 - min(seconds, top_s) / top_s)

    shades = ""
    for each in slow:
        until = buckets[-1].last if each.until is None else each.until
        if inside := [at for at, bucket in enumerate(buckets) if bucket.last >= each.since and bucket.first <= until]:
            left, right = x(inside[0]), x(inside[-1] + 1)
            shades += f'<rect class="slow" x="{left:.1f}" y="0" width="{right - left:.1f}" height="{HEIGHT - BELOW}"/>'
    spread = "".join(f"M{x(at + 0.5):.1f} {y(b.low):.1f}V{y(b.high) - 0.5:.1f}" for at, b in enumerate(buckets))
    mean = " ".join(f"{x(at + 0.5):.1f},{y(b.mean):.1f}" for at, b in enumerate(buckets))
    starts = [at for at in range(1, len(buckets)) if buckets[at].first <= buckets[at - 1].last]
    lines = "".join(f'<path class="start" d="M{x(at):.1f} 0V{HEIGHT - BELOW}"/>' for at in starts[:200])
    if usual_s is not None:
        lines += f'<path class="usual" d="M{LEFT} {y(usual_s):.1f}H{WIDTH}"/>'
    size = f'viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="times of one {per}"'
    return (
        f'<svg {size}>{shades}<path class="spread" d="{spread}"/><polyline class="mean" points="{mean}"/>'
        f"{lines}{_axes(buckets, top_s, of_one(per))}</svg>"
    )


def _axes(buckets: Sequence[Bucket], top_s: float, unit: str) -> str:
    marks = [f'<path class="axis" d="M{LEFT} 0V{HEIGHT - BELOW}H{WIDTH}"/>']
    for part in (0, 0.5, 1):
        y = (HEIGHT - BELOW) * (1 - part)
        middle, ms = min(HEIGHT - BELOW, y + 11), top_s * part * 1000
        label = f"{ms:,.0f} ms" if ms >= 100 or not ms else f"{ms:.3g} ms"
        if unit and part == 1:
            marks.append(f'<text x="{LEFT + 6}" y="{middle:.0f}">ms{unit}</text>')
        marks.append(f'<text x="{LEFT - 6}" y="{middle:.0f}" text-anchor="end">{label}</text>')
    for at, anchor in ((0, "start"), (len(buckets) // 2, "middle"), (len(buckets) - 1, "end")):
        x = LEFT + (WIDTH - LEFT) * (at + 0.5) / len(buckets)
        marks.append(f'<text x="{x:.0f}" y="{HEIGHT - 6}" text-anchor="{anchor}">{buckets[at].first}</text>')
    return "".join(marks)
