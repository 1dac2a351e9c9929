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


@pytest.mark.parametrize("fabric", [{"noise": 0.01}, {"noise": 0.02}, {"across": 0.88}, {"disturbed": 0.01}], ids=str)
def test_a_healthy_fleet_is_accepted_also_where_racks_are_a_switch_further_apart(fabric):
    for seed in range(3):
        assert run(seed=seed, **fabric).accepted == ALL


def test_good_nodes_that_are_launched_over_racks_to_compare_others_are_not_judged_by_it():
    racks = racks_of(8, 2)
    for seed in (2, 3):
        assert run(racks=racks, across=0.5, seed=seed).are("fail") == set()


def test_uplinks_that_hide_a_slow_node_do_not_clear_it():
    racks = racks_of(8, 2)
    for seed in (0, 1):
        judged = run(Sick("gpu010", 0.9), racks=racks, uplink=0.88, seed=seed)
        assert "gpu010" not in judged.accepted
        assert judged.are("fail") <= {"gpu009", "gpu010"}  # of these two nobody can say which one it is


def path(one, other, how="hang"):
    return Path(frozenset(one), frozenset(other), how)


BAD_PATH, ITS_ENDS = path({"gpu002"}, {"gpu015"}), {"gpu002", "gpu015"}
TWO, THREE = {"": ["gpu001", "gpu002"]}, {"": ["gpu001", "gpu002", "gpu003"]}
TOGETHER = "together, and each is good with others: the path between them is bad"
HALVES = "rack r01, rack r02 and rack r03, rack r04"
ITS_UPLINKS = "its uplinks, or its switch, must be bad"
SMALL = [
    {"racks": racks, "across": 0.88, "seed": seed} for racks in (racks_of(8, 2), racks_of(6, 3)) for seed in (0, 1)
]


# Faults, more of the fabric, who is rejected, who else is not accepted, and what is said of the first of all these.
@pytest.mark.parametrize(
    ("faults", "fabric", "failed", "open_ones", "said"),
    [
        *(([Sick("gpu006", how)], {}, {"gpu006"}, set(), "gpu006") for how in (0.9, "hang", "cuda", "wrong")),
        *(([Sick("gpu006", "hang", least=least)], {}, {"gpu006"}, set(), "gpu006") for least in (3, 5, 6, 9)),
        ([Sick("gpu006", 0.7, least=3)], {}, {"gpu006"}, set(), ""),
        *(([], small, set(), set(), "") for small in SMALL),
        *(([Sick("gpu010", 0.9)], small, {"gpu010"}, set(), "") for small in SMALL),
        *(
            ([Sick(one, left), Sick(other, left)], {"across": 0.88}, {one, other}, set(), "")
            for left in (0.9, 0.7)
            for one, other in (("gpu009", "gpu011"), ("gpu012", "gpu015"))
        ),
        ([Sick("gpu002", "hang")], {"racks": TWO}, set(), {"gpu001", "gpu002"}, "it is one of gpu001, gpu002"),
        *(
            ([path({one}, {other})], {"racks": THREE}, set(), {one, other}, "the path between them is bad")
            for one, other in (("gpu001", "gpu002"), ("gpu001", "gpu003"))
        ),
        *(
            ([Sick("gpu001", how, what), Sick("gpu006", 0.7)], {}, {"gpu001", "gpu006"}, set(), "")
            for how, what in (("hang", "alltoall"), ("wrong", "sendrecv"))
        ),
        ([BAD_PATH], {}, set(), ITS_ENDS, f"gpu002 and gpu015 fail {TOGETHER}"),
        ([path(R1, R3)], {}, set(), R1 | R3, "rack r01 and rack r03 fail together"),
        *(
            ([path(R2, ALL - R2, how)], {}, set(), R2, f"with others they {verb}: {ITS_UPLINKS}")
            for how, verb in (("hang", "fail"), (0.7, "are slow"))
        ),
        *(
            ([path(R1 | R2, R3 | R4, how)], {}, set(), ALL, f"{HALVES} {verb} together")
            for how, verb in (("hang", "fail"), (0.7, "are slow"))
        ),
        ([BAD_PATH, Sick("gpu006", "hang", least=5)], {}, {"gpu006"}, ITS_ENDS, "gpu002 and gpu015 fail together"),
        ([], {"lost": ("gpu006", 26)}, set(), {"gpu006"}, "it was lost: "),
    ],
)
def test_who_is_named_and_that_all_others_are_judged(faults, fabric, failed, open_ones, said):
    judged = run(*faults, **fabric)
    everybody = {name for names in fabric.get("racks", RACKS).values() for name in names}
    assert judged.are("fail") == failed
    assert everybody - judged.accepted == failed | open_ones
    assert said in judged.said(min(open_ones or failed or everybody))


def test_a_fleet_that_hangs_only_as_a_whole_names_nobody():
    judged = run(SimpleNamespace(how="hang", only="", spoils=lambda nodes: len(nodes) > 8))
    assert judged.are("fail") == set()
    assert "fail only together, and succeed in halves" in judged.said("gpu001")


@pytest.mark.parametrize("left", [0.97, 0.92, 0.7])
def test_rack_mates_of_a_slow_node_are_not_rejected(left):
    for seed in range(3):
        assert run(Sick("gpu006", left), seed=seed).accepted >= ALL - {"gpu006"}


def test_a_node_that_is_bad_in_a_pair_takes_no_time_from_the_others_in_larger_launches():
    found = run(Sick("gpu006", "hang"), version="2.19.6").found
    kinds = {"rack", "fleet"}
    assert kinds.isdisjoint(each.plan.kind for each in found["gpu006"].runs)
    larger = [each for each in found["gpu005"].runs if each.plan.kind in kinds]
    assert {(each.plan.kind, each.plan.count) for each in larger} == {("rack", 3), ("fleet", 15)}
    assert all(each.is_well for each in larger)


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


def test_a_node_that_is_named_is_not_launched_again():
    fabric = Fabric(RACKS, [Sick("gpu006", "hang")])
    measured(fabric)
    assert sum("hang" in line for line in fabric.log) == 2, "once in its pair, once with a good node"


@pytest.mark.parametrize(("seed", "sick"), [(3, "gpu008"), (4, "gpu006"), (5, "gpu012"), (7, "gpu011")])
def test_a_node_that_hangs_in_half_of_its_launches_is_rejected_and_no_partner_is(seed, sick):
    assert run(Sick(sick, "hang", chance=0.5), racks=racks_of(2, 8), seed=seed).are("fail") == {sick}
