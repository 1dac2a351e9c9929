"""Spikes: single slow iterations, and whether they come at a period (garbage collection, logging, checkpoints)."""

from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import NamedTuple

from nodegate.watch.reading import Point

SPIKE = 1.4  # times the usual value around it
AROUND = 15  # points that define the usual value
MOST_SPIKES = 400
FEWEST_IN_STEP = 4  # pairs of spikes at the same distance, before a period is named
FEWEST_PAUSES = 8  # of equal length, before they are named although they have no period
ALIKE = 0.6  # the middle half of their lengths over the middle one
LEAST_PART = 0.005  # of the time
PART_IN_STEP = 0.6  # share of the spikes that have another one a period later


class Spike(NamedTuple):
    """One slow point: where, how many times the usual, the seconds that it cost, and what was before it."""

    iteration: int
    times: float
    cost_s: float
    pause: str


@dataclass(frozen=True)
class Period:
    """Spikes every `iterations`."""

    iterations: int
    spikes: int
    times: float  # the usual each
    part: float  # of the whole time lost by them
    pauses: int  # of them follow a checkpoint or an evaluation


@dataclass(frozen=True)
class Pauses:
    """`count` single pauses of about `seconds` in the iterations `first` to `last`, at no period."""

    first: int
    last: int
    count: int
    seconds: float
    part: float  # of the time that they cost
    at_first: float  # every so many iterations; and so at last
    at_last: float


class Spikes:
    """Finds the spikes of a series point by point, and their period on request."""

    def __init__(self) -> None:
        self.found: deque[Spike] = deque(maxlen=MOST_SPIKES)
        self._around: deque[Point] = deque(maxlen=AROUND)
        self._spent_s = 0.0
        self._cost_s = 0.0
        self._steps = 1

    def add(self, point: Point) -> None:
        """The next point; the middle one of the last AROUND is judged: the beginning of a slow time is not a spike."""
        self._around.append(point)
        if len(self._around) < AROUND:
            return
        middle = self._around[AROUND // 2]
        steps = self._steps = middle.last - middle.first + 1
        self._spent_s += middle.seconds * steps
        usual = sorted(each.seconds for each in self._around)[AROUND // 3]  # also where each second step is slow
        if middle.seconds > SPIKE * usual:
            cost_s = (middle.seconds - usual) * steps
            self._cost_s += cost_s
            self.found.append(Spike(middle.last, middle.seconds / usual, cost_s, middle.pause))

    def irregular(self) -> Pauses | None:
        """Pauses of equal length that follow no period: each rank collects garbage when it likes."""
        own = [spike for spike in self.found if not spike.pause]
        if len(own) < FEWEST_PAUSES or self.period():
            return None
        costs = sorted(spike.cost_s for spike in own)
        usual = costs[len(costs) // 2]
        alike = (costs[-1 - len(costs) // 4] - costs[len(costs) // 4]) / usual
        part = self._cost_s / self._spent_s
        if alike > ALIKE or part < LEAST_PART:
            return None
        gaps = [later.iteration - earlier.iteration for earlier, later in pairwise(own)]
        third = len(gaps) // 3
        return Pauses(
            own[0].iteration, own[-1].iteration, len(own), usual, part, median(gaps[:third]), median(gaps[-third:])
        )

    def forget(self) -> None:
        """Forget what was usual: a restart, another batch size."""
        self._around.clear()

    def period(self) -> Period | None:
        """The period of the spikes, if they have one.

        Several ranks may each spike at their own time: what counts is that a spike has another one a period later.
        """
        at = [spike.iteration for spike in self.found]
        iterations = _period(at, self._steps)
        if iterations is None:
            return None
        pauses = sum(bool(spike.pause) for spike in self.found)
        part = self._cost_s / self._spent_s if self._spent_s else 0.0
        return Period(iterations, len(at), median(spike.times for spike in self.found), part, pauses)


def _period(at: Sequence[int], steps: int) -> int | None:
    """The shortest distance at which most spikes have a neighbour, and far more often than by chance."""

    def rounded(distance: int) -> int:
        return max(steps, round(distance / steps) * steps)

    if len(at) == FEWEST_IN_STEP:  # so few count if they are all equally far apart
        gaps = {rounded(later - earlier) for earlier, later in pairwise(at)}
        return gaps.pop() if len(gaps) == 1 and min(gaps) > 0 else None
    if len(at) < FEWEST_IN_STEP or any(later <= earlier for earlier, later in pairwise(at)):
        return None
    distances = Counter(rounded(later - each) for index, each in enumerate(at) for later in at[index + 1 : index + 65])
    chance = len(at) * steps / (at[-1] - at[0] + steps)
    scores = {}
    for distance, count in distances.most_common(200):
        able = bisect_left(at, at[-1] - distance + 1)  # spikes that could have a neighbour at this distance
        if count >= max(FEWEST_IN_STEP, 0.4 * len(at)) and able and count / able > max(PART_IN_STEP, 3 * chance):
            scores[distance] = count / able
    best = max(scores.values(), default=0.0)
    return min((distance for distance, score in scores.items() if score >= 0.9 * best), default=None)
