"""One decision a node: what records, claims and causes say agrees, and where it does not the worse one counts."""

import re
from functools import cache

import pytest
from fleet.machine import Machine
from hypothesis import given
from hypothesis import strategies as st

from bench.silent_values import checks_of, records_of
from nodegate import suite
from nodegate.causes.fleet import fleet_causes
from nodegate.claims.prove import claims_of_node
from nodegate.judge.judge import record_of
from nodegate.knowledge.tables import lines
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
def test_the_worst_cause_that_is_no_remark_says_the_verdict(drawn):
    records = [record_of(check, "gpu01", findings) for check, findings in drawn]
    claims = claims_of_node(Profile.DELIVERY, records, str)
    decided = decide("gpu01", records, claims)
    assert not decided.disagrees
    errors = [each for record in records for each in record.findings if each.verdict is Verdict.ERROR]
    told = [each.finding for cause in decided.causes for each in cause.findings]
    assert all(error in told for error in errors)


@given(st.sampled_from(CHECKS), st.sampled_from(CHECKS), st.sampled_from(PARTS[1:]))
def test_a_warning_swallows_no_error_of_its_part(one, other, part):
    warned = Finding(part, Verdict.WARN, text="a cable error, once", code="nic_cable_error")  # type: ignore[arg-type]
    unread = Finding(part, Verdict.ERROR, "rate", text="EIO", why=Why.FAILED)  # type: ignore[arg-type]
    records = [record_of(one, "gpu01", [warned]), record_of(other, "gpu01", [unread])]
    causes = decide("gpu01", records).causes
    assert {cause.verdict for cause in causes} == {Verdict.WARN, Verdict.ERROR}


@pytest.mark.parametrize("claimed", [State.PROVEN, State.NOT_PROVEN])
def test_where_they_differ_the_worse_counts_and_both_are_named(claimed, monkeypatch):
    """No input leads here: the table of causes would have to lose a finding."""
    failed = (Record("gpu01", "gpu.lost", Verdict.FAIL, (Finding(gpu(3), Verdict.FAIL, text="gone"),)),)
    monkeypatch.setattr(decision, "causes_of", lambda *_: ())
    decided = decide("gpu01", failed, [Shown("parts", claimed)])
    assert (decided.verdict, decided.records[-1].check) == (NodeVerdict.REJECTED, DISAGREES)
    assert "its records and claims say rejected, its causes say nothing" in decided.records[-1].message
    told = outcome_of(failed)
    assert (told.exit, told.line.partition(":")[0]) == (Exit.UNKNOWN, "could not tell")


# A warning and a reading that failed on one part are told side by side


UNREAD = {"why": "failed", "detail": "[Errno 5] Input/output error"}
ADDRESS = re.compile(r"\b(?:[0-9a-f]{4}:)?[0-9a-f]{2}:[0-9a-f]{2}(?:\.[0-7])?\b")
WARNINGS = {rule.id: rule for rule in lines() if rule.bootcheck is Verdict.WARN}
NIC, GPU = "mlx5_2", "GPU 3"
LEFT_TO_THE_MACHINE = {"ports", "counters", "hw_counters", "gids", "gid_types", "index", "bus_id", "pci"}


def without(part, reading):
    made = Machine.hgx_h100("gpu01")
    if part == GPU:
        made.set_gpu(3, reading, UNREAD)
        return made
    adapter = made.sections["infiniband"][NIC]
    (adapter if reading in adapter else adapter["ports"]["1"])[reading] = UNREAD
    return made


AT_BOOTCHECK = checks_of(Profile.BOOTCHECK)
OF_THE_LOG = [check for check in AT_BOOTCHECK if "kernel_log" in check.asks_for]  # a line changes nothing of the others


def unread(causes):
    """What could not be read: by check, part and reading."""
    found = [each.decisive for each in causes if each.verdict is Verdict.ERROR]
    return {(each.check, each.finding.part.short, each.finding.quantity) for each in found}


@cache
def readings(part):
    """The readings that a bootcheck cannot do without: its records where one fails, what it lacks then, its line."""
    made = Machine.hgx_h100("gpu01")
    adapter = made.sections["infiniband"][NIC]
    names = made.sections["nvml"]["gpus"][3] if part == GPU else {**adapter, **adapter["ports"]["1"]}
    found = {}
    for name in sorted(names.keys() - LEFT_TO_THE_MACHINE):
        records = records_of(without(part, name), Profile.BOOTCHECK, AT_BOOTCHECK)
        said = tuple(records.values())
        if missed := unread(decide("gpu01", said).causes):
            found[name] = records, missed, outcome_of(said).line
    return found


def test_there_are_such_readings_of_both_parts():
    assert readings(NIC).keys() >= {"rate", "phys_state", "state", "link_layer"}
    assert readings(GPU).keys() >= {"serial", "uuid", "persistence_mode", "nvlinks", "ecc"}


@pytest.mark.parametrize("rule", WARNINGS)
def test_a_warning_changes_nothing_of_what_is_said_of_a_reading_that_failed(rule):
    part = NIC if WARNINGS[rule].part.startswith("NIC") else GPU
    for reading, (before, missed, line) in readings(part).items():
        made = without(part, reading)
        address = made.nic_address(2) if part == NIC else made.gpu_address(3)
        made.kernel(ADDRESS.sub(address, WARNINGS[rule].example), ago_s=600)
        said = tuple({**before, **records_of(made, Profile.BOOTCHECK, OF_THE_LOG)}.values())
        decided = decide("gpu01", said)
        assert unread(decided.causes) == missed, reading
        assert {each.decisive.check.partition(".")[0] for each in decided.causes if each.verdict is Verdict.WARN}, (
            reading
        )
        assert decided.verdict is NodeVerdict.INCOMPLETE
        told = outcome_of(said)
        assert (told.exit, told.line) == (Exit.UNKNOWN, line), reading
        of_the_run = fleet_causes({"gpu01": decided.causes}, {})
        assert {each.verdict for each in of_the_run} >= {Verdict.WARN, Verdict.ERROR}
        assert unread(of_the_run) == missed
