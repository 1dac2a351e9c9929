"""Defects of other tools that judge speeds, each as the numbers that fool them and the verdict that is right.

A slow node costs a job as much as a dead one, and is found later.
"""

from collections import Counter

import pytest
from support.measured import ALL_REDUCE, baseline, margins, metric, peers

from nodegate.measure.rdma.pairing import rounds
from nodegate.numbers.assessments import assess
from nodegate.numbers.comparison import NoPeers
from nodegate.records.verdict import Verdict

PASS, WARN, FAIL = Verdict.PASS, Verdict.WARN, Verdict.FAIL
MEMORY = "memory.device_gb_per_s"
MARGINS = margins()
ALONE = NoPeers("only 1 node of platform hgx-h100-8 measured it in the same way (8 are needed to compare)")
HEALTHY = [478.0, 479.0, 480.0, 480.5, 481.0, 481.5, 482.0, 483.0]  # GB/s, HGX H100


def stored(value: float, name: str = ALL_REDUCE, **words: object) -> str:
    more = "".join(f", {word}: {given}" for word, given in words.items())
    return f"  {name}: {{value: {value}, unit: GB/s, source: s, direction: at least{more}}}\n"


@pytest.mark.parametrize(
    ("value", "fleet", "entry", "verdict"),
    [
        # one tool makes 448.75 of five nodes at 430 and three at 480 its baseline: a 5 % rule passes all eight
        (430.0, [430.0] * 5 + [480.0] * 3, stored(480, tolerance=0.05), FAIL),
        # one tool takes the mean: one node at 300 among 480s makes a baseline of 443.6, and 430 passes a 5 % rule
        (430.0, [430.0, 300.0, *HEALTHY], "", FAIL),
        # one tool asks for 150 GB/s where 328 to 480 are measured: nodes that lost a third to two thirds pass
        (230.0, [230.0, *HEALTHY], stored(150), FAIL),
        (230.0, [230.0], stored(150), WARN),
        (480.0, [480.0, *HEALTHY], stored(150), PASS),
        # a limit at the effect that is sought, 10 % below the median, finds it half the time
        *((value, [value, *HEALTHY], "", FAIL) for value in (437.0, 434.0, 432.0, 430.0)),
    ],
)
def test_a_slow_node_is_found_and_no_good_one_blamed(value, fleet, entry, verdict):
    found = peers(*fleet).group("gpu001", metric(value), MARGINS)
    assert assess(metric(value), baseline(entry).entry(ALL_REDUCE), found, MARGINS).verdict is verdict


@pytest.mark.parametrize("value", [4100.0, 2400.0, 1200.0])
def test_nothing_is_judged_by_a_limit_in_the_wrong_unit(value: float):
    """One tool's H200 has a lowest memory bandwidth of 2333 MB/s, a thousandth of what its sister has: all pass."""
    right = baseline(stored(2.333, MEMORY)).entry(MEMORY)
    found = assess(metric(value, name=MEMORY), right, ALONE, MARGINS)
    assert (found.verdict, found.comparison) == (Verdict.ERROR, "unit")


@pytest.mark.parametrize("nodes", [3, 5, 63])
def test_every_node_is_measured_in_every_number_of_rounds(nodes: int):
    """One tool pairs nodes once and leaves the odd one untested."""
    names = [f"gpu{at:03}" for at in range(nodes)]
    met = Counter(name for pairs in rounds(names, 3) for pair in pairs for name in pair)
    assert set(met) == set(names)
    assert min(met.values()) >= min(3, nodes - 1)
