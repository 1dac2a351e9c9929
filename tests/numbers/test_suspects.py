"""Who is measured again where nothing judges a number: a node whose pair is far behind the best pair."""

import pytest
from support.shipped import SHIPPED

from nodegate.baseline.baseline import Baseline, Baselines
from nodegate.metric import Metric
from nodegate.node import Node
from nodegate.numbers.assessments import Doubt, suspects, with_their_like

PLATFORM = "hgx-h100-8"
BASELINE = SHIPPED.for_node(Node("any", expected={"platform": PLATFORM}), None, None)


def measured(group, **gb_per_s):
    of, launch = {"group": group, "nodes": "2"}, "" if group == "pair" else "rack r1"
    fleet = {
        node: (PLATFORM, (Metric("nccl.group_all_reduce_gb_per_s", (value,), "GB/s", conditions=of, launch=launch),))
        for node, value in gb_per_s.items()
    }
    return frozenset(suspects(fleet, dict.fromkeys(fleet, BASELINE)))


def test_both_nodes_of_a_slow_pair_are_measured_again():
    assert measured("pair", a=380.0, b=380.0, c=190.0, d=190.0) == {"c", "d"}


@pytest.mark.parametrize(("best", "slow"), [(380.0, 372.0), (380.0, 379.0), (190.0, 189.0)])
def test_pairs_that_are_near_the_best_are_not_nor_a_fleet_that_is_slow_alike(best, slow):
    assert measured("pair", a=best, b=best, c=slow, d=slow) == frozenset()


def test_launches_over_many_nodes_are_not_pairs():
    assert measured("rack", a=380.0, b=190.0) == frozenset()


def fleet_with_one_slow(nodes):
    speeds = [400.0] + [480.0 + at % 5 for at in range(nodes - 1)]
    return {
        f"n{at}": (PLATFORM, (Metric("nccl.all_reduce_gb_per_s", (speed,), "GB/s"),)) for at, speed in enumerate(speeds)
    }


@pytest.mark.parametrize("nodes", [2, 8, 64])
def test_all_get_the_looks_of_one_suspect(nodes):
    fleet = fleet_with_one_slow(nodes)
    found = with_their_like({"n0": tuple(map(Doubt, fleet["n0"][1]))}, fleet)
    assert found.keys() == fleet.keys()
    assert [node for node, doubts in found.items() if doubts] == ["n0"]


def test_nodes_of_another_platform_are_left_alone():
    fleet = fleet_with_one_slow(8) | {"other": ("hgx-b200-8", fleet_with_one_slow(1)["n0"][1])}
    assert "other" not in with_their_like({"n0": ()}, fleet)


def test_where_nobody_is_suspect_nobody_is_measured_again():
    assert with_their_like({}, fleet_with_one_slow(8)) == {}


@pytest.mark.parametrize(("value", "doubted"), [(480.0, False), (477.0, False), (464.0, True), (400.0, True)])
def test_a_number_that_a_slow_device_may_have_by_luck_is_doubted(value, doubted):
    fleet = fleet_with_one_slow(64)
    fleet["n0"] = (PLATFORM, (Metric("nccl.all_reduce_gb_per_s", (value,), "GB/s"),))
    bare = dict.fromkeys(fleet, Baseline(PLATFORM, "", "", "", "", Baselines.read().common))
    assert ("n0" in suspects(fleet, bare)) is doubted
