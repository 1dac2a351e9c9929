"""Nodes that share a rack, a firmware or a driver are judged together, and the highest level that explains is named."""

import numpy as np
import pytest
from support.measured import baseline, metric

from nodegate.numbers.assessments import assessments
from nodegate.numbers.metric_findings import finding_of
from nodegate.numbers.parts import by_chance
from nodegate.numbers.peers import Peers
from nodegate.records.verdict import Verdict

BY = baseline()
PASS, WARN, FAIL = Verdict.PASS, Verdict.WARN, Verdict.FAIL
NODES = 32
SECOND_RACK = slice(8, 16)
RACKS = {at: {"rack": f"r{at // 8}"} for at in range(NODES)}


def speeds(slow=slice(0), left=1.0, *, seed=5, noise=0.005, nodes=NODES):
    """Of these nodes, of which the slow ones have so much left."""
    found = np.random.default_rng(seed).normal(480, 480 * noise, nodes)
    found[slow] *= left
    return found


def judged(speed, traits, **changes):
    names = [f"gpu{at:03}" for at in range(len(speed))]
    measured = {
        name: ("hgx-h100-8", [metric(float(speed[at]), **{key: of[at] for key, of in changes.items() if at in of})])
        for at, name in enumerate(names)
    }
    peers = Peers.of(measured, {name: traits.get(at, {}) for at, name in enumerate(names)})
    return [
        [
            finding_of(each, found, remedy="look")
            for each, found in assessments(own, baseline=BY, peers=peers.of_node(name))
        ]
        for name, (_, own) in measured.items()
    ]


def batch_of(findings):
    return [f"{each.verdict.value}: {each.text}" for each in findings if each.code.startswith("batch ")]


def worst_of(findings):
    return max((each.verdict for each in findings), key=[PASS, WARN, FAIL].index)


def test_a_rack_that_is_7_percent_slow_is_named_on_each_of_its_nodes_and_they_are_rejected():
    found = judged(speeds(SECOND_RACK, 0.93), RACKS)
    said = {tuple(batch_of(findings)) for findings in found[8:16]}
    assert len(said) == 1
    ((text,),) = said
    assert text.startswith("fail: rack r1: 8 nodes 6.7 % below")
    assert text.endswith("the other 24 in bus bandwidth")


def test_the_number_of_the_node_itself_is_no_second_fault_where_its_rack_explains_it():
    own = [each for each in judged(speeds(SECOND_RACK, 0.93), RACKS)[9] if not each.code]
    assert [(each.verdict, each.note) for each in own] == [(PASS, "as the other nodes of rack r1")]


def test_a_node_that_is_slow_in_a_slow_rack_is_rejected_for_itself_too():
    speed = speeds(SECOND_RACK, 0.96)
    speed[9] *= 0.9
    found = judged(speed, RACKS)
    assert [each.verdict for each in found[9] if not each.code] == [FAIL]
    assert [each.verdict for each in found[10] if not each.code] == [PASS]


def test_a_good_node_in_a_slow_rack_is_left_alone():
    assert worst_of(judged(speeds(slice(8, 15), 0.93), RACKS)[15]) is PASS


def test_a_firmware_that_costs_3_percent_warns_on_all_of_its_nodes_and_rejects_none():
    traits = {
        at: {"rack": f"r{at // 8}", "GPU VBIOS": "96.00.74" if at % 3 == 0 else "96.00.61"} for at in range(NODES)
    }
    slow = [at for at in range(NODES) if at % 3 == 0]
    found = judged(speeds(slow, 0.97, noise=0.003), traits)
    assert {worst_of(found[at]) for at in slow} == {WARN}
    assert {worst_of(found[at]) for at in range(NODES) if at not in slow} == {PASS}
    assert {batch_of(found[at])[0][:46] for at in slow} == {"warn: GPU VBIOS 96.00.74: 11 nodes 3.1 % below"}


def test_a_rack_with_many_nodes_of_a_slow_firmware_is_not_blamed_for_it():
    slow = [0, 1, 2, 3, 4, 5, 8, 9, 16, 24]  # six of the first rack
    traits = {at: {"rack": f"r{at // 8}", "GPU VBIOS": "new" if at in slow else "old"} for at in range(NODES)}
    found = judged(speeds(slow, 0.95, noise=0.003), traits)
    assert {text for findings in found for text in batch_of(findings) if "VBIOS new" not in text} == set()
    assert {worst_of(found[at]) for at in (6, 7)} == {PASS}


def test_what_the_same_nodes_share_is_named_together():
    traits = {at: {"rack": f"r{at // 8}", "kernel": "6.8" if at // 8 == 1 else "5.15"} for at in range(NODES)}
    assert batch_of(judged(speeds(SECOND_RACK, 0.93), traits)[8])[0].startswith("fail: rack r1 (kernel 6.8): 8 nodes")


def test_most_of_a_fleet_behind_a_tenth_is_a_warning_for_nobody_knows_which_part_is_right():
    traits = {at: {"GPU VBIOS": "new" if at < 6 else "old"} for at in range(NODES)}
    found = judged(speeds(slice(6, None), 0.92), traits)
    assert {worst_of(findings) for findings in found[6:]} == {WARN}


@pytest.mark.parametrize("seed", range(6))
def test_a_gradient_over_racks_is_no_fault_of_the_last_one(seed):
    racks = {at: {"rack": f"r{at // 4}"} for at in range(64)}
    speed = speeds(seed=seed, nodes=64) * np.repeat(np.linspace(1.015, 0.985, 16), 4)
    found = judged(speed, racks)
    assert [text for findings in found for text in batch_of(findings)] == []
    assert FAIL not in {worst_of(findings) for findings in found}


def test_two_slow_nodes_do_not_make_their_rack_slow():
    racks = {at: {"rack": f"r{at // 2}"} for at in range(NODES)}
    found = judged(speeds([0, 1], 0.9), racks)
    assert batch_of(found[0]) == []
    assert worst_of(found[0]) is FAIL


class TestOtherSoftware:
    """Nodes that measured with another driver or library are compared all the same, and it is said."""

    def test_one_node_30_percent_slow_is_rejected(self):
        (own,) = judged(speeds([4], 0.7), {}, nccl={4: "2.21.5"})[4]
        assert own.verdict is FAIL
        assert own.note.endswith("measured with nccl 2.21.5, most others 2.27.3")

    def test_one_node_7_percent_slow_is_warned_of_for_it_may_be_the_software(self):
        assert [each.verdict for each in judged(speeds([4], 0.93), {}, nccl={4: "2.21.5"})[4]] == [WARN]

    def test_a_good_one_passes(self):
        assert [each.verdict for each in judged(speeds(), {}, nccl={4: "2.21.5"})[4]] == [PASS]

    def test_a_quarter_of_the_fleet_is_compared_with_the_rest(self):
        older = dict.fromkeys(range(0, NODES, 4), "2.21.5")
        found = judged(speeds(slice(0, None, 4), 0.93), {}, nccl=older)
        assert batch_of(found[0])[0].startswith("warn: nccl 2.21.5: 8 nodes 7.")
        assert "measured with other software" in batch_of(found[0])[0]
        assert worst_of(found[1]) is PASS


def test_the_hypergeometric_chance():
    """All of three in one rack of three among nine nodes: 1 in 84."""
    assert by_chance(3, 3, 3, 9) == pytest.approx(1 / 84)
    assert by_chance(0, 3, 3, 9) == pytest.approx(1)
