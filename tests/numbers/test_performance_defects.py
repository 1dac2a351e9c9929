"""Defects of other tools that judge speeds, each as the numbers that fool them and the verdict that is right.

A slow node costs a job as much as a dead one, and is found later.
"""

from collections import Counter

import pytest
from support.measured import ALL_REDUCE, baseline, group, margins, metric, peers

from nodegate.measure.rdma.pairing import rounds
from nodegate.numbers.assess import Assessment, assess
from nodegate.numbers.peers import NoPeers, Peers
from nodegate.records.verdict import Verdict

PASS, WARN, FAIL, ERROR = Verdict.PASS, Verdict.WARN, Verdict.FAIL, Verdict.ERROR
MARGINS = margins()
ALONE = NoPeers("only 1 node of platform hgx-h100-8 measured it in the same way (8 are needed to compare)")
HEALTHY = [478.0, 479.0, 480.0, 480.5, 481.0, 481.5, 482.0, 483.0]  # GB/s, HGX H100


def stored(value: float, name: str = ALL_REDUCE, **words: object) -> str:
    more = "".join(f", {word}: {given}" for word, given in words.items())
    return f"  {name}: {{value: {value}, unit: GB/s, source: s, direction: at least{more}}}\n"


def judged(value: float, fleet: Peers, entry: str = "", node: str = "gpu001") -> Assessment:
    found = fleet.group(node, metric(value), MARGINS)
    return assess(metric(value), baseline(entry).entry(ALL_REDUCE), found, MARGINS)


class TestASlowMajority:
    """One tool makes 448.75 of five nodes at 430 and three at 480 its baseline: a 5 % rule passes all eight."""

    def test_with_a_baseline_the_slow_ones_fail(self):
        fleet = peers(*[430.0] * 5, *[480.0] * 3)
        assert judged(430.0, fleet, stored(480, tolerance=0.05)).verdict is FAIL


class TestOneDeadNode:
    """One tool takes the mean: one node at 300 among 480s makes a baseline of 443.6, and 430 passes a 5 % rule."""

    def test_it_moves_nothing(self):
        fleet = peers(*[480.0, 481.0, 479.0, 480.0, 481.0, 479.0, 480.0], 300.0, 430.0)
        assert judged(430.0, fleet, node="gpu009").verdict is FAIL
        assert group(fleet.group("gpu009", metric(430.0), MARGINS)).median == 480.0


class TestALimitInTheWrongUnit:
    """One tool's H200 has a lowest memory bandwidth of 2333 MB/s, a thousandth of what its sister has: all pass."""

    NAME = "memory.device_gb_per_s"

    @pytest.mark.parametrize("value", [4100.0, 2400.0, 1200.0])
    def test_nothing_is_judged_by_it_and_the_slip_is_named(self, value: float):
        right = baseline(stored(2.333, self.NAME)).entry(self.NAME)
        found = assess(metric(value, name=self.NAME), right, ALONE, MARGINS)
        assert (found.verdict, found.comparison) == (ERROR, "unit")


class TestALimitFarTooLoose:
    """One tool asks for 150 and 100 GB/s where 328 to 480 are measured: nodes that lost a third to two thirds pass."""

    def test_the_fleet_finds_what_the_limit_does_not(self):
        found = judged(230.0, peers(230.0, *HEALTHY), stored(150))
        assert (found.verdict, found.comparison) == (FAIL, "fleet")

    def test_alone_with_such_a_limit_a_node_does_not_simply_pass(self):
        found = assess(metric(230.0), baseline(stored(150)).entry(ALL_REDUCE), ALONE, MARGINS)
        assert found.verdict is WARN
        assert "a limit so far below what is measured proves nothing" in found.note

    def test_healthy_nodes_are_not_blamed_for_the_limit(self):
        assert judged(480.0, peers(480.0, *HEALTHY), stored(150)).verdict is PASS


class TestTheTenPercentRule:
    """A limit at the effect that is sought finds it half the time: 10 % below the median, for nodes 10 % slow."""

    @pytest.mark.parametrize("value", [437.0, 434.0, 432.0, 430.0])
    def test_a_node_that_is_ten_percent_slow_is_found_on_its_good_days_too(self, value: float):
        assert judged(value, peers(value, *HEALTHY)).verdict is FAIL


class TestAnOddFleet:
    """One tool pairs nodes once and leaves the odd one untested."""

    @pytest.mark.parametrize("nodes", [3, 5, 63])
    def test_every_node_is_measured_in_every_number_of_rounds(self, nodes: int):
        names = [f"gpu{at:03}" for at in range(nodes)]
        met = Counter(name for pairs in rounds(names, 3) for pair in pairs for name in pair)
        assert set(met) == set(names)
        assert min(met.values()) >= min(3, nodes - 1)
