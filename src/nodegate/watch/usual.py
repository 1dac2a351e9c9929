"""What is usual for a job, and how much of a difference is its own noise: learned from blocks of its training time."""

from collections import deque
from collections.abc import Sequence
from itertools import islice
from statistics import fmean, median
from typing import NamedTuple

TOGETHER = 5  # blocks that are one entry of the history
FEWEST = 3  # entries before anything is judged
NEEDS = TOGETHER + FEWEST - 1  # blocks
MOST = 512  # entries over the whole run, of more each second one is kept; and last blocks, for their noise
SMOOTHED, FEWEST_SMOOTHED = 3, 6  # entries averaged for the drift, and how many such averages
QUARTILE = 0.6745  # standard deviations below the mean
OF_MEDIAN, OF_QUARTILE = 1.25, 1.36  # their deviations over that of a mean


class Noise(NamedTuple):
    """What is usual, with its `doubt`; the deviation of a block, and the `drift` that no longer window takes away."""

    usual: float
    block: float
    drift: float = 0.0
    doubt: float = 0.0

    def of(self, blocks: float) -> float:
        """The deviation of the median of a number of blocks from the usual pace."""
        return float((self.drift**2 + self.doubt**2 + (OF_MEDIAN * self.block) ** 2 / blocks) ** 0.5)


class Usual:
    """The history of a job, evenly over the whole run. The lower quartile of it is usual.

    A minimum would sink for ever, a median would follow a job that gets slower bit by bit. If a time is `given` that is
    faster, that is usual.
    """

    def __init__(self, given: float = 0) -> None:
        self.now: Noise | None = None
        self._given = given
        self._entries: list[tuple[float, float, float]] = []  # training time, middle, mean
        self._last: deque[float] = deque(maxlen=TOGETHER)
        self._paces: deque[float] = deque(maxlen=MOST)
        self._stride, self._skipped = 1, 0
        self._block_noise, self._noise_age = 0.0, 0

    def add(self, at_s: float, pace: float) -> None:
        """A block in which the job was not slow, and the training time at its end."""
        self._last.append(pace)
        self._paces.append(pace)
        self._noise_age += 1
        self._skipped += 1
        if len(self._last) == TOGETHER and self._skipped >= self._stride:
            self._skipped = 0
            self._entries.append((at_s, _middle(self._last), fmean(self._last)))
            if len(self._entries) > MOST:
                self._entries, self._stride = self._entries[::2], self._stride * 2
        self.now = self.noise()

    def forget_last(self) -> None:
        """The last blocks no longer belong to the next ones: a restart, or a slow time."""
        self._last.clear()

    def drop_after(self, at_s: float) -> None:
        """What came later was slow and is not usual; the first entries are always kept."""
        kept = [each for each in self._entries if each[0] <= at_s]
        self._entries = kept if len(kept) >= FEWEST else self._entries[:FEWEST]
        self.forget_last()
        self.now = self.noise()

    def noise(self, until_s: float = float("inf")) -> Noise | None:
        """What was usual up to then; None if too little is known."""
        if not self._block_noise or self._noise_age >= 20:
            self._block_noise, self._noise_age = _deviation_of_neighbours(self._paces), 0
        own = self._own([each for each in self._entries if each[0] <= until_s])
        if own is None and self._given and len(self._paces) >= NEEDS:
            return Noise(self._given, self._block_noise)
        return own._replace(usual=min(own.usual, self._given or own.usual)) if own else None

    def _own(self, entries: Sequence[tuple[float, float, float]]) -> Noise | None:
        if len(entries) < FEWEST:
            return None
        in_time = [middle for _, middle, _ in entries]
        old = sorted(in_time)
        low, block = old[len(old) // 4], self._block_noise
        spread, of_middle = _spread(old) / low, OF_MEDIAN * block / TOGETHER**0.5
        by_chance = min(of_middle, spread)
        usual = max(
            low * (1 + QUARTILE * by_chance),  # where middles differ by chance only, their quartile is too low
            sorted(mean for _, _, mean in entries)[len(old) // 4],  # with the pauses that each entry has
        )
        drift = max(0.0, spread**2 - by_chance**2, _slow_spread(in_time) ** 2 - by_chance**2 / 2 / SMOOTHED) ** 0.5
        return Noise(usual, block, drift, OF_QUARTILE * max(spread, of_middle) / max(1.0, len(old) / TOGETHER) ** 0.5)


def _middle(values: deque[float]) -> float:
    """The mean of the middle half: as sturdy as a median, and exact where a clock in whole seconds made the values."""
    in_order = sorted(values)
    cut = len(in_order) // 4
    return fmean(in_order[cut : len(in_order) - cut])


def _slow_spread(in_time: Sequence[float]) -> float:
    """Deviation over mean of longer averages; of too few of them none."""
    apart = in_time[::TOGETHER]
    smooth = [fmean(apart[at : at + SMOOTHED]) for at in range(0, len(apart) - SMOOTHED + 1, SMOOTHED)]
    return _spread(sorted(smooth)) / fmean(smooth) if len(smooth) >= FEWEST_SMOOTHED else 0.0


def _deviation_of_neighbours(values: deque[float]) -> float:
    """Standard deviation over mean, from the differences of neighbours: spikes and steps do not lift it."""
    pairs = zip(values, islice(values, 1, None), strict=False)
    differences = [abs(one - other) / (one + other) * 2 for one, other in pairs]
    return median(differences) / 0.954 if differences else 0.0  # 0.6745 * sqrt(2)


def _spread(in_order: Sequence[float]) -> float:
    """Standard deviation from the middle half."""
    return (in_order[-1 - len(in_order) // 4] - in_order[len(in_order) // 4]) / 1.349
