"""Which end of a bad pair is bad."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodegate.measure.rdma.findings import Fault, Trial, locate_fault


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
