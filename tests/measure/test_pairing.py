"""Rounds of pairs: everybody is measured, nobody twice at once, and suspects only with nodes that passed."""

from collections import Counter
from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from nodegate.measure.rdma.pairing import in_rounds, inside, nic_pairs, rounds, second_looks, with_good_ones, with_roles


def names(count):
    return [f"gpu{number:04}" for number in range(count)]


FLEETS = st.integers(0, 40).map(names)
COUNTS = st.one_of(st.none(), st.integers(1, 45))


def partners(found, name):
    return [pair[1 - pair.index(name)] for pairs in found for pair in pairs if name in pair]


def nobody_is_twice(found):
    return all(max(Counter(name for pair in pairs for name in pair).values()) == 1 for pairs in found)


@given(FLEETS, COUNTS)
def test_every_node_has_its_number_of_partners_in_odd_fleets_too_and_none_of_them_twice(fleet, count):
    found = rounds(fleet, count)
    assert nobody_is_twice(found)
    wanted = min(count or len(fleet), len(fleet) - 1)
    for name in fleet:
        assert len(partners(found, name)) == len({*partners(found, name)}) >= wanted


@given(FLEETS)
def test_all_pairs_are_all_pairs(fleet):
    found = [frozenset(pair) for pairs in rounds(fleet, None) for pair in pairs]
    assert sorted(map(sorted, found)) == sorted(map(sorted, combinations(fleet, 2)))


def test_rounds_cost_little_beyond_what_was_asked_for():
    assert len(rounds(names(1250), 3)) == 3
    assert len(rounds(names(1249), 3)) <= 5


@given(st.integers(1, 20), st.integers(0, 20), st.integers(1, 3))
def test_suspects_meet_only_those_who_passed(count, good, turns):
    suspects, passed = [f"bad{number}" for number in range(count)], names(good)
    found = with_good_ones(suspects, passed, turns)
    assert nobody_is_twice(found)
    assert all(one in suspects and other in passed for pairs in found for one, other in pairs)
    assert {len({*partners(found, suspect)}) for suspect in suspects} == {min(turns, good)}


@given(st.integers(1, 60), st.integers(0, 20))
def test_second_looks_take_no_more_rounds_however_many_are_suspects_and_the_first_meet_who_passed(count, good):
    suspects, passed = [f"bad{number}" for number in range(count)], names(good)
    found = second_looks(suspects, passed, 2, 4)
    assert len(found) <= 4
    assert nobody_is_twice(found)
    met = [{*partners(found, suspect)} for suspect in suspects]
    assert min(map(len, met)) >= min(2, good or count - 1)
    with_good = [each <= {*passed} for each in met]
    assert with_good == sorted(with_good, reverse=True)
    assert sum(with_good) >= min(count, 2 * good) - 2
    assert all(with_good) or good < count / 2


@given(st.sets(st.integers(0, 15)), st.sets(st.integers(0, 15)))
def test_every_nic_is_measured_and_none_twice_at_once(ours, theirs):
    left, right = [f"mlx5_{number}" for number in sorted(ours)], [f"mlx5_{number}" for number in sorted(theirs)]
    steps = nic_pairs(left, right)
    for step in steps:
        for end in zip(*step, strict=True):
            assert len(set(end)) == len(end)
    if left and right:
        assert {one for step in steps for one, _ in step} == set(left)
        assert {other for step in steps for _, other in step} == set(right)
    else:
        assert steps == ()


def test_nics_of_one_name_are_of_one_rail():
    assert nic_pairs(["mlx5_0", "mlx5_3"], ["mlx5_0", "mlx5_1", "mlx5_3"]) == (
        (("mlx5_0", "mlx5_0"), ("mlx5_3", "mlx5_3")),
        (("mlx5_0", "mlx5_1"),),
    )
    assert nic_pairs(["mlx5_0", "mlx5_1"], ["mlx5_0", "mlx5_7"]) == ((("mlx5_0", "mlx5_0"), ("mlx5_1", "mlx5_7")),)


def test_inside_a_node_each_nic_meets_both_neighbours_once_as_the_server():
    assert inside(["a", "b", "c", "d"]) == ((("a", "b"), ("c", "d")), (("b", "c"), ("d", "a")))
    assert inside(["a", "b", "c"]) == ((("a", "b"),), (("b", "c"),), (("c", "a"),))
    assert inside(["a", "b"]) == ((("a", "b"),), (("b", "a"),))
    assert inside(["a"]) == inside([]) == ()


@given(FLEETS, COUNTS)
def test_who_meets_several_others_is_server_and_client_about_equally_often(fleet, count):
    paired = rounds(fleet, count)
    turned = with_roles(paired)
    assert [{frozenset(pair) for pair in each} for each in turned] == [
        {frozenset(pair) for pair in each} for each in paired
    ]
    for name in fleet:
        roles = [pair.index(name) for pairs in turned for pair in pairs if name in pair]
        assert abs(roles.count(0) - roles.count(1)) <= 1


def test_any_pairs_are_put_into_rounds_in_which_nobody_is_twice_and_what_does_not_fit_is_left_out():
    pairs = [("a", "b"), ("c", "d"), ("a", "c"), ("b", "a"), ("e", "a")]
    assert in_rounds(pairs, 2) == ((("a", "b"), ("c", "d")), (("a", "c"),))
    assert in_rounds([], 2) == ()
