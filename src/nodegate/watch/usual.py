"""What is usual for a job, and how much of a difference is its own noise: learned from blocks of its training time."""

from __future__ import annotations

from collections import deque
from itertools import islice
from statistics import fmean, median
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

TOGETHER = 5  # blocks whose middle is one entry of the history
FEWEST = 3  # entries before anything is judged
NEEDS = TOGETHER + FEWEST - 1  # blocks
MOST_ENTRIES = 512  # over the whole run: when there are more, every second one is kept
SMOOTHED, FEWEST_SMOOTHED = 3, 6  # entries averaged for the drift, and how many such averages
QUARTILE = 0.6745  # standard deviations below the mean
OF_QUARTILE = 1.36  # its deviation over that of a mean
MOST_BLOCKS = 512  # the last ones, for the noise of a block


class Block(NamedTuple):
    """The pace of some neighbouring points of so many iterations; `at_s` is the training time at their end.

    `measured` are the iterations whose time is in the pace: fewer where each line measures its own iteration only.
    """

    at_s: float
    pace: float
    iterations: int = 1
    measured: int = 1


class Noise(NamedTuple):
    """What is usual, with its `doubt`; the deviation of a block, and the `drift` that no longer window takes away."""

    usual: float
    block: float
    drift: float
    doubt: float

    def of(self, blocks: int) -> float:
        """The deviation of the median of a number of blocks from the usual pace."""
        return float((self.drift**2 + self.doubt**2 + (1.25 * self.block) ** 2 / blocks) ** 0.5)


class Usual:
    """The history of a job: middles of blocks, evenly over the whole run. The lower quartile of them is usual.

    A minimum would sink for ever, a median would follow a job that gets slower bit by bit.
    """

    def __init__(self) -> None:
        self.blocks = 0
        self._entries: list[Block] = []
        self._last: deque[float] = deque(maxlen=TOGETHER)
        self._paces: deque[float] = deque(maxlen=MOST_BLOCKS)
        self._stride, self._skipped = 1, 0
        self._block_noise, self._noise_age = 0.0, 0

    def add(self, block: Block) -> None:
        """A block in which the job was not slow."""
        self.blocks += 1
        self._last.append(block.pace)
        self._paces.append(block.pace)
        self._noise_age += 1
        self._skipped += 1
        if len(self._last) < TOGETHER or self._skipped < self._stride:
            return
        self._skipped = 0
        self._entries.append(Block(block.at_s, middle(self._last)))
        if len(self._entries) > MOST_ENTRIES:
            self._entries, self._stride = self._entries[::2], self._stride * 2

    def forget_last(self) -> None:
        """The last blocks no longer belong to the next ones: a restart, or a slow time."""
        self._last.clear()

    def drop_after(self, at_s: float) -> None:
        """What came later was slow and is not usual; the first entries are always kept."""
        kept = [each for each in self._entries if each.at_s <= at_s]
        self._entries = kept if len(kept) >= FEWEST else self._entries[:FEWEST]
        self.forget_last()

    def noise(self, until_s: float = float("inf")) -> Noise | None:
        """What was usual up to then; None if too little is known."""
        in_time = [each.pace for each in self._entries if each.at_s <= until_s]
        if len(in_time) < FEWEST:
            return None
        old = sorted(in_time)
        if not self._block_noise or self._noise_age >= 20:
            self._block_noise, self._noise_age = deviation_of_neighbours(self._paces), 0
        low = old[len(old) // 4]
        block, spread = self._block_noise, _spread(old) / low
        by_chance = min(1.25 * block / TOGETHER**0.5, spread)
        usual = low * (1 + QUARTILE * by_chance)  # where medians differ by chance only, their quartile is too low
        drift = max(0.0, spread**2 - by_chance**2, _slow_spread(in_time) ** 2 - by_chance**2 / 2 / SMOOTHED) ** 0.5
        doubt = OF_QUARTILE * max(spread, 1.25 * block / TOGETHER**0.5) / max(1.0, len(old) / TOGETHER) ** 0.5
        return Noise(usual, block, drift, doubt)


def middle(values: Sequence[float] | deque[float]) -> float:
    """The mean of the middle half: as sturdy as a median, and exact where a clock in whole seconds made the values."""
    in_order = sorted(values)
    cut = len(in_order) // 4
    return fmean(in_order[cut : len(in_order) - cut])


def _slow_spread(in_time: Sequence[float]) -> float:
    """Deviation over mean of longer averages; of too few of them none."""
    apart = in_time[::TOGETHER]
    smooth = [fmean(apart[at : at + SMOOTHED]) for at in range(0, len(apart) - SMOOTHED + 1, SMOOTHED)]
    return _spread(sorted(smooth)) / fmean(smooth) if len(smooth) >= FEWEST_SMOOTHED else 0.0


def deviation_of_neighbours(values: Sequence[float] | deque[float]) -> float:
    """Standard deviation over mean, from the differences of neighbours: spikes and steps do not lift it."""
    pairs = zip(values, islice(values, 1, None), strict=False)
    differences = [abs(one - other) / (one + other) * 2 for one, other in pairs]
    return median(differences) / 0.954 if differences else 0.0  # 0.6745 * sqrt(2)


def _spread(in_order: Sequence[float]) -> float:
    """Standard deviation from the middle half."""
    return (in_order[-1 - len(in_order) // 4] - in_order[len(in_order) // 4]) / 1.349
