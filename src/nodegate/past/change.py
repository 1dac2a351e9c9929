"""Where a number changed its level for good, beyond its own noise."""

from __future__ import annotations

import math
from itertools import pairwise
from statistics import fmean, median
from typing import TYPE_CHECKING

from nodegate.errors import NotJudged, UsageError
from nodegate.metric import Metric
from nodegate.numbers.gap import floor_of, scale_of
from nodegate.numbers.spread import mad, robust

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from nodegate.numbers.margins import Margins

LEAST = 2  # values on each side: one run that was disturbed changes nothing


def margins_of_suite() -> Margins:
    """The margins that the suite ships, from the one file that has them: reading all takes longer than a question.

    Raises:
        UsageError: it lacks one.
    """
    from nodegate.baseline import baseline_file  # noqa: PLC0415 - only where numbers are shown
    from nodegate.baseline.baseline import Baseline  # noqa: PLC0415
    from nodegate.files.paths import BASELINES, suite_folder  # noqa: PLC0415
    from nodegate.numbers.margins import Margins  # noqa: PLC0415

    file = suite_folder(BASELINES) / "common.yaml"
    try:
        return Margins.of(Baseline("", "", "", "", "", baseline_file.read(file).limits))
    except NotJudged as said:
        raise UsageError(str(said), file=str(file)) from None


def noise_of(values: Sequence[float]) -> float:
    """How far two runs lie apart by chance, in the unit: from the differences of runs in a row, without any drift."""
    differences = [after - before for before, after in pairwise(values)]
    return robust(mad(differences, 0.0)) / math.sqrt(2) if differences else 0.0


def least_step(metric: str, unit: str, usual: float, margins: Margins) -> float:
    """The smallest difference that is worth a word, in the unit."""
    about = Metric(metric, (usual,), unit)
    return floor_of(about, margins.drift_floor, margins) * scale_of(about, usual)


def changes(values: Sequence[float], least: float, sigmas: float, begin: int = 0) -> Iterator[int]:
    """The places in a series, oldest first, from which on the level is another; `least` is in its unit.

    The surest split, then those of its halves (binary segmentation: Scott and Knott 1974).
    """
    noise = noise_of(values)
    calm = [median(values[max(0, at - 1) : at + 2]) for at in range(len(values))]  # without what was disturbed once
    places = range(LEAST, len(values) - LEAST + 1)
    if not places:
        return
    at = max(places, key=lambda place: abs(fmean(calm[place:]) - fmean(calm[:place])) / _error(calm, place))
    step = _step(values[:at], values[at:])
    if step <= least or step <= sigmas * noise * _error(values, at):
        return
    yield from changes(values[:at], least, sigmas, begin)
    yield begin + at
    yield from changes(values[at:], least, sigmas, begin + at)


def _error(values: Sequence[float], at: int) -> float:
    """How far the means of both sides lie apart by chance, in deviations of one value."""
    return math.sqrt(1 / at + 1 / (len(values) - at))


def _step(one: Sequence[float], two: Sequence[float]) -> float:
    """How far two levels lie apart; of a side with two values each of them counts."""
    levels = [list(side) if len(side) <= LEAST else [median(side)] for side in (one, two)]
    return min(abs(first - second) for first in levels[0] for second in levels[1])
