"""Launches over several nodes, drawn with noise: who is named, who is judged without, and what it costs.

The whole way of a run: first and second looks, the search, and what the checks say of every node.
"""

from types import SimpleNamespace

import pytest
from support.launched_fleet import GOOD_GB_PER_S, Fabric, Path, Sick, measured, racks_of

from nodegate.measure.groups.result import NAMES

RACKS = racks_of(4, 4)
R1, R2, R3, R4 = (frozenset(names) for names in RACKS.values())
ALL = R1 | R2 | R3 | R4


def run(*faults, racks=RACKS, **fabric):
    return measured(Fabric(racks, faults, **fabric))


def lines(judged, name):
    return [record.message for record in judged.records[name] if str(record.verdict.value) not in {"pass", "skip"}]


@pytest.mark.parametrize("fabric", [{"noise": 0.01}, {"noise": 0.02}, {"across": 0.88}, {"disturbed": 0.01}], ids=str)
def test_a_healthy_fleet_is_accepted_also_where_racks_are_a_switch_further_apart(fabric):
    for seed in range(5):
        assert run(seed=seed, **fabric).accepted == ALL


@pytest.mark.parametrize("racks", [racks_of(8, 2), racks_of(6, 3)], ids=["racks of two", "racks of three"])
def test_in_small_racks_good_nodes_are_not_rejected_for_slower_pairs_over_racks(racks):
    everybody = frozenset(name for names in racks.values() for name in names)
    for seed in range(3):
        assert run(racks=racks, across=0.88, seed=seed).accepted == everybody
        judged = run(Sick("gpu010", 0.9), racks=racks, across=0.88, seed=seed)
        assert judged.are("fail") == {"gpu010"}
        assert judged.accepted == everybody - {"gpu010"}


@pytest.mark.parametrize("left", [0.9, 0.7])
def test_rack_mates_of_two_slow_nodes_are_not_rejected_where_racks_are_a_switch_further_apart(left):
    racks = racks_of(4, 4)
    everybody = frozenset(name for names in racks.values() for name in names)
    for sick in ({"gpu009", "gpu011"}, {"gpu012", "gpu015"}):
        judged = run(*(Sick(name, left) for name in sick), racks=racks, across=0.88)
        assert judged.are("fail") == sick
        assert judged.accepted == everybody - sick


def test_good_nodes_that_are_launched_over_racks_to_compare_others_are_not_judged_by_it():
    racks = racks_of(8, 2)
    for seed in (2, 3):
        assert run(racks=racks, across=0.5, seed=seed).are("fail") == set()


def test_uplinks_that_hide_a_slow_node_do_not_clear_it():
    racks = racks_of(8, 2)
    for seed in range(3):
        judged = run(Sick("gpu010", 0.9), racks=racks, uplink=0.88, seed=seed)
        assert "gpu010" not in judged.accepted
        assert judged.are("fail") <= {"gpu009", "gpu010"}  # of these two nobody can say which one it is


@pytest.mark.parametrize("left", [0.97, 0.95, 0.92, 0.7])
def test_rack_mates_of_a_slow_node_are_not_rejected(left):
    for seed in range(5):
        assert run(Sick("gpu006", left), seed=seed).accepted >= ALL - {"gpu006"}


def test_a_node_that_is_clearly_slow_is_the_only_one_that_is_rejected():
    assert run(Sick("gpu006", 0.9)).are("fail") == {"gpu006"}


@pytest.mark.parametrize("how", ["hang", "cuda", "wrong"])
def test_a_node_that_spoils_its_pair_is_found_with_one_that_is_well(how):
    judged = run(Sick("gpu006", how))
    assert judged.are("fail") == {"gpu006"}
    assert judged.accepted == ALL - {"gpu006"}


def test_two_nodes_without_a_third_cannot_be_told_apart():
    judged = run(Sick("gpu002", "hang"), racks={"": ["gpu001", "gpu002"]})
    assert (judged.are("fail"), judged.are("error")) == (set(), {"gpu001", "gpu002"})
    assert "it is one of gpu001, gpu002" in judged.said("gpu001")


def test_a_node_that_is_bad_in_a_pair_takes_no_time_from_the_others_in_larger_launches():
    found = run(Sick("gpu006", "hang"), version="2.19.6").found
    kinds = {"rack", "fleet", "apart"}
    assert kinds.isdisjoint(each.plan.kind for each in found["gpu006"].runs)
    larger = [each for each in found["gpu005"].runs if each.plan.kind in kinds]
    assert {(each.plan.kind, each.plan.count) for each in larger} == {("rack", 3), ("apart", 15), ("fleet", 15)}
    assert all(each.is_well for each in larger)


def test_a_fleet_that_hangs_only_as_a_whole_names_nobody():
    judged = run(SimpleNamespace(how="hang", only="", spoils=lambda nodes: len(nodes) > 8))
    assert judged.are("fail") == set()
    assert "fail only together, and succeed in halves" in judged.said("gpu001")


def over(judged, name, kind):
    """What a node has of the launches over a rack or the fleet: how many nodes each had, and whether it was fast."""
    chosen = [each for each in judged.found[name].named(NAMES["all_reduce"]) if each.conditions["group"] == kind]
    return {(each.conditions["nodes"], each.best > 0.9 * GOOD_GB_PER_S["all_reduce"]) for each in chosen}


def test_what_is_slow_by_single_nodes_is_launched_again_without_them():
    fabric = Fabric(RACKS, [Sick("gpu003", 0.7), Sick("gpu008", 0.7)])
    judged = measured(fabric)
    assert over(judged, "gpu001", "rack") == over(judged, "gpu006", "rack") == {("3", True)}
    assert over(judged, "gpu009", "rack") == {("4", True)}
    assert over(judged, "gpu001", "fleet") == over(judged, "gpu012", "fleet") == {("14", True)}
    assert (over(judged, "gpu003", "rack"), over(judged, "gpu003", "fleet")) == ({("4", False)}, {("16", False)})
    assert sum("all_reduce fleet [" in line for line in fabric.log) == 1, "that they are slow was seen in their pairs"


def test_a_fleet_that_was_slow_once_is_launched_again_as_a_whole():
    once = iter([True])
    judged = run(SimpleNamespace(how=0.5, only="all_reduce", spoils=lambda nodes: len(nodes) > 8 and next(once, False)))
    assert over(judged, "gpu004", "fleet") == {("16", True)}


def test_a_fleet_that_is_slow_alike_names_nobody():
    found = run(*(Sick(name, 0.6) for name in sorted(ALL))).found
    assert {name for each in found.values() for ran in each.runs for name in ran.notes.blamed} == set()
    assert {each.plan.count for each in found["gpu001"].runs if each.plan.kind == "fleet"} == {16}


@pytest.mark.parametrize("fault", [Sick("gpu001", "hang", "alltoall"), Sick("gpu001", "wrong", "sendrecv")], ids=str)
def test_who_is_sick_in_one_collective_is_no_partner_by_which_others_are_judged(fault):
    assert run(fault, Sick("gpu006", 0.7)).are("fail") == {"gpu001", "gpu006"}


def test_two_nodes_that_hang_only_together_are_named_and_the_others_are_judged():
    judged = run(Path(frozenset({"gpu002"}), frozenset({"gpu015"}), "hang"))
    assert judged.accepted == ALL - {"gpu002", "gpu015"}
    assert judged.are("fail") == set()
    assert lines(judged, "gpu002")[0] == (
        "all_reduce over nodes: fleet: did not end within 300 s, and finished no size; gpu002 and gpu015 fail "
        "together, and each is good with others: the path between them is bad - look at the cables, optics and switch "
        "ports between them, and at the switches' own counters"
    )


@pytest.mark.parametrize("least", [3, 5, 6, 9])
def test_a_node_that_hangs_only_in_larger_launches_is_named_and_the_others_are_judged(least):
    judged = run(Sick("gpu006", "hang", least=least))
    assert judged.are("fail") == {"gpu006"}
    assert judged.accepted == ALL - {"gpu006"}


def test_a_node_that_is_slow_only_in_larger_launches_is_named_and_the_others_are_judged():
    judged = run(Sick("gpu006", 0.7, least=3))
    assert judged.are("fail") == {"gpu006"}
    assert judged.accepted == ALL - {"gpu006"}


def test_of_three_nodes_and_one_bad_path_nobody_is_blamed():
    racks = {"": ["gpu001", "gpu002", "gpu003"]}
    for pair in ({"gpu001", "gpu002"}, {"gpu002", "gpu003"}, {"gpu001", "gpu003"}):
        one, other = sorted(pair)
        judged = run(Path(frozenset({one}), frozenset({other}), "hang"), racks=racks)
        assert judged.are("fail") == set()
        assert judged.are("error") == pair
        assert "the path between them is bad" in judged.said(one)


def test_a_path_between_two_racks_is_told_from_one_between_two_nodes():
    judged = run(Path(R1, R3, "hang"))
    assert judged.accepted == R2 | R4
    assert "rack r01 and rack r03 fail together" in judged.said("gpu001")


@pytest.mark.parametrize(("how", "verb"), [("hang", "fail"), (0.7, "are slow")])
def test_the_uplinks_of_a_rack_are_named_and_its_nodes_are_not_rejected(how, verb):
    judged = run(Path(R2, ALL - R2, how))
    assert judged.are("fail") == set()
    assert judged.accepted == ALL - R2
    assert f"rack r02: well by itself, and with others they {verb}: its uplinks, or its switch, must be bad" in (
        judged.said("gpu006")
    )


@pytest.mark.parametrize(("how", "verb"), [("hang", "fail"), (0.7, "are slow")])
def test_the_trunk_between_two_halves_of_the_fabric_is_named(how, verb):
    judged = run(Path(R1 | R2, R3 | R4, how))
    assert judged.are("fail") == set()
    assert f"rack r01, rack r02 and rack r03, rack r04 {verb} together" in judged.said("gpu016")


def test_two_faults_in_one_fleet_are_both_named():
    judged = run(Path(frozenset({"gpu002"}), frozenset({"gpu015"}), "hang"), Sick("gpu006", "hang", least=5))
    assert judged.accepted == ALL - {"gpu002", "gpu006", "gpu015"}
    assert judged.are("fail") == {"gpu006"}


def test_a_node_that_is_named_is_not_launched_again():
    fabric = Fabric(RACKS, [Sick("gpu006", "hang")])
    measured(fabric)
    assert sum("hang" in line for line in fabric.log) == 2, "once in its pair, once with a good node"


def test_a_node_that_is_lost_keeps_no_pass_of_what_it_gave_before():
    judged = measured(Fabric(RACKS, lost=("gpu006", 26)))
    assert judged.verdicts("gpu006") == {"error"}
    assert "it was lost: " in judged.said("gpu006")
    assert judged.accepted == ALL - {"gpu006"}


@pytest.mark.parametrize("seed", [3, 4, 5, 7])
def test_a_node_that_hangs_in_half_of_its_launches_is_rejected_and_no_partner_is(seed):
    sick = ("gpu008", "gpu006", "gpu012", "gpu011")[(3, 4, 5, 7).index(seed)]
    judged = run(Sick(sick, "hang", chance=0.5), racks=racks_of(2, 8), seed=seed)
    assert judged.are("fail") == {sick}
