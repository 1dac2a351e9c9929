"""False alarms and delays of the rule, by seeded simulation: log-normal noise, 0.5 % of steps 1.5 to 6 times as long.

An iteration counts as 2 s. bench/slow_jobs.py tries the rule with whole logs.
"""

import random
from collections.abc import Iterator
from statistics import median

import pytest

from nodegate.watch.rule import Rule

SLOW_AT = 400


def series(seed: int, count: int, noise: float, spikes: bool, slow_by: float = 1) -> Iterator[float]:
    rng = random.Random(seed)  # noqa: S311
    for number in range(count):
        value = rng.lognormvariate(0, noise)
        if spikes and rng.random() < 0.005:
            value *= rng.uniform(1.5, 6)
        yield value * (slow_by if number >= SLOW_AT else 1)


def delay(noise: float, slow_by: float, seed: int) -> int:
    """Iterations from the slowdown to the finding."""
    judge = Rule()
    for number, value in enumerate(series(seed, SLOW_AT + 600, noise, True, slow_by)):
        if (seen := judge.add(value)) and seen.slow and number >= SLOW_AT:
            return number - SLOW_AT + 1
    return 10_000


@pytest.mark.parametrize(("noise", "spikes"), [(0.01, False), (0.01, True), (0.04, True), (0.10, True)])
def test_no_false_alarm_in_30_000_iterations(noise: float, spikes: bool) -> None:
    for seed in range(3):
        judge = Rule()
        assert not any(
            seen.slow for value in series(seed, 10_000, noise, spikes) if (seen := judge.add(value)) is not None
        )


@pytest.mark.parametrize(
    ("noise", "slow_by", "most"),
    [(0.04, 1.1, 400), (0.04, 1.3, 160), (0.04, 1.5, 110), (0.10, 1.5, 140), (0.10, 2.0, 40), (0.10, 3.0, 25)],
)
def test_delay_until_a_slowdown_is_found(noise: float, slow_by: float, most: float) -> None:
    assert median(delay(noise, slow_by, seed) for seed in range(7)) <= most


def test_a_slow_time_does_not_become_what_is_usual() -> None:
    judge = Rule()
    *_, last = (seen for value in series(1, SLOW_AT + 5000, 0.02, True, 1.3) if (seen := judge.add(value)))
    assert last.slow
    assert last.usual == pytest.approx(1, abs=0.05)
