"""The result for the fleet: which class of defect, on how many nodes, refuses it, reserves it, or leaves it open."""

from dataclasses import replace

import pytest
from support.sample_report import run

from nodegate.claims.table import claims
from nodegate.policy.policy import ClassRule, DefectClass, Item, Policy
from nodegate.records.claim import Shown, State
from nodegate.records.finding import Finding, Record
from nodegate.records.part import NODE
from nodegate.records.run import NodeReport
from nodegate.records.verdict import NodeVerdict, Verdict
from nodegate.report.fleet_result import FleetResult, FleetVerdict, fleet_result
from nodegate.report.model import Report

A, B, C = DefectClass.A, DefectClass.B, DefectClass.C
ACCEPTED, RESERVATIONS = FleetVerdict.ACCEPTED, FleetVerdict.RESERVATIONS
REFUSED, UNDECIDED = FleetVerdict.REFUSED, FleetVerdict.UNDECIDED
RULES = {A: ClassRule("1"), B: ClassRule("2", 20, 30), C: ClassRule("3", 100)}
DELIVERY = run(finished_epoch_s=1_795_252_145.0)  # 2026-11-21


def policy(*items, **changes):
    whole = Policy("contract", "our contract", "order 4711", "a7" * 32, RULES, {item.claim: item for item in items})
    return replace(whole, **changes)  # type: ignore[arg-type]


def node(name, *shown, verdict=None, records=()):
    """A node of which every claim is proven but these."""
    said = {each.claim: each for each in shown}
    states = {each.state for each in shown if not each.signed}
    of_claims = NodeVerdict.GAPS if shown else NodeVerdict.ACCEPTED
    if State.REFUTED in states:
        of_claims = NodeVerdict.REJECTED
    elif State.NOT_PROVEN in states:
        of_claims = NodeVerdict.INCOMPLETE
    whole = tuple(said.get(claim.name) or Shown(claim.name, State.PROVEN, by=claim.proving) for claim in claims())
    return NodeReport(name, verdict or of_claims, "hgx-h100-8", claims=whole, records=records)


def refuted(claim):
    return Shown(claim, State.REFUTED, "it failed", ("burn.throughput",))


def unproven(claim, signed="", *, left_out=False):
    return Shown(claim, State.NOT_PROVEN, "no tool", ("nccl.all_reduce",), signed, left_out)


def good(count):
    return [node(f"gpu{index:03}") for index in range(1, count + 1)]


def result(*nodes, by=None, fine=9, **changes):
    found = fleet_result(Report(replace(DELIVERY, **changes), (*nodes, *good(fine)), policy=by or policy()))
    assert found is not None
    return found


def test_a_fleet_of_which_every_claim_is_proven_is_accepted():
    assert result() == FleetResult(ACCEPTED, "every claim holds on 9 nodes")


def test_without_a_policy_there_is_no_result():
    assert fleet_result(Report(DELIVERY, tuple(good(2)))) is None


LENIENT, RAILS = {**RULES, A: ClassRule("1", 10)}, Item("rails", B, "4.2")
X, ONE = refuted("compute"), "on 1 of 10 nodes"


@pytest.mark.parametrize(
    ("shown", "items", "verdict", "why"),
    [
        ([X], [Item("compute", A, "3.1")], REFUSED, f"class A (clause 3.1): compute refuted {ONE}"),
        ([unproven("logs")], [], UNDECIDED, f"class A (clause 1): logs not proven {ONE}"),
        ([unproven("rails", "lee")], [], RESERVATIONS, f"class A (clause 1): rails signed for {ONE}"),
        ([refuted("rails")], [RAILS], RESERVATIONS, f"class B (clause 4.2): rails refuted {ONE}, until 2026-12-21"),
        ([unproven("rails")], [RAILS], RESERVATIONS, f"class B (clause 4.2): rails not proven {ONE}, until 2026-12-21"),
        ([refuted("logs")], [Item("logs", C, "5")], ACCEPTED, "no defect of class A or B on 10 nodes; 1 remark"),
    ],
    ids=["A", "A open", "A signed for", "B until a date", "B open", "C a remark"],
)
def test_a_node_that_fails_a_claim(shown, items, verdict, why):
    found = result(node("x", *shown), by=policy(*items))
    assert (found.verdict, found.why) == (verdict, why)
    assert found.is_no_success is (verdict in (REFUSED, UNDECIDED))
    if items:
        assert found.of_class(items[0].defect_class) == ("x",)


@pytest.mark.parametrize(
    ("second", "by", "verdict"),
    [
        ([unproven("collectives")], policy(), REFUSED),
        ([], policy(classes=LENIENT), RESERVATIONS),
        ([refuted("logs")], policy(classes=LENIENT), REFUSED),  # two nodes, whatever claims they fail
        ([unproven("logs")], policy(classes=LENIENT), UNDECIDED),  # it could be one failure too many
        ([], policy(Item("compute", A, "3.1", may_fail_percent=10)), RESERVATIONS),
    ],
    ids=["beside what is open", "as many as may", "one more", "one more is open", "a share of the claim's own"],
)
def test_how_many_nodes_may_fail(second, by, verdict):
    assert result(node("x", X), node("y", *second), fine=8, by=by).verdict is verdict


def test_on_too_many_nodes_class_b_refuses():
    found = result(*(node(f"x{index}", refuted("rails")) for index in range(3)), fine=7, by=policy(RAILS))
    assert found.verdict is REFUSED
    assert found.why.endswith("rails refuted on 3 of 10 nodes, until 2026-12-21; 20 % may (clause 2)")


def test_a_node_stands_under_its_worst_class():
    found = result(node("x", refuted("logs"), refuted("rails")), by=policy(Item("logs", C, "5"), RAILS))
    assert (found.of_class(B), found.of_class(C)) == (("x",), ())


def test_a_part_of_a_run_decides_nothing():
    for found in (
        result(selection="-k pcie"),
        result(interrupted=True),
        result(profile="nightly"),
        result(node("x", unproven("burned", left_out=True))),
        result(fine=0),
    ):
        assert (found.verdict, found.is_part, found.is_no_success) == (UNDECIDED, True, False)


def test_a_part_of_a_run_that_proves_a_fault_refuses():
    assert result(node("x", refuted("compute")), selection="-k burn").verdict is REFUSED


def failed(check, verdict, waiver=""):
    return Record("x", check, verdict, (Finding(NODE, verdict, text="no", action="look"),), waiver=waiver)


@pytest.mark.parametrize(
    ("said", "of_node", "verdict"),
    [
        ([Verdict.FAIL], NodeVerdict.REJECTED, REFUSED),
        ([Verdict.ERROR], NodeVerdict.INCOMPLETE, UNDECIDED),
        ([Verdict.FAIL, Verdict.ERROR], NodeVerdict.REJECTED, REFUSED),  # the worst of them counts
        ([Verdict.ERROR, Verdict.FAIL], NodeVerdict.REJECTED, REFUSED),
    ],
)
def test_a_check_of_the_site_blocks(said, of_node, verdict):
    records = tuple(failed(f"site.{each.value}", each) for each in said)
    found = result(node("x", verdict=of_node, records=records))
    assert found.verdict is verdict
    state = "refuted" if verdict is REFUSED else "not proven"
    assert found.why == f"class A (clause 1): other {state} on 1 of 10 nodes"


def test_a_check_of_the_site_does_not_block_where_the_policy_says_so_or_it_is_waived():
    rejected = node("x", verdict=NodeVerdict.REJECTED, records=(failed("site.scratch", Verdict.FAIL),))
    assert result(rejected, by=policy(Item("other", C, "5"))).verdict is ACCEPTED
    records = (failed("site.scratch", Verdict.FAIL, waiver="riser on order"),)
    assert result(node("x", verdict=NodeVerdict.WAIVED, records=records)).verdict is RESERVATIONS


def test_a_failing_check_of_a_claim_that_the_profile_does_not_make_counts_with_it():
    whole = node("x", verdict=NodeVerdict.REJECTED, records=(failed("rdma.rails", Verdict.FAIL),))
    made = replace(whole, claims=tuple(each for each in whole.claims if each.claim == "identity"))
    by = policy(Item("counts", B, "2.1"), Item("parts", B, "2.2"))
    assert [each.item.claim for each in result(made, by=by).defects] == ["counts"]


def test_a_check_of_a_claim_counts_with_its_claim():
    records = (failed("rdma_bandwidth.errors", Verdict.ERROR),)
    by = policy(Item("rails", B, "4.2"))
    found = result(node("x", refuted("rails"), records=records), by=by)
    assert [each.item.claim for each in found.defects] == ["rails"]


def test_a_node_of_which_nothing_is_known_leaves_the_fleet_open():
    for verdict in (NodeVerdict.UNREACHABLE, NodeVerdict.NOT_JUDGED, NodeVerdict.INCOMPLETE):
        lost = NodeReport("x", verdict, "hgx-h100-8")
        assert result(lost).verdict is UNDECIDED


def test_what_is_not_measured_is_of_class_a_never_accepted():
    found = result(by=policy(Item("storage", A, "6", title="the checkpoint rate")))
    assert found.verdict is UNDECIDED
    assert found.why == "class A (clause 6): storage not measured by nodegate, on 9 of 9 nodes"


def test_what_is_not_measured_is_of_class_b_a_reservation_and_puts_no_node_into_a_class():
    found = result(by=policy(Item("storage", B, "6", title="the checkpoint rate")))
    assert (found.verdict, found.of_class(B)) == (RESERVATIONS, ())


def test_a_node_of_a_platform_that_the_policy_is_not_for_leaves_the_fleet_open():
    found = result(by=policy(platforms=("hgx-h200-8",)))
    assert found.why == "class A (clause 1): platform not proven on 9 of 9 nodes"
    assert found.verdict is UNDECIDED
