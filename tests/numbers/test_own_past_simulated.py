"""A small year: devices that lose 1 % a week are found before 6 % is lost, and good ones are left alone.

The large one, with its tables, is bench/drift.py.
"""

from random import Random

import pytest
from support.measured import margins, metric
from support.measured import others as like

from nodegate.numbers.past import Pasts, history
from nodegate.past.series import FIRST, NEWEST
from nodegate.records.verdict import Verdict

MARGINS = margins()
NIGHT, WEEK = 1 / 7, 1.0  # weeks between two runs
LOOKS = 3


def first_alarm(seed: int, *, noise: float, weeks: float, steady: int, runs: int, a_week: float) -> float | None:
    """What a number of a whole node has lost when its past warns of it; None where it never does.

    The other nodes are as noisy and find nothing. Of a look in a hundred 5 to 30 % are lost.
    """
    drawn = Random(seed)  # noqa: S311
    kept: list[float] = []
    group = like(480.0, noise, nodes=1249)
    for run in range(steady + runs):
        lost = a_week * weeks * max(0, run - steady)
        looks = [480 * (1 - lost) * drawn.gauss(1, noise) * disturbed(drawn) for _ in range(LOOKS)]
        for count in (1, LOOKS):
            measured = metric(*looks[:count])
            held = kept if len(kept) <= FIRST + NEWEST else kept[:FIRST] + kept[-NEWEST:]
            past = Pasts([measured], lambda _: held).of(measured, group, MARGINS)  # noqa: B023 - used at once
            found = history(measured, measured.best, past, MARGINS, proven=True, like_others=True)
            if found is None:
                break
        if found and found.verdict is Verdict.WARN:
            return lost
        kept.append(measured.best)
    return None


def disturbed(drawn: Random) -> float:
    return 1 - drawn.uniform(0.05, 0.30) if drawn.random() < 0.01 else 1.0


@pytest.mark.parametrize(
    ("noise", "weeks", "steady"),
    [(0.005, NIGHT, 0), (0.005, NIGHT, 20), (0.01, NIGHT, 0), (0.01, NIGHT, 20), (0.005, WEEK, 8), (0.003, WEEK, 4)],
)
def test_one_per_cent_a_week_is_found_before_six_per_cent_are_lost(noise: float, weeks: float, steady: int) -> None:
    for seed in range(8):
        lost = first_alarm(seed, noise=noise, weeks=weeks, steady=steady, runs=int(8 / weeks), a_week=0.01)
        assert lost is not None
        assert 0.01 < lost < 0.0601


@pytest.mark.parametrize("noise", [0.003, 0.01, 0.03])
def test_what_does_not_age_is_left_alone(noise: float) -> None:
    for seed in range(12):
        assert first_alarm(seed, noise=noise, weeks=NIGHT, steady=150, runs=0, a_week=0.0) is None
