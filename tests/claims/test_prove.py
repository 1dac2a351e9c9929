"""What the records of a node show of its claims."""

from dataclasses import replace

import pytest

from nodegate.claims.prove import ENDED, LEFT_OUT, claims_of_node, shown
from nodegate.claims.verdict import node_verdict
from nodegate.errors import ByDesign, NotApplicable, NotDemanded, NotDone
from nodegate.judge.judge import refusal
from nodegate.profile import Profile
from nodegate.records.claim import Amount, Claim, Shown, State, in_words
from nodegate.records.finding import Finding, Limit, LimitKind, Record
from nodegate.records.part import gpu
from nodegate.records.verdict import NodeVerdict, Verdict, worst
from nodegate.unknown import Why

COMPUTE = Claim(
    "compute", "every GPU computes as fast as its model", "nightly", proof=("burn.results",), numbers=("burn.speed",),
    speak=("burn.*",),
)  # fmt: skip
CHECKS = ("burn.results", "burn.speed", "burn.clock")


def record(check, *findings, waiver=""):
    return Record("gpu01", check, worst(each.verdict for each in findings), findings, waiver=waiver)


def found(verdict=Verdict.PASS, *, index=0, kind=LimitKind.BASELINE):
    return Finding(gpu(index), verdict, "bf16", 700.0, "TFLOPS", Limit(650.0, "TFLOPS", "h100.yaml", kind=kind))


RESULTS = record("burn.results", Finding(gpu(0), Verdict.PASS, "results"))
SPEED = record("burn.speed", found(), found(index=1))


def of(*records):
    (each,) = shown([COMPUTE], records, CHECKS)
    return each


def left(why, **more):
    return Shown("compute", State.NOT_PROVEN, why, ("burn.speed",), **more)


PROVEN = Shown("compute", State.PROVEN, by=("burn.results", "burn.speed"))
COMPARED = left("no absolute limit: compared with other nodes or parts only")
FLOOR = left("the value of a good board is unknown, there is only a floor of 650 TFLOPS (h100.yaml)")
PROVING = [kind for kind in LimitKind if kind.is_absolute and kind is not LimitKind.FLOOR]
UNJUDGED = replace(found(Verdict.NOT_JUDGED, index=1), limit=None, note="no limit burn.speed")
WAIVER = "slow by contract (owner me, expires 2027-01-01)"
WAIVED_CLOCK = record("burn.clock", found(Verdict.FAIL, index=3), waiver=WAIVER)
OPENS = (NotDone("no other node takes part"), NotApplicable("nobody looked"))


@pytest.mark.parametrize(
    ("others", "said"),
    [
        ([SPEED], PROVEN),
        *(([record("burn.speed", found(kind=kind))], PROVEN) for kind in PROVING),
        ([record("burn.speed", found(kind=LimitKind.FLOOR))], FLOOR),
        *(
            ([record("burn.speed", found(), found(index=1, kind=kind))], COMPARED)
            for kind in LimitKind
            if not kind.is_absolute
        ),
        ([record("burn.speed", found(), UNJUDGED)], left("no limit burn.speed")),
        ([record("burn.speed", Finding(gpu(0), Verdict.ERROR, text="no libcuda"))], left("no libcuda")),
        (
            [record("burn.speed", found(), replace(found(Verdict.WARN, index=1), observed=600.0))],
            left("GPU 1: bf16 600 TFLOPS, expected 650 TFLOPS"),
        ),
        *(([record("burn.speed", refusal(each, node="gpu01"))], left(str(each))) for each in OPENS),
        ([], left(LEFT_OUT, left_out=True)),
        ([WAIVED_CLOCK], left(LEFT_OUT, left_out=True)),
    ],
)
def test_a_claim_is_proven_where_every_check_passes_and_every_part_keeps_an_absolute_limit(others, said):
    assert of(RESULTS, *others) == said


def test_what_was_asked_for_and_has_no_verdict_says_that_the_run_ended():
    assert shown([COMPUTE], [RESULTS], CHECKS, asked=CHECKS) == (left(ENDED, is_ended=True),)
    assert shown([COMPUTE], [RESULTS], CHECKS, asked=("burn.results",)) == (left(LEFT_OUT, left_out=True),)


def test_a_failure_of_any_check_that_speaks_to_it_refutes_it():
    clock = record("burn.clock", found(Verdict.FAIL, index=3))
    refuted = of(RESULTS, SPEED, clock)
    assert (refuted.state, refuted.by) == (State.REFUTED, ("burn.clock",))
    assert refuted.why.startswith("GPU 3: bf16 700 TFLOPS, expected 650 TFLOPS")


CLOSES = (ByDesign("only one GPU", witness="h100.yaml gpu.count"), NotDemanded("the inventory requires none"))


@pytest.mark.parametrize("silence", CLOSES, ids=repr)
def test_a_check_that_is_silent_by_design_or_undemanded_counts_for_nothing(silence):
    absent = record("burn.speed", refusal(silence, node="gpu01"))
    assert of(RESULTS, absent) == Shown("compute", State.PROVEN, by=("burn.results",))
    none_applies = record("burn.results", refusal(silence, node="gpu01"))
    assert shown([COMPUTE], [none_applies, absent], CHECKS) == ()


SILENT = replace(COMPUTE, silent_ok=(("burn.gpu_burn", "burn.results compares every word"),), speak=())


@pytest.mark.parametrize(
    ("said", "state"),
    [
        (Finding(gpu(0), Verdict.SKIP, text="not installed", why=Why.NOT_DONE), State.PROVEN),
        (Finding(gpu(0), Verdict.NOT_JUDGED, text="no limit"), State.PROVEN),
        (Finding(gpu(0), Verdict.WARN, text="a little slow"), State.PROVEN),
        (Finding(gpu(0), Verdict.ERROR, text="it crashed"), State.NOT_PROVEN),
        (Finding(gpu(0), Verdict.FAIL, text="wrong results"), State.REFUTED),
    ],
)
def test_a_check_that_may_be_silent_is_excused_of_silence_alone(said, state):
    (each,) = shown([SILENT], [RESULTS, SPEED, record("burn.gpu_burn", said)], CHECKS)
    assert each.state is state


def test_a_claim_rests_on_checks_of_other_claims():
    burned = Claim("burned", "all GPUs worked hot", "nightly", proof=("burn.heat",), rests_on=("burn.results",))
    heat = record("burn.heat", found())
    (left,) = shown([burned], [heat], ("burn.heat", "burn.results"))
    assert (left.state, left.by) == (State.NOT_PROVEN, ("burn.results",))
    (whole,) = shown([burned], [heat, RESULTS], ("burn.heat", "burn.results"))
    assert whole.state is State.PROVEN


@pytest.mark.parametrize(("names", "claim"), [("", "site"), ("configuration", "configuration")])
def test_a_check_of_the_site_opens_the_claim_that_it_names(names, claim):
    own = replace(record("ours.door", refusal(NotDone("nobody looked"), node="gpu01")), claim=names)
    found = {each.claim: each for each in claims_of_node(Profile.BOOTCHECK, [own], str)}
    assert (found[claim].state, found[claim].by) == (State.NOT_PROVEN, ("ours.door",))


def test_of_two_nodes_the_pair_is_the_fleet():
    made = [{each.claim for each in claims_of_node(Profile.DELIVERY, [RESULTS], str, nodes=nodes)} for nodes in (1, 2)]
    assert made[0] - made[1] == {"collectives_rack_fleet"}


def test_a_waived_failure_is_no_proof():
    waived = record("burn.speed", found(Verdict.FAIL), waiver=WAIVER)
    claim = of(RESULTS, waived)
    assert (claim.state, claim.is_waived, claim.signed) == (State.NOT_PROVEN, True, waived.waiver)
    assert node_verdict([RESULTS, waived], [claim]) is NodeVerdict.WAIVED


@pytest.mark.parametrize(
    "speed",
    [
        record("burn.speed", UNJUDGED),
        record("burn.speed", found(Verdict.FAIL), UNJUDGED, waiver=WAIVER),
        record("burn.speed", found(Verdict.FAIL), found(index=1, kind=LimitKind.FLEET), waiver=WAIVER),
    ],
    ids=["of another check", "of the same check", "and the other parts were only compared"],
)
def test_who_waives_a_failure_has_not_signed_for_what_nothing_proves(speed):
    claim = of(RESULTS, speed, WAIVED_CLOCK)
    assert (claim.state, claim.is_waived, claim.signed, claim.by) == (State.NOT_PROVEN, False, "", ("burn.speed",))
    assert node_verdict([RESULTS, speed, WAIVED_CLOCK], [claim]) is NodeVerdict.INCOMPLETE


OPEN = Shown("compute", State.NOT_PROVEN, "no limit", ("burn.speed",))


@pytest.mark.parametrize(
    ("claims", "verdict"),
    [
        ([Shown("compute", State.PROVEN)], NodeVerdict.ACCEPTED),
        ([OPEN], NodeVerdict.INCOMPLETE),
        ([replace(OPEN, signed="site (owner me)")], NodeVerdict.GAPS),
        ([replace(OPEN, signed="site (owner me)"), OPEN], NodeVerdict.INCOMPLETE),
        ([replace(OPEN, left_out=True)], NodeVerdict.INCOMPLETE),
    ],
)
def test_a_node_is_accepted_only_where_nothing_is_open_that_nobody_signed_for(claims, verdict):
    assert node_verdict([RESULTS, SPEED], claims) is verdict


def test_a_failure_and_an_error_come_before_what_is_signed():
    signed = [replace(OPEN, signed="site (owner me)")]
    assert node_verdict([RESULTS, record("burn.clock", found(Verdict.FAIL))], signed) is NodeVerdict.REJECTED
    assert node_verdict([RESULTS, record("burn.clock", found(Verdict.ERROR))], signed) is NodeVerdict.INCOMPLETE


def test_what_is_proven_says_how_much():
    telling = replace(COMPUTE, amounts=("burn.speed", "burn.results"))
    (proven,) = shown(
        [telling], [RESULTS, record("burn.speed", found(), replace(found(index=1), observed=712.5))], CHECKS
    )
    (unproven,) = shown([telling], [record("burn.speed", found())], CHECKS)
    assert (unproven.state, unproven.amounts) == (State.NOT_PROVEN, ())
    assert proven.amounts == (Amount("bf16", "TFLOPS", 700.0, 712.5, 2, "GPU"),)
    assert in_words(proven.amounts) == "2 GPUs: bf16 700 to 712 TFLOPS"
    assert (
        in_words([*proven.amounts, Amount("bf16", "TFLOPS", 690.0, 701.0, 8, "GPU")])
        == "10 GPUs: bf16 690 to 712 TFLOPS"
    )
