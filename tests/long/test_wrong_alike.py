"""A fleet whose nodes are all wrong alike has no odd node; it is rejected all the same, and for the right reason."""

from pathlib import Path

import pytest
from fleet.machine import Machine
from support.judged_fleet import judged_alone
from support.wrong_alike import FLEETS, ORDERED, told

from nodegate.claims.prove import claims_of_node
from nodegate.claims.verdict import node_verdict
from nodegate.profile import Profile
from nodegate.records.verdict import NodeVerdict

PAGE = Path(__file__).resolve().parents[2] / "docs" / "evidence" / "wrong-alike.md"


@pytest.mark.parametrize("count", [1, 4, 8])
@pytest.mark.parametrize("alike", FLEETS, ids=[each.name for each in FLEETS])
def test_it_is_not_accepted_and_the_cause_is_told(alike, count):
    found = told(alike, count)
    if count < alike.nodes:
        assert found.verdicts == {NodeVerdict.INCOMPLETE}
    else:
        assert found.verdicts == {NodeVerdict.REJECTED}
        assert alike.told_by in found.failing
        assert found.cause == alike.cause


@pytest.mark.parametrize("alike", FLEETS, ids=[each.name for each in FLEETS])
def test_the_page_has_it_at_every_size(alike):
    page = PAGE.read_text("utf-8")
    for count in (1, 4, 8, 64):
        verdict = NodeVerdict.REJECTED if count >= alike.nodes else NodeVerdict.INCOMPLETE
        assert f"| {alike.name} | {count} | {verdict.value} |" in page, "run bench/wrong_alike.py"


def test_the_same_nodes_without_the_fault_are_accepted():
    records = judged_alone([Machine.hgx_h100(f"node{number:02d}", number) for number in range(1, 5)], ORDERED)
    for each in records.values():
        claims = claims_of_node(Profile.DELIVERY, each, lambda _: "")
        assert node_verdict(each, claims) is NodeVerdict.ACCEPTED, [one for one in claims if one.why]
