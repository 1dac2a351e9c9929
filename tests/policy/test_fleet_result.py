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


def policy(*items: Item, **changes: object) -> Policy:
    whole = Policy("contract", "our contract", "order 4711", "a7" * 32, RULES, {item.claim: item for item in items})
    return replace(whole, **changes)  # type: ignore[arg-type]


def node(name: str, *shown: Shown, verdict: NodeVerdict | None = None, records: tuple[Record, ...] = ()) -> NodeReport:
    """A node of which every claim is proven but these."""
    said = {each.claim: each for each in shown}
    states = {each.state for each in shown if not each.signed}
    of_claims = (
        NodeVerdict.REJECTED
        if State.REFUTED in states
        else NodeVerdict.INCOMPLETE
        if State.NOT_PROVEN in states
        else NodeVerdict.GAPS
        if shown
        else NodeVerdict.ACCEPTED
    )
    whole = tuple(said.get(claim.name) or Shown(claim.name, State.PROVEN, by=claim.proving) for claim in claims())
    return NodeReport(name, verdict or of_claims, "hgx-h100-8", claims=whole, records=records)


def refuted(claim: str) -> Shown:
    return Shown(claim, State.REFUTED, "it failed", ("burn.throughput",))


def unproven(claim: str, signed: str = "", *, left_out: bool = False) -> Shown:
    return Shown(claim, State.NOT_PROVEN, "no tool", ("nccl.all_reduce",), signed, left_out)


def good(count: int) -> list[NodeReport]:
    return [node(f"gpu{index:03}") for index in range(1, count + 1)]


def result(*nodes: NodeReport, by: Policy | None = None, fine: int = 9, **changes: object) -> FleetResult:
    found = fleet_result(Report(replace(DELIVERY, **changes), (*nodes, *good(fine)), policy=by or policy()))
    assert found is not None
    return found


def test_a_fleet_of_which_every_claim_is_proven_is_accepted() -> None:
    assert result() == FleetResult(ACCEPTED, "every claim holds on 9 nodes")


def test_without_a_policy_there_is_no_result() -> None:
    assert fleet_result(Report(DELIVERY, tuple(good(2)))) is None


class TestClassA:
    def test_one_node_refuses_the_fleet_with_the_clause(self) -> None:
        found = result(node("x", refuted("compute")), by=policy(Item("compute", A, "3.1")))
        assert (found.verdict, found.why) == (REFUSED, "class A (clause 3.1): compute refuted on 1 of 10 nodes")

    def test_a_claim_that_is_open_decides_nothing(self) -> None:
        found = result(node("x", unproven("collectives")))
        assert (found.verdict, found.why) == (UNDECIDED, "class A (clause 1): collectives not proven on 1 of 10 nodes")
        assert found.is_no_success

    def test_what_is_refuted_counts_even_where_more_is_open(self) -> None:
        assert result(node("x", refuted("compute")), node("y", unproven("collectives"))).verdict is REFUSED

    def test_so_many_nodes_as_may_fail_are_reserved(self) -> None:
        rules = {**RULES, A: ClassRule("1", 10)}
        assert result(node("x", refuted("compute")), by=policy(classes=rules)).verdict is RESERVATIONS
        more = result(node("x", refuted("compute")), node("y", refuted("logs")), fine=8, by=policy(classes=rules))
        assert more.verdict is REFUSED  # two nodes, whatever claims they fail
        said = "class A (clause 1): compute refuted on 1 of 10 nodes; 1 more claim; 10 % may (clause 1)"
        assert more.why in (said, said.replace("compute", "logs"))

    def test_open_claims_could_be_one_failure_too_many(self) -> None:
        rules = {**RULES, A: ClassRule("1", 10)}
        nodes = [node("x", refuted("compute")), node("y", unproven("logs"))]
        assert result(*nodes, fine=8, by=policy(classes=rules)).verdict is UNDECIDED

    def test_a_claim_with_a_share_of_its_own_is_counted_by_itself(self) -> None:
        by = policy(Item("compute", A, "3.1", may_fail_percent=10))
        assert result(node("x", refuted("compute")), by=by).verdict is RESERVATIONS


class TestClassB:
    def test_it_is_put_right_by_a_date(self) -> None:
        found = result(node("x", refuted("rails")), by=policy(Item("rails", B, "4.2")))
        assert found.verdict is RESERVATIONS
        assert found.why == "class B (clause 4.2): rails refuted on 1 of 10 nodes, until 2026-12-21"
        assert found.of_class(B) == ("x",)
        assert not found.is_no_success

    def test_what_is_open_is_reserved_too_never_fulfilled(self) -> None:
        found = result(node("x", unproven("rails")), by=policy(Item("rails", B, "4.2")))
        assert (found.verdict, found.defects[0].open) == (RESERVATIONS, ("x",))

    def test_on_too_many_nodes_it_refuses(self) -> None:
        nodes = [node(f"x{index}", refuted("rails")) for index in range(3)]
        found = result(*nodes, fine=7, by=policy(Item("rails", B, "4.2")))
        assert found.verdict is REFUSED
        assert found.why.endswith("rails refuted on 3 of 10 nodes, until 2026-12-21; 20 % may (clause 2)")


class TestClassC:
    def test_it_is_a_remark(self) -> None:
        found = result(node("x", refuted("logs")), by=policy(Item("logs", C, "5")))
        assert (found.verdict, found.why) == (ACCEPTED, "no defect of class A or B on 10 nodes; 1 remark")
        assert found.of_class(C) == ("x",)

    def test_a_node_stands_under_its_worst_class(self) -> None:
        by = policy(Item("logs", C, "5"), Item("rails", B, "4.2"))
        found = result(node("x", refuted("logs"), refuted("rails")), by=by)
        assert (found.of_class(B), found.of_class(C)) == (("x",), ())


class TestWhatIsSignedFor:
    def test_a_claim_that_somebody_answers_for_is_a_reservation(self) -> None:
        found = result(node("x", unproven("rails", "perftest comes; owner lee")))
        assert (found.verdict, found.defects[0].signed) == (RESERVATIONS, ("x",))
        assert found.why == "class A (clause 1): rails signed for on 1 of 10 nodes"


class TestAPartOfARun:
    def test_it_decides_nothing(self) -> None:
        for found in (
            result(selection="-k pcie"),
            result(interrupted=True),
            result(profile="nightly"),
            result(node("x", unproven("burned", left_out=True))),
            result(fine=0),
        ):
            assert (found.verdict, found.is_part, found.is_no_success) == (UNDECIDED, True, False)

    def test_but_a_fault_that_it_proves_refuses(self) -> None:
        assert result(node("x", refuted("compute")), selection="-k burn").verdict is REFUSED


class TestWhatBelongsToNoClaim:
    def failed(self, check: str, verdict: Verdict, waiver: str = "") -> Record:
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
    def test_a_check_of_the_site_blocks(self, said: list[Verdict], of_node: NodeVerdict, verdict: FleetVerdict) -> None:
        records = tuple(self.failed(f"site.{each.value}", each) for each in said)
        found = result(node("x", verdict=of_node, records=records))
        assert found.verdict is verdict
        state = "refuted" if verdict is REFUSED else "not proven"
        assert found.why == f"class A (clause 1): other {state} on 1 of 10 nodes"

    def test_unless_the_policy_says_otherwise_or_it_is_waived(self) -> None:
        rejected = node("x", verdict=NodeVerdict.REJECTED, records=(self.failed("site.scratch", Verdict.FAIL),))
        assert result(rejected, by=policy(Item("other", C, "5"))).verdict is ACCEPTED
        records = (self.failed("site.scratch", Verdict.FAIL, waiver="riser on order"),)
        assert result(node("x", verdict=NodeVerdict.WAIVED, records=records)).verdict is RESERVATIONS

    def test_a_failing_check_of_a_claim_that_the_profile_does_not_make_counts_with_it(self) -> None:
        whole = node("x", verdict=NodeVerdict.REJECTED, records=(self.failed("rdma.rails", Verdict.FAIL),))
        made = replace(whole, claims=tuple(each for each in whole.claims if each.claim == "identity"))
        by = policy(Item("counts", B, "2.1"), Item("parts", B, "2.2"))
        assert [each.item.claim for each in result(made, by=by).defects] == ["counts"]

    def test_a_check_of_a_claim_counts_with_its_claim(self) -> None:
        records = (self.failed("rdma_bandwidth.errors", Verdict.ERROR),)
        by = policy(Item("rails", B, "4.2"))
        found = result(node("x", refuted("rails"), records=records), by=by)
        assert [each.item.claim for each in found.defects] == ["rails"]

    def test_a_node_of_which_nothing_is_known_leaves_the_fleet_open(self) -> None:
        for verdict in (NodeVerdict.UNREACHABLE, NodeVerdict.NOT_JUDGED, NodeVerdict.INCOMPLETE):
            lost = NodeReport("x", verdict, "hgx-h100-8")
            assert result(lost).verdict is UNDECIDED


class TestWhatIsNotMeasured:
    def test_of_class_a_it_is_never_accepted(self) -> None:
        found = result(by=policy(Item("storage", A, "6", title="the checkpoint rate")))
        assert found.verdict is UNDECIDED
        assert found.why == "class A (clause 6): storage not measured by nodegate, on 9 of 9 nodes"

    def test_of_class_b_it_is_a_reservation_whatever_the_share_and_puts_no_node_into_a_class(self) -> None:
        found = result(by=policy(Item("storage", B, "6", title="the checkpoint rate")))
        assert (found.verdict, found.of_class(B)) == (RESERVATIONS, ())


def test_a_node_of_a_platform_that_the_policy_is_not_for_leaves_the_fleet_open() -> None:
    found = result(by=policy(platforms=("hgx-h200-8",)))
    assert found.why == "class A (clause 1): platform not proven on 9 of 9 nodes"
    assert found.verdict is UNDECIDED
