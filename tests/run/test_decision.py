"""One decision a node: what records, claims and causes say agrees, and where it does not the worse one counts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodegate import suite
from nodegate.claims.prove import claims_of_node
from nodegate.judge.judge import record_of
from nodegate.profile import Profile
from nodegate.records.claim import Shown, State
from nodegate.records.finding import Finding, Record
from nodegate.records.part import NODE, gpu, nic
from nodegate.records.verdict import NodeVerdict, Verdict
from nodegate.run import decision
from nodegate.run.bootcheck import Exit, outcome_of
from nodegate.run.decision import DISAGREES, decide
from nodegate.unknown import Why

CHECKS = suite.checks_of(Profile.DELIVERY)
PARTS = (NODE, gpu(3, address="0000:1b:00.0"), nic("mlx5_2", address="0000:5c:00.0"))
FINDINGS = st.builds(
    Finding,
    st.sampled_from(PARTS),
    st.sampled_from(Verdict),
    st.sampled_from(("", "rate", "temperature")),
    text=st.sampled_from(("seen", "not seen")),
    code=st.sampled_from(("", "79", "down")),
    why=st.sampled_from((None, *Why)),
    blocked_by=st.sampled_from(("", "gpu.lost", "rdma.port_state")),
)
RECORDS = st.lists(
    st.tuples(st.sampled_from(CHECKS), st.lists(FINDINGS, min_size=1, max_size=3)),
    max_size=8,
    unique_by=lambda one: one[0].id,
)


@given(RECORDS)
def test_the_worst_cause_that_is_no_remark_says_the_verdict(drawn: list[tuple[suite.Check, list[Finding]]]) -> None:
    records = [record_of(check, "gpu01", findings) for check, findings in drawn]
    claims = claims_of_node(Profile.DELIVERY, records, str)
    decided = decide("gpu01", records, claims)
    assert not decided.disagrees
    errors = [each for record in records for each in record.findings if each.verdict is Verdict.ERROR]
    told = [each.finding for cause in decided.causes for each in cause.findings]
    assert all(error in told for error in errors)


@given(st.sampled_from(CHECKS), st.sampled_from(CHECKS), st.sampled_from(PARTS[1:]))
def test_a_warning_swallows_no_error_of_its_part(one: suite.Check, other: suite.Check, part: object) -> None:
    warned = Finding(part, Verdict.WARN, text="a cable error, once", code="nic_cable_error")  # type: ignore[arg-type]
    unread = Finding(part, Verdict.ERROR, "rate", text="EIO", why=Why.FAILED)  # type: ignore[arg-type]
    records = [record_of(one, "gpu01", [warned]), record_of(other, "gpu01", [unread])]
    causes = decide("gpu01", records).causes
    assert {cause.verdict for cause in causes} == {Verdict.WARN, Verdict.ERROR}


@pytest.mark.parametrize("claimed", [State.PROVEN, State.NOT_PROVEN])
def test_where_they_differ_the_worse_counts_and_both_are_named(claimed: State, monkeypatch: pytest.MonkeyPatch) -> None:
    """No input leads here: the table of causes would have to lose a finding."""
    failed = (Record("gpu01", "gpu.lost", Verdict.FAIL, (Finding(gpu(3), Verdict.FAIL, text="gone"),)),)
    monkeypatch.setattr(decision, "causes_of", lambda *_: ())
    decided = decide("gpu01", failed, [Shown("parts", claimed)])
    assert (decided.verdict, decided.records[-1].check) == (NodeVerdict.REJECTED, DISAGREES)
    assert "its records and claims say rejected, its causes say nothing" in decided.records[-1].message
    told = outcome_of(failed)
    assert (told.exit, told.line.partition(":")[0]) == (Exit.UNKNOWN, "could not tell")
