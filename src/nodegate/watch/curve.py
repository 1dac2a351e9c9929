"""The curve for the plot, of bounded size: neighbouring points share a bucket once there are too many."""

from typing import NamedTuple

MOST_BUCKETS = 2000


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
