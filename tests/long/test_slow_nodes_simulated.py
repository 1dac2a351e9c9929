"""Good and slow nodes in whole fleets, drawn by bench/fleets.py and judged by the code that a run uses.

The seeds are fixed: these are claims about the procedure, not dice. bench/RESULTS.md has the table of many more.
"""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from bench.fleets import HEAVY, HIGH, LOW, SKEWED, Cell, drawn
from bench.judged_fleets import NAMES, judged
from nodegate.records.verdict import Verdict

ALL_SIX = tuple(range(6))
DOUBTED = (Verdict.FAIL, Verdict.WARN)


def told(cell, seed=1):
    rng, good, bad = np.random.default_rng(seed), Counter[Verdict](), Counter[Verdict]()
    for _ in range(cell.fleets):
        fleet = drawn(cell, rng)
        for measurement in NAMES.keys() & fleet.keys():
            for slow, verdict in zip(fleet["bad"], judged(measurement, fleet[measurement])[0], strict=True):
                (bad if slow else good)[verdict] += 1
    return good, bad


@pytest.mark.parametrize("noise", [LOW, HIGH, SKEWED[2], HEAVY], ids=["low", "high", "skewed", "heavy"])
@pytest.mark.parametrize("nodes", [8, 64])
def test_good_nodes_are_not_rejected(nodes, noise):
    good, _ = told(Cell("", nodes, 256 // nodes, noise))
    assert good[Verdict.FAIL] <= 1
    assert good[Verdict.WARN] <= 0.02 * good.total()


@pytest.mark.parametrize(
    "slow",
    [
        Cell("one of six collectives", 8, 20, LOW, 1, 0.95, "busbw"),
        Cell("one of six collectives", 64, 5, LOW, 4, 0.95, "busbw"),
        Cell("all six in much noise", 8, 20, HIGH, 1, 0.95, "busbw", ALL_SIX),
        Cell("all six in much noise", 64, 5, HIGH, 4, 0.95, "busbw", ALL_SIX),
        Cell("one copy in much noise", 64, 3, HIGH, 6, 0.95, "copies"),
        Cell("the burn", 8, 20, LOW, 1, 0.95, "burn", (0, 1, 2)),
        Cell("the burn", 64, 3, LOW, 6, 0.95, "burn", (0, 1, 2)),
    ],
    ids=lambda cell: f"{cell.name}, {cell.nodes}",
)
def test_a_node_that_is_5_percent_slow_is_told(slow):
    good, bad = told(slow)
    assert sum(bad[each] for each in DOUBTED) >= 0.9 * bad.total()
    assert good[Verdict.FAIL] == 0


@pytest.mark.parametrize("left", [0.95, 0.90])
@pytest.mark.parametrize("part", [0.2, 0.4])
def test_no_fast_node_is_rejected_beside_a_slow_part_of_the_fleet(part, left):
    good, bad = told(Cell("", 64, 3, LOW, part, left, "burn", (0, 1, 2)))
    assert good[Verdict.FAIL] == 0
    assert sum(bad[each] for each in DOUBTED) >= 0.95 * bad.total()


def test_a_lone_disturbed_look_rejects_nobody():
    good, _ = told(Cell("", 16, 10, replace(LOW, disturbed=0.05)))
    assert good[Verdict.FAIL] == 0
