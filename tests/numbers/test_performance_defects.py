"""Defects of other tools that judge speeds, each as the numbers that fool them and the verdict that is right.

A slow node costs a job as much as a dead one, and is found later.
"""

import pytest
from support.measured import ALL_REDUCE, baseline, margins, metric, peers

from nodegate.numbers.assessments import assess
from nodegate.records.verdict import Verdict

PASS, WARN, FAIL = Verdict.PASS, Verdict.WARN, Verdict.FAIL
MARGINS = margins()
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
