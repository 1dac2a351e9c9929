"""Records: what `judge` makes of a check that finds, refuses or breaks, and what a node is by all of its records."""

from collections.abc import Callable
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodegate.claims.verdict import node_verdict
from nodegate.errors import CannotMeasure, NotApplicable, NotJudged
from nodegate.judge.judge import judge, record_of
from nodegate.records import part
from nodegate.records.finding import Finding, Limit, Record
from nodegate.records.verdict import NODE_ORDER, NodeVerdict, Verdict
from nodegate.suite import Check
from nodegate.unknown import Unknown, Why
from nodegate.verdicts import Verdicts

PASS, WARN, FAIL, ERROR, SKIP = Verdict.PASS, Verdict.WARN, Verdict.FAIL, Verdict.ERROR, Verdict.SKIP
UNJUDGED = Verdict.NOT_JUDGED
LANES = Limit(16, "lanes", "its own maximum")


def check(function: Callable[..., None], *asks_for: str) -> Check:
    return Check("site.own", "It holds.", ("F33",), "bootcheck", asks_for or ("verdicts",), function, "It holds. (F33)")


def judged(function: Callable[..., None], *asks_for: str, facts: dict[str, object] | None = None) -> Record:
    return judge(check(function, *asks_for), (facts or {}).__getitem__, "gpu01")


# One check


def test_a_record_names_node_check_and_failure_modes() -> None:
    record = judged(lambda verdicts: verdicts.passed(part=part.gpu(0), text="responds"))
    assert (record.node, record.check, record.failure_modes) == ("gpu01", "site.own", ("F33",))
    assert (record.verdict, record.message) == (PASS, "GPU 0: responds")
    assert record.waiver == ""


def test_the_headline_is_the_first_of_the_worst_and_counts_the_others() -> None:
    def several(verdicts: Verdicts) -> None:
        verdicts.passed(part=part.gpu(0), text="good")
        verdicts.found(WARN, part=part.gpu(1), text="warm", action="cool it")
        verdicts.found(FAIL, part=part.gpu(2), text="hot", action="stop")
        verdicts.unknown(part=part.gpu(3), quantity="heat", reason="no sensor")
        verdicts.found(FAIL, part=part.gpu(4), text="hot too", action="stop")

    record = judged(several)
    assert (record.verdict, record.message) == (FAIL, "GPU 2: hot - stop (and 1 more)")
    assert [finding.verdict for finding in record.findings] == [PASS, WARN, FAIL, ERROR, FAIL]


def test_a_check_that_finds_nothing_is_an_error() -> None:
    record = judged(lambda verdicts: None)
    message = "node: the check found nothing to judge - look at the evidence file"
    assert (record.verdict, record.message) == (ERROR, message)
    assert record.findings[0].action == "look at the evidence file"


# A check that does not run to its end


def refuse(fault: BaseException) -> Callable[[Verdicts], None]:
    def end(verdicts: Verdicts) -> None:
        raise fault

    return end


@pytest.mark.parametrize(
    ("fault", "verdict", "message"),
    [
        (NotApplicable("no NVSwitch here"), SKIP, "no NVSwitch here"),
        (NotJudged("no limit gpu.count for platform x"), UNJUDGED, "no limit gpu.count for platform x"),
        (CannotMeasure("no GPU", next_step="look at PCIe"), ERROR, "no GPU - look at PCIe"),
    ],
)
def test_a_check_that_ends_early_has_the_verdict_of_its_reason(
    fault: Exception, verdict: Verdict, message: str
) -> None:
    record = judged(refuse(fault))
    assert (record.verdict, record.message) == (verdict, f"node: {message}")


@pytest.mark.parametrize("fault", [ZeroDivisionError("by 0"), KeyError("x"), RecursionError(), TypeError("unknown")])
def test_a_fault_of_a_check_is_an_error_with_its_place(fault: Exception) -> None:
    record = judged(refuse(fault))
    assert record.verdict is ERROR
    kind = type(fault).__name__
    line = refuse.__code__.co_firstlineno + 2
    assert record.message == (
        f"node: the check itself failed ({kind}: {fault} at test_records.py:{line}) - "
        "report this as a bug in nodegate, with the node's evidence file"
    )


def test_ctrl_c_is_no_verdict() -> None:
    with pytest.raises(KeyboardInterrupt):
        judged(refuse(KeyboardInterrupt()))


@pytest.mark.parametrize("stop", [SystemExit(0), SystemExit(1)])
def test_a_check_cannot_end_the_run_or_answer_for_bootcheck(stop: BaseException) -> None:
    """sys.exit(0) in a check would be the exit code "fit"."""
    assert judged(refuse(stop)).verdict is ERROR


@pytest.mark.parametrize(
    ("fault", "verdict"),
    [
        (CannotMeasure("no log", next_step="read it"), ERROR),
        (NotApplicable("alone"), SKIP),
        (NotJudged("alone"), UNJUDGED),
        (OSError("disk"), ERROR),
    ],
)
def test_a_fact_that_is_not_there_ends_the_check_before_it_begins(fault: Exception, verdict: Verdict) -> None:
    called = []

    def resolve(name: str) -> object:
        raise fault

    record = judge(check(lambda gpus, verdicts: called.append(1), "gpus", "verdicts"), resolve, "gpu01")
    assert record.verdict is verdict
    assert called == []


@pytest.mark.parametrize(
    ("before", "fault", "verdict"),
    [
        (FAIL, CannotMeasure("x", next_step="y"), FAIL),
        (FAIL, NotJudged("x"), FAIL),
        (FAIL, ValueError("x"), FAIL),
        (PASS, ValueError("x"), ERROR),
        (WARN, CannotMeasure("x", next_step="y"), ERROR),
        (PASS, NotApplicable("x"), PASS),
        (PASS, NotJudged("x"), UNJUDGED),
    ],
)
def test_what_was_found_before_the_end_stays(before: Verdict, fault: Exception, verdict: Verdict) -> None:
    def half(verdicts: Verdicts) -> None:
        verdicts.found(before, part=part.gpu(0), text="seen", action="look")
        raise fault

    record = judged(half)
    assert record.verdict is verdict
    assert len(record.findings) == 2


def test_an_unknown_that_a_check_takes_for_true_is_a_fault_of_the_check() -> None:
    def careless(gpu: object, verdicts: Verdicts) -> None:
        verdicts.passed(part=part.gpu(0), text="good") if gpu else None

    record = judged(careless, "gpu", "verdicts", facts={"gpu": Unknown(Why.LOST, "GPU is lost")})
    assert record.verdict is ERROR
    assert "an unknown value was used as true or false: lost: GPU is lost" in record.message


# Healthy devices that say the same


def widths(*lanes: object) -> Record:
    verdicts = Verdicts()
    for number, width in enumerate(lanes):
        verdicts.at_least(part=part.gpu(number), quantity="link width", observed=width, limit=LANES, action="reseat")
    return record_of(check(lambda verdicts: None), "gpu01", verdicts.findings)


def names(finding: Finding) -> str:
    return ", ".join(each.short for each in finding.parts)


def test_healthy_devices_that_say_the_same_are_one_finding() -> None:
    (finding,) = widths(16, 16, 16).findings
    assert finding.message == "3 alike: GPU 0, GPU 1, GPU 2: link width 16 lanes"
    assert (finding.observed, finding.unit, finding.limit.value) == (16, "lanes", 16)
    assert widths(16, 32).findings[0].message == "GPU 0: link width 16 lanes"


def test_other_values_and_what_is_wrong_stay_findings_of_their_own() -> None:
    record = widths(16, 8, 16, 8, 32, Unknown(Why.LOST))
    assert [(names(finding), finding.verdict) for finding in record.findings] == [
        ("GPU 0, GPU 2", PASS),
        ("GPU 1", FAIL),
        ("GPU 3", FAIL),
        ("GPU 4", PASS),
        ("GPU 5", ERROR),
    ]


@given(st.lists(st.sampled_from([8, 16, 32]), min_size=1, max_size=20))
def test_folding_loses_no_device(lanes: list[int]) -> None:
    record = widths(*lanes)
    named = [name for finding in record.findings for name in names(finding).split(", ")]
    assert sorted(named) == sorted(f"GPU {number}" for number in range(len(lanes)))
    assert record.verdict is (FAIL if 8 in lanes else PASS)


# The node


def a_record(verdict: Verdict, waiver: str = "") -> Record:
    return Record("gpu01", "site.own", verdict, (Finding(part.NODE, verdict, text="said"),), waiver=waiver)


def expected(verdicts: tuple[Verdict, ...]) -> NodeVerdict:
    """The contract in words: a fail rejects, an error leaves open, a skip alone is no success."""
    if FAIL in verdicts:
        return NodeVerdict.REJECTED
    if ERROR in verdicts:
        return NodeVerdict.INCOMPLETE
    return NodeVerdict.ACCEPTED if {PASS, WARN} & set(verdicts) else NodeVerdict.NOT_JUDGED


@pytest.mark.parametrize("size", [0, 1, 2, 3, 4])
def test_every_combination_of_verdicts(size: int) -> None:
    for verdicts in product(Verdict, repeat=size):
        records = [a_record(verdict) for verdict in verdicts]
        assert node_verdict(records) is expected(verdicts), verdicts
        assert node_verdict(iter(records)) is expected(verdicts)
        assert node_verdict(records, reachable=False) is NodeVerdict.UNREACHABLE


@pytest.mark.parametrize("others", [*product(Verdict, repeat=1), *product(Verdict, repeat=2)])
def test_a_waived_fail_changes_accepted_to_accepted_with_waivers_and_nothing_else(others: tuple[Verdict, ...]) -> None:
    records = [a_record(FAIL, waiver="riser on order (dc-ops, until 2099-01-01)"), *map(a_record, others)]
    plain = expected(others)
    waived = {NodeVerdict.ACCEPTED: NodeVerdict.WAIVED, NodeVerdict.NOT_JUDGED: NodeVerdict.WAIVED}
    assert node_verdict(records) is waived.get(plain, plain)
    assert node_verdict(reversed(records)) is waived.get(plain, plain)


def test_every_verdict_of_a_node_has_its_place_in_the_report() -> None:
    assert sorted(NODE_ORDER) == sorted(NodeVerdict)
    assert len(NODE_ORDER) == len(set(NODE_ORDER))
