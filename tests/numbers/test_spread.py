"""Spreads that few values tell, and how far out a good value lies."""

import numpy as np
import pytest
from scipy.stats import t as student

from nodegate.numbers.spread import degrees, moderated, reach, scale

FEW = degrees(7, 1)


def spreads(rng: np.random.Generator, *true: float) -> list[tuple[float, float]]:
    return [(scale(rng.normal(0, each, 7)), FEW) for each in true]


def test_six_quantities_of_one_kind_tell_their_common_spread_better_than_each_its_own():
    rng = np.random.default_rng(1)
    alone, together, known = [], [], []
    for _ in range(200):
        kin = spreads(rng, *[0.01] * 6)
        alone.append(kin[0][0])
        spread, freedom = moderated(kin[0], kin)
        together.append(spread)
        assert freedom > FEW
        known.append(freedom)
    assert np.median(known) > 3 * FEW
    assert np.std(np.log(together)) < 0.75 * np.std(np.log(alone))


def test_one_that_is_far_noisier_than_its_kin_keeps_its_noise():
    rng = np.random.default_rng(2)
    found = [moderated(kin[0], kin)[0] for kin in (spreads(rng, 0.2, *[0.005] * 5) for _ in range(50))]
    assert np.median(found) > 0.1


@pytest.mark.parametrize("kin", [[(0.01, FEW)], [(0.01, FEW), (0.0, FEW), (0.0, FEW)]], ids=["none", "without spread"])
def test_what_has_no_kin_stands_for_itself(kin: list[tuple[float, float]]):
    assert moderated((0.01, FEW), kin) == (0.01, FEW)


@pytest.mark.parametrize("freedom", [2.0, 4.5, 30.0, 1000.0])
def test_where_the_spread_is_a_guess_it_is_students_t(freedom: float):
    assert reach(1e-5, freedom) == pytest.approx(student.isf(1e-5, freedom))


def test_where_it_is_known_it_is_normal():
    assert reach(0.001) == pytest.approx(3.0902, abs=1e-4)
