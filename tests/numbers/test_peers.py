"""Peers: whose values a number is compared with, when they are too few, and how far out a good one lies."""

from statistics import median

import numpy as np
import pytest
from scipy.stats import t as student
from support.measured import fleet, group, margins, metric, peers

from nodegate.metric import Statistic
from nodegate.numbers.comparison import NoPeers
from nodegate.numbers.peers import Peers
from nodegate.numbers.spread import degrees, moderated, reach, scale

MARGINS = margins()
PLATFORM = "hgx-h100-8"


class TestWhoIsAPeer:
    def test_the_other_nodes_of_the_platform(self):
        found = group(peers(480, 481, 482, 483, 484, 485, 486, 487, 100).group("gpu009", metric(100), MARGINS))
        assert (found.nodes, found.count, found.median) == (8, 8, 483.5)

    def test_the_median_is_that_of_the_others_for_every_node(self):
        rng = np.random.default_rng(7)
        for size in (8, 9, 20):
            values = [round(rng.normal(480, 3), 1) for _ in range(size)]
            judged = peers(*values)
            for at, value in enumerate(values):
                others = values[:at] + values[at + 1 :]
                found = group(judged.group(f"gpu{at + 1:03}", metric(value), MARGINS))
                assert found.median == pytest.approx(median(others))

    def test_the_same_statistic_of_as_many_looks_is_compared(self):
        looks = {f"gpu{at}": (PLATFORM, [metric(470, 480 + at, 476)]) for at in range(9)}
        judged, own = Peers.of(looks), looks["gpu0"][1][0]
        assert group(judged.group("gpu0", own, MARGINS)).median == 480.25
        assert group(judged.group("gpu0", own, MARGINS, Statistic.MEDIAN)).median == 476.0

    def test_a_node_with_fewer_looks_is_held_to_what_so_few_would_give(self):
        rng = np.random.default_rng(3)
        looks = {f"gpu{at}": (PLATFORM, [metric(*rng.normal(480, 5, 9).tolist())]) for at in range(64)}
        judged = Peers.of(looks)
        many, one = (group(judged.group("gpu0", each, MARGINS)) for each in (looks["gpu0"][1][0], metric(480.0)))
        assert one.median == pytest.approx(480, abs=0.5)
        assert many.median == pytest.approx(482.5, abs=0.5), "the best six of nine"
        assert (many.spread, one.spread) == (pytest.approx(0.0045, rel=0.3), pytest.approx(0.0104, rel=0.15))

    def test_others_with_fewer_looks_are_taken_as_if_they_had_had_as_many(self):
        rng = np.random.default_rng(3)
        nine = {f"gpu{at}": (PLATFORM, [metric(*rng.normal(480, 5, 9).tolist())]) for at in range(33)}
        one = {f"few{at}": (PLATFORM, [metric(480.0)]) for at in range(31)}
        found = group(Peers.of(nine | one).group("gpu0", nine["gpu0"][1][0], MARGINS))
        assert (found.median, found.spread) == (pytest.approx(482.5, abs=0.7), pytest.approx(0.004, abs=0.0025))

    @pytest.mark.parametrize("other", [{"gpus": "4"}, {"size_bytes": "1024"}, {"name": "nccl.all_gather_gb_per_s"}])
    def test_values_of_other_conditions_are_not_compared(self, other):
        measured = fleet(*[480.0] * 8)
        measured["gpu009"] = (PLATFORM, [metric(430, **other)])
        judged = Peers.of(measured)
        assert group(judged.group("gpu001", metric(480), MARGINS)).nodes == 7
        assert judged.group("gpu009", metric(430, **other), MARGINS) == NoPeers(
            "only 1 node of platform hgx-h100-8 measured it in the same way (8 are needed to compare)"
        )

    @pytest.mark.parametrize("bad", [float("nan"), float("inf"), -1.0, 1e300])
    def test_a_value_that_can_be_no_measurement_counts_for_nobody(self, bad):
        measured = fleet(*[480.0] * 8)
        measured["gpu009"] = (PLATFORM, [metric(bad)])
        assert group(Peers.of(measured).group("gpu001", metric(480), MARGINS)).nodes == 7

    def test_nor_does_a_wild_one_stop_the_comparison(self):
        found = group(peers(*[480.0] * 8, 9e11).group("gpu001", metric(480), MARGINS))
        assert (found.median, found.spread, found.split) == (480.0, 0.0, None)


FEW = "only %s of platform hgx-h100-8 measured it in the same way (8 are needed to compare)"
EIGHT_GPUS = {"gpu001": (PLATFORM, [metric(700, device=f"GPU {at}") for at in range(8)])}


@pytest.mark.parametrize(
    ("measured", "node", "own", "reason"),
    [
        (fleet(*[480.0] * 7), "gpu001", metric(480), FEW % "7 nodes"),
        (EIGHT_GPUS, "gpu001", EIGHT_GPUS["gpu001"][1][0], FEW % "1 node"),
        ({f"gpu{at}": ("", [metric(480)]) for at in range(20)}, "gpu1", metric(480), "the platform is not known"),
        (fleet(*[480.0] * 8), "gpu999", metric(480), "the platform is not known"),
        ({}, "gpu001", metric(480), "the platform is not known"),
        (fleet(*[480.0] * 8) | {"h200": ("hgx-h200-8", [metric(490)])}, "h200", metric(490), None),
    ],
    ids=["seven nodes", "eight GPUs of one", "unknown platform", "not in the run", "nothing", "another platform"],
)
def test_too_few_do_not_judge_each_other(measured, node, own, reason):
    found = Peers.of(measured).group(node, own, MARGINS)
    assert isinstance(found, NoPeers)
    assert reason is None or found == NoPeers(reason)


class TestSlots:
    def test_a_slot_is_compared_with_the_same_slot(self):
        """GPU 0 sits in warmer air on every node of this platform: no fault of any of them."""
        gpus = [metric(680, device="GPU 0"), *(metric(700, device=f"GPU {at}") for at in range(1, 8))]
        measured = {f"gpu{at:03}": (PLATFORM, gpus) for at in range(8)}
        found = group(Peers.of(measured).of_node("gpu003").group(gpus[0], MARGINS))
        assert (found.device, found.median, found.nodes, found.count) == ("GPU 0", 680.0, 7, 7)

    def test_where_too_few_have_this_device_all_devices_are_compared(self):
        measured = {
            f"gpu{at:03}": (PLATFORM, [metric(390 + at, device=f"mlx5_{at}"), metric(395, device=f"mlx5_{at + 20}")])
            for at in range(8)
        }
        found = group(Peers.of(measured).of_node("gpu003").group(measured["gpu003"][1][0], MARGINS))
        assert (found.device, found.nodes, found.count, found.median) == ("", 7, 14, 395.0)

    def test_the_spread_is_that_of_all_slots_each_around_its_own_median(self):
        rng = np.random.default_rng(3)
        slots = [680.0, 690.0, *[700.0] * 6]
        drawn = [[float(rng.normal(slot, 0.01 * slot)) for slot in slots] for _ in range(8)]
        measured = {
            f"gpu{at:03}": (PLATFORM, [metric(rate, device=f"GPU {place}") for place, rate in enumerate(rates)])
            for at, rates in enumerate(drawn)
        }
        found = [group(Peers.of(measured).of_node(name).group(own[0], MARGINS)) for name, (_, own) in measured.items()]
        assert all(each.judged == 64 for each in found)
        assert all(0.006 < each.spread < 0.016 for each in found)
        assert all(each.freedom == pytest.approx(0.6 * (56 - 8)) for each in found)

    def test_one_node_does_not_hide_itself_in_the_spread(self):
        fleet_of_8 = peers(480.0, 481.0, 479.0, 480.5, 479.5, 480.0, 481.0, 300.0)
        assert group(fleet_of_8.group("gpu008", metric(300), MARGINS)).spread < 0.01


LATE = {"unit": "µs", "better": "lower"}
DEAD_BESIDE = [*[430.0 + at / 10 for at in range(12)], *[480.0 + at / 10 for at in range(8)], 0.1, 12.0, 900.0]


@pytest.mark.parametrize(
    ("values", "changes", "parts"),
    [
        ([430.0] * 5 + [480.0] * 3, {}, (430, 480, 5, 3)),
        (DEAD_BESIDE, {}, (430.55, 480.35, 12, 8)),
        ([2.9] * 5 + [2.0] * 4, LATE, (2.9, 2.0, 5, 4)),  # slow is high where lower is better
        *((values, {}, None) for values in ([480.0] * 9, [480.0, *[430.0] * 8], [480.0] * 8 + [430.0])),
    ],
)
def test_a_fleet_in_two_parts(values, changes, parts):
    split = group(peers(*values, **changes).group("gpu002", metric(values[1], **changes), MARGINS)).split
    assert split is None if parts is None else (split.slow, split.fast, split.slow_nodes, split.fast_nodes) == parts


@pytest.mark.parametrize(("size", "draws"), [(30, 5), (1250, 1)])
def test_a_normal_spread_is_one_part(size, draws):
    rng = np.random.default_rng(size)
    for _ in range(draws):
        values = [rng.normal(480, 12) for _ in range(size)]
        assert group(peers(*values).group("gpu001", metric(480), MARGINS)).split is None


FREE = degrees(7, 1)


def spreads(rng, *true):
    return [(scale(rng.normal(0, each, 7)), FREE) for each in true]


def test_six_quantities_of_one_kind_tell_their_common_spread_better_than_each_its_own():
    rng = np.random.default_rng(1)
    alone, together, known = [], [], []
    for _ in range(200):
        kin = spreads(rng, *[0.01] * 6)
        alone.append(kin[0][0])
        spread, freedom = moderated(kin[0], kin)
        together.append(spread)
        assert freedom > FREE
        known.append(freedom)
    assert np.median(known) > 3 * FREE
    assert np.std(np.log(together)) < 0.75 * np.std(np.log(alone))


def test_one_that_is_far_noisier_than_its_kin_keeps_its_noise():
    rng = np.random.default_rng(2)
    found = [moderated(kin[0], kin)[0] for kin in (spreads(rng, 0.2, *[0.005] * 5) for _ in range(50))]
    assert np.median(found) > 0.1


@pytest.mark.parametrize(
    "kin", [[(0.01, FREE)], [(0.01, FREE), (0.0, FREE), (0.0, FREE)]], ids=["none", "without spread"]
)
def test_what_has_no_kin_stands_for_itself(kin):
    assert moderated((0.01, FREE), kin) == (0.01, FREE)


@pytest.mark.parametrize("freedom", [2.0, 4.5, 30.0, 1000.0])
def test_where_the_spread_is_a_guess_it_is_students_t(freedom):
    assert reach(1e-5, freedom) == pytest.approx(student.isf(1e-5, freedom))


def test_where_it_is_known_it_is_normal():
    assert reach(0.001) == pytest.approx(3.0902, abs=1e-4)
