"""RDMA pairs and rails over simulated fabrics: who is named, and that none of the others is.

The fabrics are those of bench/rails.py: real pairing, second looks, parsing and checks; the links, their noise and what
perftest prints are made up. The seeds are fixed.
"""

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench"))

import rails
from rails import DISTURBED, FLAT, NOISY, QUIET, RAIL_ONLY, RAILS, Fleet, names_of, run, tiers

from nodegate.measure.rdma.run import again
from nodegate.metric import Metric
from nodegate.numbers.assessments import Doubt
from nodegate.records.verdict import Verdict

PASS, WARN, FAIL, ERROR = Verdict.PASS, Verdict.WARN, Verdict.FAIL, Verdict.ERROR
SICK, RAIL = "gpu0001", "mlx5_3"


def fleet(nodes, fabric=FLAT, noise=QUIET, seed=1):
    return Fleet(np.random.default_rng(seed), names_of(nodes), fabric, noise)


def verdicts(judged):
    said = [judged.worst(name) for name in judged.records]
    return {verdict: said.count(verdict) for verdict in set(said)}


def blamed(judged, *kinds):
    return {(name, check, part) for name in judged.records for check, part, _ in judged.findings(name, *kinds)}


@pytest.mark.parametrize("fabric", [FLAT, RAIL_ONLY, tiers(5, 3), tiers(2, 2, 2, 2)], ids=lambda fabric: fabric.name)
def test_every_node_of_a_healthy_fabric_is_accepted(fabric):
    assert verdicts(run(fleet(8, fabric))) == {PASS: 8}


@pytest.mark.parametrize("fabric", [tiers(10, 6), tiers(15, 1)], ids=lambda fabric: fabric.name)
def test_a_smaller_leaf_is_no_reason_to_reject_its_nodes(fabric):
    assert blamed(run(fleet(16, fabric)), FAIL, ERROR) == set()


def test_a_pair_that_was_disturbed_once_is_measured_again_before_it_is_warned_of():
    first = fleet(8, noise=DISTURBED, seed=2)
    judged = run(first)
    assert first.programs > run_of_good_ones().programs
    assert blamed(judged, WARN, FAIL, ERROR) == set()


def run_of_good_ones():
    undisturbed = fleet(8, seed=2)
    run(undisturbed)
    return undisturbed


@pytest.mark.parametrize("way", ["tx", "rx"])
def test_a_nic_that_is_7_percent_slow_in_one_way_is_named_and_none_of_its_partners(way):
    sick = fleet(8)
    sick.slow(SICK, RAIL, 0.93, way)
    assert blamed(run(sick), WARN, FAIL, ERROR) == {(SICK, "rdma_bandwidth.both_ways", RAIL)}


def test_inside_the_node_the_slow_nic_is_named_and_not_its_neighbours():
    sick = fleet(8)
    sick.slow(SICK, RAIL, 0.93)
    judged = run(sick)
    assert (SICK, "rdma_bandwidth.inside", RAIL) in blamed(judged, FAIL)
    assert {(node, part) for node, _, part in blamed(judged, WARN, FAIL, ERROR)} == {(SICK, RAIL)}


def test_a_nic_below_its_share_of_the_rate_is_measured_again_where_no_fleet_judges_it():
    sick = fleet(3)
    sick.slow(SICK, RAIL, 0.8)
    good, judged = fleet(3), run(sick)
    run(good)
    assert sick.programs > good.programs
    assert (SICK, "rdma_bandwidth.share_of_rate", RAIL) in blamed(judged, FAIL)


def test_of_two_nodes_neither_is_rejected_for_what_they_do_together():
    sick = fleet(2)
    sick.slow(SICK, RAIL, 0.6)
    judged = run(sick)
    assert blamed(judged, FAIL) == {(SICK, "rdma_bandwidth.inside", RAIL)}
    assert judged.worst("gpu0000") is ERROR


def test_the_nics_behind_one_leaf_are_one_finding_on_their_rail():
    sick = fleet(16)
    behind = sick.names[:4]
    for name in behind:
        sick.slow(name, RAIL, 0.5)
    judged = run(sick)
    assert {each for each in blamed(judged, FAIL) if "rails" in each[1]} == {
        (name, "rdma_bandwidth.rails", RAIL) for name in behind
    }
    assert {name for name, *_ in blamed(judged, FAIL)} == {*behind}


def test_a_rail_that_is_slow_on_all_nodes_is_said_where_its_nodes_agree():
    sick = fleet(8)
    for name in sick.names:
        sick.slow(name, RAIL, 0.96)
    assert blamed(run(sick), WARN, FAIL, ERROR) == {(name, "rdma_bandwidth.rails", RAIL) for name in sick.names}


def test_a_node_that_was_lost_in_mid_run_has_not_passed():
    sick = fleet(8)
    sick.lost_after[SICK] = 6
    judged = run(sick)
    assert (SICK, "rdma_bandwidth.complete", "node") in blamed(judged, ERROR)
    assert {name for name, *_ in blamed(judged, FAIL, ERROR)} == {SICK}


def test_with_noise_of_2_percent_none_of_a_healthy_fleet_is_rejected():
    assert blamed(run(fleet(16, noise=NOISY, seed=5)), FAIL, ERROR) == set()


def test_all_nics_of_a_node_are_named_as_such():
    sick = fleet(8)
    for device in RAILS:
        sick.slow(SICK, device, 0.7)
    judged = run(sick)
    assert {part for node, _, part in blamed(judged, FAIL) if node == SICK} >= {*RAILS}
    assert {node for node, *_ in blamed(judged, FAIL, ERROR)} == {SICK}


def test_a_node_alone_whose_rails_do_not_reach_each_other_is_not_known_to_be_bad():
    judged = run(fleet(1, RAIL_ONLY))
    assert blamed(judged, FAIL) == set()
    assert judged.worst("gpu0000") is ERROR


def test_of_a_node_alone_the_nic_that_hangs_is_named_and_not_its_neighbours():
    sick = fleet(1)
    sick.slow("gpu0000", RAIL, 0.0)
    assert {part for _, _, part in blamed(run(sick), FAIL)} == {RAIL}


def met_again(looked_at, suspects):
    """Whom each suspect met in a second look, and what the fleet waited for it."""
    pool = rails.Pool(looked_at)
    with rails.wired(looked_at):
        found = again([rails._target(name) for name in looked_at.names], pool, suspects)
    peers = {
        name: {ran.plan.link.peer for ran in attempt.runs if ran.plan.link} - {name} for name, attempt in found.items()
    }
    return peers, pool.seconds


def doubt(gbps):
    return (Doubt(Metric("rdma.write_gbps", (gbps,), "Gb/s", RAIL, "higher"), 370.0),)


def late(us):
    return (Doubt(Metric("rdma.write_latency_us", (us,), "µs", RAIL, "lower"), 2.0),)


@pytest.mark.parametrize("one", [doubt(360.0), late(2.5)], ids=["slow", "late"])
def test_a_second_look_takes_no_longer_where_more_nodes_are_suspects(one):
    looked_at = fleet(32)
    _, of_some = met_again(looked_at, dict.fromkeys(looked_at.names[:12], one))
    _, of_many = met_again(looked_at, dict.fromkeys(looked_at.names[:30], one))
    assert of_many <= 2 * of_some


def test_of_many_suspects_the_most_doubtful_meet_nodes_that_passed_and_no_one_goes_without_a_look():
    looked_at = fleet(16)
    good, suspects = {"gpu0000", "gpu0015"}, dict.fromkeys(looked_at.names[1:15], doubt(375.0))
    suspects |= {"gpu0012": doubt(200.0), "gpu0013": doubt(300.0), "gpu0014": ()}
    met, _ = met_again(looked_at, suspects)
    assert all(met[name] == good for name in ("gpu0012", "gpu0013", "gpu0014"))
    assert all(len(met[name]) >= 2 for name in suspects)
    assert {len(met[name] & good) for name in suspects} == {0, 2}


def test_where_two_thirds_are_slow_they_are_named_though_some_have_their_second_looks_among_themselves():
    sick = fleet(16)
    for name in sick.names[5:]:
        sick.slow(name, RAIL, 0.6)
    assert {name for name, *_ in blamed(run(sick), FAIL, ERROR)} == {*sick.names[5:]}


def test_a_nic_is_named_in_a_noisy_fleet_where_most_nodes_are_suspects():
    sick = fleet(16, noise=NOISY, seed=3)
    sick.slow(SICK, RAIL, 0.85)
    judged = run(sick)
    assert {(name, part) for name, _, part in blamed(judged, FAIL)} == {(SICK, RAIL)}
    assert judged.seconds < 12 * 60
