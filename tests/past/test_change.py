"""Where a number changed its level: a step is found, noise, a disturbed run and what is small are not."""

from __future__ import annotations

from random import Random

import pytest

from nodegate.past.difference import changes

STEADY = [480.0, 482.0, 479.0, 481.0, 480.0, 478.0, 481.0, 480.0]


@pytest.mark.parametrize(
    ("values", "found"),
    [
        pytest.param(STEADY, [], id="noise"),
        pytest.param([*STEADY, *(each - 40 for each in STEADY)], [8], id="a step"),
        pytest.param([*STEADY, *(each - 40 for each in STEADY), *STEADY], [8, 16], id="there and back"),
        pytest.param([*STEADY, 300.0, *STEADY], [], id="one disturbed run"),
        pytest.param([*STEADY, 440.0], [], id="the last run alone"),
        pytest.param([*STEADY, 440.0, 441.0], [8], id="the last two runs"),
        pytest.param([*STEADY, 480.0, 400.0], [], id="one of the last two runs"),
        pytest.param([*STEADY, *(each - 5 for each in STEADY)], [], id="a step below what is worth a word"),
        pytest.param([480.0] * 5 + [440.0] * 3, [5], id="values without any noise"),
        pytest.param([480.0], [], id="one run"),
    ],
)
def test_changes(values: list[float], found: list[int]) -> None:
    assert list(changes(values, 12.0, 5.5)) == found


def test_what_does_not_change_is_left_alone() -> None:
    drawn = Random(3)  # noqa: S311
    for _ in range(300):
        values = [480 * drawn.gauss(1, 0.02) for _ in range(60)]
        assert list(changes(values, 12.0, 5.5)) == []
