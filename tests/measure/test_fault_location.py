"""Which end of a bad pair is bad, and a rail that is bad now and then: never by a path, nor by one partner."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodegate.measure.rdma.beside import how_often
from nodegate.measure.rdma.findings import Fault, Trial, locate_fault
from nodegate.measure.rdma.result import BANDWIDTHS, LinkRun, RdmaBandwidth
from nodegate.records.program_run import LinkNotes, LinkPlan
from nodegate.records.verdict import Verdict
from nodegate.tools.perftest import Trouble


def good(partner, known=None):
    return Trial(partner, good=True, partner_good=known)


def bad(partner, known=None):
    return Trial(partner, good=False, partner_good=known)


@pytest.mark.parametrize(
    ("trials", "fault"),
    [
        ([], Fault.UNTRIED),
        ([good("a"), good("b")], Fault.NONE),
        ([bad("a"), bad("b"), bad("c")], Fault.HERE),
        ([bad("a", known=True)], Fault.HERE),
        ([bad("a", known=False), bad("b", known=True)], Fault.HERE),
        ([bad("a"), good("b")], Fault.PATH_OR_PARTNER),
        ([bad("a", known=True), good("b")], Fault.PATH),
        ([bad("a", known=False), good("b")], Fault.PARTNER),
        ([bad("a", known=False), bad("c", known=True), good("b")], Fault.PATH),
        ([bad("a")], Fault.EITHER),
        ([bad("a", known=False)], Fault.UNPROVEN),
        ([bad("a", known=False), bad("b", known=False)], Fault.UNPROVEN),
        ([bad("a"), good("a"), good("b")], Fault.NONE),  # with whom it went well the second time, it was disturbed
    ],
)
def test_the_fault_is_where_both_ends_differ_from_their_others(trials, fault):
    assert locate_fault(trials).fault is fault


def test_partners_are_named_once():
    found = locate_fault([bad("a"), bad("a"), good("b"), good("b")])
    assert (found.bad_with, found.good_with) == (("a",), ("b",))


TRIALS = st.lists(st.builds(Trial, st.sampled_from("abcd"), st.booleans(), st.sampled_from([None, True, False])))


@given(TRIALS)
def test_who_did_well_with_anybody_is_never_blamed(trials):
    if any(trial.good for trial in trials):
        assert locate_fault(trials).fault not in {Fault.HERE, Fault.EITHER, Fault.UNPROVEN, Fault.UNTRIED}


@given(TRIALS)
def test_who_did_well_with_nobody_never_passes(trials):
    if not any(trial.good for trial in trials):
        assert locate_fault(trials).fault in {Fault.HERE, Fault.EITHER, Fault.UNPROVEN, Fault.UNTRIED}


PASS, WARN, FAIL = Verdict.PASS, Verdict.WARN, Verdict.FAIL
RAIL, OTHER = "mlx5_0", "mlx5_1"
HUNG = None
OF_SETUP = "setup"  # it could not be run, which says nothing of the rail


def measured(seen, *, device=RAIL, planned=8):
    runs = [
        LinkRun(
            name=BANDWIDTHS[0],
            attempt=0,
            link=LinkPlan(peer, RAIL, device=device),
            notes=LinkNotes(),
            value=value if isinstance(value, float) else None,
            trouble=None if isinstance(value, float) else Trouble(value or "link", "it hung", "look"),
        )
        for peer, values in seen.items()
        for value in values
    ]
    return RdmaBandwidth(tuple(runs), frozenset(f"mlx5_{at}" for at in range(planned)), len(seen), {}, ())


GOOD = [390.0] * 3


@pytest.mark.parametrize(
    ("seen", "hung", "verdict"),
    [
        ({"a": GOOD, "b": GOOD, "c": GOOD}, True, PASS),
        ({"a": [HUNG, 390.0, HUNG], "b": [HUNG, 390.0, 390.0], "c": [390.0, HUNG, 390.0]}, True, FAIL),
        ({"a": [HUNG, 390.0, HUNG], "b": GOOD, "c": GOOD}, True, PASS),  # one partner, or the path to it
        ({"a": [HUNG, 390.0, HUNG], "b": [HUNG, 390.0, HUNG], "c": GOOD, "d": GOOD}, True, PASS),  # half of them
        ({"a": [HUNG, HUNG], "b": [HUNG, HUNG], "c": [HUNG, HUNG]}, True, PASS),  # always bad is no coming and going
        ({"a": [HUNG, 390.0], "b": [HUNG, 390.0]}, True, PASS),  # without the worst partner one is left: chance
        ({"a": [OF_SETUP, 390.0], "b": [OF_SETUP, 390.0], "c": [OF_SETUP, 390.0]}, True, PASS),
        ({"a": [190.0, 390.0, 190.0], "b": [190.0, 390.0, 190.0], "c": [190.0, 390.0, 190.0]}, False, FAIL),
        ({"a": [340.0, 390.0, 340.0], "b": [340.0, 390.0, 340.0], "c": [340.0, 390.0, 340.0]}, False, FAIL),
        ({"a": [190.0, 390.0, 190.0], "b": [190.0, 390.0, 190.0], "c": [190.0, 390.0, 190.0]}, True, PASS),  # none hung
        ({"a": [360.0, 390.0, 360.0], "b": [360.0, 390.0, 360.0], "c": [360.0, 390.0, 360.0]}, False, PASS),
        ({"a": [190.0, HUNG, 390.0], "b": [190.0, HUNG, 390.0], "c": [390.0] * 3}, False, PASS),  # two of six: chance
    ],
)
def test_a_rail_that_is_bad_now_and_then(seen, hung, verdict):
    assert how_often(measured(seen), RAIL, hung=hung)[0] is verdict


def test_it_is_said_in_how_many_transfers_and_with_whom():
    seen = {"a": [HUNG, 390.0, HUNG], "b": [HUNG, 390.0, 390.0], "c": [390.0, HUNG, 390.0]}
    said = "hung or ended with an error in 4 of 9 transfers, with 3 of 3 partners"
    assert how_often(measured(seen), RAIL, hung=True)[1] == said


def test_another_rail_says_nothing_of_it():
    seen = {"a": [HUNG, 390.0, HUNG], "b": [HUNG, 390.0, 390.0], "c": [390.0, HUNG, 390.0]}
    assert how_often(measured(seen, device=OTHER), RAIL, hung=True) == (PASS, "")


def test_of_many_rails_one_is_bad_by_chance_sooner():
    seen = {"a": [190.0, 390.0, 390.0], "b": [190.0, 390.0, 390.0], "c": [190.0, 390.0, 390.0]}
    told = [how_often(measured(seen, planned=planned), RAIL, hung=False)[0] for planned in (1, 8, 64)]
    assert told == [WARN, PASS, PASS]
